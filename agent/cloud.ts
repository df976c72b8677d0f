// The cloud as the station meets it: every call, its answer read by the shared schemas, and refusals as values with their code.
import ky, { type KyInstance } from "ky";
import { Ajv, type ValidateFunction } from "ajv";
import { type TSchema, Type } from "typebox";
import { API, NO_SUCH_ADDRESS } from "#shared/api.ts";
import { bodyWithin } from "#shared/bounded-body.ts";
import { reasonOf } from "#shared/fault.ts";
import { type LostLabel, Recovered } from "#shared/wire/carriers.ts";
import { ErrorReply, listOf, type Static } from "#shared/wire/common.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { rankOf } from "#shared/states.ts";
import { Device, type DeviceCreate, DeviceMade, Station, type StationReport } from "#shared/wire/devices.ts";
import {
  BlobKept,
  type ClaimBatch,
  ClaimedMany,
  EvidenceBundle,
  Job,
  type JobCreate,
  JobHistory,
  LeaseTaken,
  Orphan,
  type OrphanReport,
  ResultOutcomes,
} from "#shared/wire/jobs.ts";
import { callHeaders, callId, isOfAnotherCall } from "./click.ts";
import type { ReportBody } from "./buffer-reports.ts";
import { readable } from "./words.ts";

/** `status` 0: no answer came, so that nobody knows whether it was done. */
export type NoAnswer = {
  ok: false;
  status: number;
  code: string;
  message: string;
  retryAfterMs?: number;
  /** Where a page in the cloud's place leads: nobody follows it, or whoever is there would have our key. */
  leadsTo?: string;
  /** Refused by ourselves: the cloud wasn't asked. */
  unasked?: true;
};
export type Said<T> = { ok: true; value: T } | NoAnswer;
export type CloudClient = ReturnType<typeof cloudClient>;

const ANSWER_MAX_MS = 10_000;
const ANSWER_MAX_BYTES = 16_777_216; // several times what the longest takes, of 500 results or 200 claims
const WORDS_MAX_LENGTH = 2_000; // the page, the log and the buffer keep them
const WAIT_MAX_MS = 300_000; // whatever a proxy says: reports wait no longer once the cloud is back, and a timer counts to 24 days only
const MIXED_UP = "the answer to another call came: what stands between keeps answers, or mixes them up";
const Jwks = Type.Object({ keys: Type.Array(Type.Record(Type.String(), Type.Unknown())) });
/** A header can't carry spaces or other signs, as the key of the documented example has. */
const isKeylike = (key: string): boolean => /^[!-~]+$/.test(key.trim());
const UNKEYLIKE = saying("key_unlike");
const ajv = new Ajv({ strict: false, validateFormats: false, meta: false, validateSchema: false });
const fits = new Map<TSchema, ValidateFunction>();

/** Members that a newer cloud adds are no fault; what is missing or of another kind is. */
function reads<T extends TSchema>(schema: T, value: unknown): value is Static<T> {
  const check = fits.get(schema) ?? ajv.compile(open(schema));
  fits.set(schema, check);
  return check(value);
}
const open = (schema: unknown): object =>
  JSON.parse(JSON.stringify(schema), (name, value: unknown) =>
    name === "additionalProperties" && value === false ? true : value,
  ) as object;

type CloudOptions = {
  timeoutMs?: number;
  /** The date on each answer. */
  heard?: { now(): number; date(ms: number, askedAt: number): void };
};

type Sending = {
  correlation?: string | null;
  json?: unknown;
  body?: Uint8Array<ArrayBuffer>;
  key?: string;
  type?: string;
  /** Without our key: what anybody may ask for. */
  keyless?: true;
};

