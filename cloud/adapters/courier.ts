// Carries one signed body to one address and says what came back: no redirect, no private door, no more time or bytes than a try may take.
import { lookup as systemLookup, NODATA, NOTFOUND, promises as dns } from "node:dns";
import http from "node:http";
import https from "node:https";
import type { LookupFunction } from "node:net";
import { codeOf } from "#shared/fault.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { addressFault, hostOf, urlFault } from "./address.ts";
import { type Signed, signatureHeaders } from "./signature.ts";

export type Errand = Signed & { url: string; /** Beside those of the signature. */ headers?: Record<string, string> };
export type Outcome = { status: number | null; error: string | null; latencyMs: number; head: string | null };
export type Courier = { send(errand: Errand): Promise<Outcome>; /** What is still on its way is given up. */ close(): Promise<void> };
export type CourierOptions = {
  /** Private and loopback addresses too, and http. */
  allowPrivate: boolean;
  tryMaxMs?: number | undefined;
  /** Name servers other than the system's. */
  nameServers?: string[] | undefined;
  /** Certificates trusted besides the public ones. */
  ca?: string | undefined;
};

type Addresses = { address: string; family: number }[];
const DNS_TRY_MS = 2_000;
const IDLE_SOCKETS_PER_HOST = 256;

/**
 * Names on the open internet are asked for by a resolver of its own: the system's takes a thread for as long as a name server likes, and
 * there are four. Inside a private network the system's is the one that knows the names.
 */
function resolver({ allowPrivate, nameServers }: CourierOptions): (host: string) => Promise<Addresses> {
  if (allowPrivate && !nameServers)
    return (host) =>
      new Promise((resolve, reject) => {
        systemLookup(host, { all: true }, (error, found) => (error ? reject(error) : resolve(found)));
      });
  const begun = () => {
    const made = new dns.Resolver({ timeout: DNS_TRY_MS, tries: 2 });
    if (nameServers) made.setServers(nameServers);
    return made;
  };
  let own: dns.Resolver | undefined;
  return async (host) => {
    const asked = (own ??= begun());
    const [v4, v6] = await Promise.allSettled([asked.resolve4(host), asked.resolve6(host)]);
    const found = [
      ...(v4.status === "fulfilled" ? v4.value.map((address) => ({ address, family: 4 })) : []),
      ...(v6.status === "fulfilled" ? v6.value.map((address) => ({ address, family: 6 })) : []),
    ];
    if (found.length > 0 || v4.status === "fulfilled") return found;
    if (own === asked && !NO_SUCH.has(codeOf(v4.reason))) own = undefined; // it knows the name servers of its beginning, and the machine may have others by now
    throw v4.reason;
  };
}
const NO_SUCH = new Set<string>([NOTFOUND, NODATA]);

/** Called by the socket that is about to connect: it gets the addresses that were judged and no others, so a name can't change its mind. */
function guardedLookup(options: CourierOptions): LookupFunction {
  const resolve = resolver(options);
  return (host, wanted, done) => {
    const judged = resolve(hostOf(host)).then((found) => {
      const usable = found.filter(({ family }) => !wanted.family || wanted.family === family);
      if (usable.length === 0) throw new Error(`${host} has no address`);
      for (const { address } of usable) {
        const fault = addressFault(address, options.allowPrivate, "what it leads to"); // our name servers may know the house's own names; a tenant needn't
        if (fault) throw new Error(`${host}: ${fault}`);
      }
      return usable as [Addresses[0], ...Addresses];
    });
    // oxlint-disable promise/no-callback-in-promise -- a socket asks by callback
    judged.then(
      (usable) => (wanted.all ? done(null, usable) : done(null, usable[0].address, usable[0].family)),
      (error: NodeJS.ErrnoException) => done(error, wanted.all ? [] : ""),
    );
    // oxlint-enable promise/no-callback-in-promise
  };
}

export function createCourier(options: CourierOptions): Courier {
  const { allowPrivate, tryMaxMs = limits.WEBHOOK_TRY_MAX_MS, ca } = options;
  const lookup = guardedLookup(options);
  const pool = { keepAlive: true, maxFreeSockets: IDLE_SOCKETS_PER_HOST, timeout: 2 * tryMaxMs, lookup };
  const agents = { "http:": new http.Agent(pool), "https:": new https.Agent({ ...pool, ...(ca ? { ca } : {}) }) };
  const open = new Set<http.ClientRequest>();

  function begin({ url, headers, ...signed }: Errand): http.ClientRequest {
    const target = new URL(url);
    const fault = urlFault(url, allowPrivate); // a literal address is never looked up, and rules may have changed since it was taken in
    if (fault) throw new Error(`the URL ${fault}`);
    const body = Buffer.from(signed.body, "utf8");
    const { request } = target.protocol === "https:" ? https : http;
    const made = request(target, {
      method: "POST",
      agent: agents[target.protocol as "https:"],
      headers: {
        "content-type": "application/json; charset=utf-8",
        "content-length": body.length,
        "user-agent": "Imprimatur-Webhooks/2",
        ...headers,
        ...signatureHeaders(signed),
      },
    });
    open.add(made);
    made.once("close", () => open.delete(made));
    made.end(body);
    return made;
  }

  async function attempt(errand: Errand, left: () => number): Promise<Omit<Outcome, "latencyMs">> {
    const request = begin(errand);
    let answered = false;
    let late: Error | undefined;
    request.once("response", () => (answered = true));
    const timer = setTimeout(() => {
      late = new Error(saying("webhook_late", { seconds: tryMaxMs / 1000 }));
      request.destroy(late);
    }, left());
    try {
      return await answerOf(request);
    } catch (error) {
      // A kept connection that the other side closed just as we wrote to it: the request never began there.
      const wasStale = request.reusedSocket && !answered && codeOf(error) === "ECONNRESET";
      if (!late && wasStale) return await attempt(errand, left);
      throw late ?? error;
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    send: async (errand) => {
      const began = performance.now();
      const elapsed = () => performance.now() - began;
      try {
        const answer = await attempt(errand, () => Math.max(0, tryMaxMs - elapsed()));
        return { ...answer, latencyMs: Math.round(elapsed()) };
      } catch (error) {
        return { status: null, error: sentence(error), head: null, latencyMs: Math.round(elapsed()) };
      }
    },
    close: async () => {
      for (const request of open) request.destroy(new Error("given up: this node is stopping"));
      for (const agent of Object.values(agents)) agent.destroy();
    },
  };
}

/** The status, and as much of the body as is worth showing. What says more than we read is cut off; what says less than it promised is a fault. */
function answerOf(request: http.ClientRequest): Promise<Omit<Outcome, "latencyMs">> {
  return new Promise((resolve, reject) => {
    let brokenOff: (error: Error) => void = reject;
    let words: "ended_unanswered" | "ended_midway" = "ended_unanswered";
    request.once("error", (error) => brokenOff(error));
    request.once("close", () => brokenOff(new Error(saying(words)))); // all that Node says of a 101
    request.once("response", (response) => {
      words = "ended_midway";
      const chunks: Buffer[] = [];
      let bytes = 0;
      const done = () =>
        resolve({
          status: response.statusCode ?? null,
          error: null,
          head: headOf(Buffer.concat(chunks), response.headers["content-type"]),
        });
      if (isNo(response.statusCode)) brokenOff = done; // whatever becomes of its words
      else brokenOff = (error) => (response.complete ? done() : reject(error)); // some send words behind a 204, which has none
      response.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes <= limits.WEBHOOK_RESPONSE_MAX_BYTES) chunks.push(chunk);
        if (bytes < limits.WEBHOOK_RESPONSE_MAX_BYTES) return;
        done();
        response.destroy();
      });
      response.once("end", done);
      response.once("error", (error) => brokenOff(error));
    });
  });
}

/** A no for good: it isn't asked again. */
export const isNo = (status: number | null | undefined): boolean => typeof status === "number" && status >= 400 && status < 500;

/** As text a database can hold, whatever it was. */
const headOf = (body: Buffer, type = ""): string | null => {
  if (body.length === 0) return null;
  if (/^(image|audio|video|font)\/|octet-stream/.test(type)) return `(${type.slice(0, limits.WEBHOOK_HEAD_MAX_LENGTH - 2)})`;
  const text = body.subarray(0, 4 * limits.WEBHOOK_HEAD_MAX_LENGTH).toString("utf8");
  return text
    .replaceAll(/[\0\p{Cs}\ufffd]/gu, "·")
    .slice(0, limits.WEBHOOK_HEAD_MAX_LENGTH)
    .toWellFormed();
};

function sentence(error: unknown): string {
  const { message, code } = error as NodeJS.ErrnoException;
  const [first] = error instanceof AggregateError ? (error.errors as Error[]) : [];
  const text = first?.message || message || code || saying("connection_failed");
  return text.replaceAll("\0", "·").toWellFormed().slice(0, limits.WEBHOOK_HEAD_MAX_LENGTH);
}