export function cloudClient(origin: string, key: string, { timeoutMs = ANSWER_MAX_MS, heard }: CloudOptions = {}) {
  const underWay = new Set<AbortController>();
  let isOver = false;
  const ends = (stop: AbortController) => stop.abort(new Error("the station ends"));
  const http: KyInstance = ky.create({
    retry: 0,
    throwHttpErrors: false,
    timeout: false, // it would end with the answer's head
    redirect: "manual",
    headers: { "user-agent": "imprimatur-agent" },
  });

  /** One deadline over head and body, and our own: a signal is forgotten with the request once the head is there. */
  async function inTime<T>(ask: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const stop = new AbortController();
    const gone = new Promise<never>((_resolve, reject) => stop.signal.addEventListener("abort", () => reject(stop.signal.reason as Error)));
    const timer = setTimeout(() => stop.abort(new Error(`no whole answer within ${timeoutMs} ms`)), timeoutMs);
    underWay.add(stop);
    if (isOver) ends(stop);
    try {
      return await Promise.race([ask(stop.signal), gone]);
    } finally {
      clearTimeout(timer);
      underWay.delete(stop);
    }
  }

  async function exchange(signal: AbortSignal, method: string, path: string, sending: Sending) {
    const { json, body, key: idempotencyKey, type, correlation, keyless } = sending;
    const askedAt = heard?.now() ?? 0;
    const id = correlation ?? callId();
    const response = await http(origin + path, {
      method,
      signal,
      ...(json === undefined ? {} : { json }),
      ...(body === undefined ? {} : { body }),
      headers: {
        ...callHeaders(id),
        ...(keyless ? {} : { authorization: `Bearer ${key}` }),
        ...(idempotencyKey ? { "idempotency-key": idempotencyKey } : {}),
        ...(type ? { "content-type": type } : {}),
      },
    });
    if (isOfAnotherCall(id, response.headers.get("x-correlation-id"))) throw new Error(MIXED_UP);
    heard?.date(Date.parse(response.headers.get("date") ?? ""), askedAt);
    const tooLarge = () => new Error(`it answers more than ${ANSWER_MAX_BYTES} bytes`);
    return { response, text: String(await bodyWithin(response, ANSWER_MAX_BYTES, tooLarge, signal)) };
  }

  async function call<T extends TSchema>(
    method: string,
    path: string,
    shape: T | undefined,
    sending: Sending = {},
  ): Promise<Said<Static<T>>> {
    if (!sending.keyless && !isKeylike(key)) return { ok: false, status: 401, code: "UNAUTHORIZED", message: UNKEYLIKE, unasked: true };
    try {
      const { response, text } = await inTime((signal) => exchange(signal, method, path, sending));
      const answer: unknown = text === "" ? undefined : parsed(text);
      if (!response.ok) return refusalOf(response, answer);
      if (shape === undefined ? text === "" : reads(shape, answer)) return { ok: true, value: answer as Static<T> };
      const message = `${method} ${path} answered ${response.status} with something else than agreed`;
      return { ok: false, status: 502, code: "NOT_UNDERSTOOD", message };
    } catch (error) {
      return unanswered(reasonOf(error as Error));
    }
  }
  const unanswered = (why: string): NoAnswer => ({ ok: false, status: 0, code: "NO_ANSWER", message: `${origin} doesn't answer: ${why}` });

  return {
    /** Gives up what is under way, and whatever is asked from now on. */
    end: () => {
      isOver = true;
      underWay.forEach(ends);
    },
    /** For who sets a station up. */
    devices: (cursor: string) =>
      call(
        "GET",
        `${API}/devices?limit=${limits.PAGE_MAX_ITEMS}${cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`}`,
        listOf(Device),
      ),
    register: (device: DeviceCreate, idempotencyKey: string) =>
      call("POST", `${API}/devices`, DeviceMade, { json: device, key: idempotencyKey }),
    unregister: (id: string) => call("DELETE", `${API}/devices/${id}`, undefined),
    station: () => call("GET", `${API}/aidc/station`, Station),
    tell: (report: StationReport) => call("POST", `${API}/aidc/station`, Device, { json: report }),
    jwks: () => call("GET", "/.well-known/jwks.json", Jwks, { keyless: true }),
    claim: (wanted: ClaimBatch, idempotencyKey: string) =>
      call("POST", `${API}/aidc/jobs/claim/batch`, ClaimedMany, { json: wanted, key: idempotencyKey }),
    heartbeat: (ref: string, attemptId: string, leaseSeconds: number) =>
      call("POST", `${API}/aidc/jobs/${ref}/heartbeat`, LeaseTaken, { json: { attempt_id: attemptId, lease_seconds: leaseSeconds } }),
    result: async ({ job_ref: ref, ...result }: ReportBody, idempotencyKey: string, correlation: string | null = null) => {
      const said = await call("POST", `${API}/aidc/jobs/${ref}/result`, Job, { json: result, key: idempotencyKey, correlation });
      return said.ok && isOfEarlier(said.value, result) ? unanswered(MIXED_UP) : said;
    },
    results: (results: (ReportBody & { idempotency_key: string })[]) =>
      call("POST", `${API}/aidc/results`, ResultOutcomes, { json: { results } }),
    orphan: (orphan: OrphanReport, idempotencyKey: string, correlation: string | null = null) =>
      call("POST", `${API}/aidc/orphans`, Orphan, { json: orphan, key: idempotencyKey, correlation }),
    issue: (job: JobCreate, idempotencyKey: string) => call("POST", `${API}/aidc/jobs`, Job, { json: job, key: idempotencyKey }),
    /** A page of the jobs in a state: those that a device holds, or all. */
    jobs: (query: { device?: string; state: string; cursor?: string }) =>
      call("GET", `${API}/aidc/jobs?${new URLSearchParams({ ...query, limit: String(limits.PAGE_MAX_ITEMS) }).toString()}`, listOf(Job)),
    recover: (labels: LostLabel[]) => call("POST", `${API}/carriers/recover`, Recovered, { json: { labels } }),
    evidence: (ref: string) => call("GET", `${API}/aidc/jobs/${ref}/evidence`, EvidenceBundle),
    history: (ref: string) => call("GET", `${API}/aidc/jobs/${ref}/history`, JobHistory),
    picture: (sha256: string, mediaType: string, bytes: Uint8Array<ArrayBuffer>) =>
      call("PUT", `${API}/aidc/evidence/${sha256}`, BlobKept, { body: bytes, type: mediaType }),
  };
}

/** It tells of before this was said: the answer to another call of the same click, which goes under the same id. */
const isOfEarlier = ({ attempt_id: of, state }: Static<typeof Job>, { attempt_id: told, status }: Omit<ReportBody, "job_ref">): boolean =>
  of === told && rankOf(state) >= 0 && rankOf(state) < rankOf(status);

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // a proxy's page
  }
}

/** What is said in the cloud's place may be of any length, and hold what a terminal obeys. */
export const wordsIn = ({ code, message }: Static<typeof ErrorReply>["error"]): Pick<NoAnswer, "code" | "message"> => ({
  code: readable(code, WORDS_MAX_LENGTH),
  message: readable(message, WORDS_MAX_LENGTH),
});

const CODE = /^[A-Z][A-Z\d_]*$/; // a gateway may refuse in the same shape
function refusalOf({ status, headers }: Response, answer: unknown): NoAnswer {
  // Of an address that we didn't ask for it says nothing of what we did.
  const said =
    reads(ErrorReply, answer) && CODE.test(answer.error.code) && answer.error.message !== NO_SUCH_ADDRESS
      ? wordsIn(answer.error)
      : pageOf(status, readable(headers.get("location") ?? "", WORDS_MAX_LENGTH));
  const afterMs = waitIn(headers);
  return {
    ok: false,
    status,
    ...said,
    ...(afterMs > 0 ? { retryAfterMs: Math.min(afterMs, WAIT_MAX_MS) } : {}),
  };
}
const pageOf = (status: number, leadsTo: string) => {
  const page = { code: `HTTP_${status}`, message: `the cloud answered ${status}` };
  return leadsTo === "" ? page : { ...page, leadsTo, message: `${page.message}, which leads to ${leadsTo}` };
};
/** Retry-After: seconds, or a date by the clock of who says it. */
function waitIn(headers: Headers): number {
  const said = headers.get("retry-after") ?? "";
  return Number(said) * 1_000 || Date.parse(said) - Date.parse(headers.get("date") ?? "");
}
