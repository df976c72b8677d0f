// What a request says beside its body: who it comes from, in which words, under which key; and the bytes of the file that it brings.
import { hash, randomUUIDv7 } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { FastifyRequest } from "fastify";
import { isCorrelationId } from "#shared/correlation.ts";
import { type FieldFault, invalid, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { countedAs } from "./caller-address.ts";
import { receive, type Upload } from "./domain/uploads.ts";
import { originForm } from "./link-shape.ts";
import { type Asked, mediaOf, type Route } from "./route.ts";
import type { Store } from "./store/store.ts";

export const correlationId = (sent: string | string[] | undefined): string => (isCorrelationId(sent) ? sent : randomUUIDv7());

export const fromOf = ({ ip, socket }: FastifyRequest): string => countedAs(ip, socket.remoteAddress);
export const askedBy = (request: FastifyRequest): Asked => ({
  method: request.method,
  url: originForm(request.originalUrl),
  headers: request.headers,
  from: () => fromOf(request),
});

/** RFC 9112, 6.3: a request that says no length has none. */
export const hasNoBody = ({ headers }: FastifyRequest): boolean =>
  headers["transfer-encoding"] === undefined && (headers["content-length"] ?? "0") === "0";

export function refuseMediaType(route: Route, request: FastifyRequest): void {
  const { headers } = request;
  const encoding = (!hasNoBody(request) && route.method !== "GET" && headers["content-encoding"]?.toLowerCase()) || "identity"; // nothing isn't coded
  if (encoding !== "identity") throw new Refusal("UNSUPPORTED_MEDIA_TYPE", `send the body as it is, not as ${encoding}`);
  const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(headers["content-type"] ?? "")?.[1]?.toLowerCase() ?? "utf-8";
  if (charset !== "utf-8" && charset !== "utf8" && charset !== "us-ascii")
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE", `send the body in UTF-8, not in ${charset}`);
  const sent = mediaIn(headers);
  const taken = mediaOf(route);
  if ((route.takesFile || route.takesBytes) && !taken.includes(sent))
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE", `send it as ${taken.join(" or ")}`);
  if (sent === "") return;
  if (route.method !== "GET" && !taken.includes(sent))
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE", `send ${taken.join(" or ")}, not ${sent}`);
}

/** A query is held to what a path is: its escapes have to be UTF-8. Nobody reads what can't be decoded, and nothing is passed on that nobody could read. */
export function refuseUndecodable({ originalUrl: url }: FastifyRequest): void {
  const at = url.indexOf("?");
  if (at < 0 || !url.includes("%", at)) return;
  try {
    decodeURIComponent(url.slice(at + 1));
  } catch {
    throw new Refusal(
      "MALFORMED_REQUEST",
      "the query can't be decoded: each % has to begin an escape of UTF-8 (a percent sign itself is %25)",
    );
  }
}

export const mediaIn = ({ "content-type": type = "" }: IncomingHttpHeaders): string => type.split(";")[0]?.trim().toLowerCase() ?? "";

/** A client may say who it is by HTTP Basic (RFC 6749, 2.3.1): then that counts as said in the body, each part decoded as a form's. */
export function withBasic(body: unknown, { authorization = "" }: IncomingHttpHeaders): unknown {
  const [, coded] = /^Basic +([\w+/-]+=*) *$/i.exec(authorization) ?? [];
  if (coded === undefined || typeof body !== "object" || body === null || "client_secret" in body) return body;
  const [id = "", ...secret] = Buffer.from(coded, "base64").toString("utf8").split(":");
  const said = new URLSearchParams(`client_id=${asForm(id)}&client_secret=${asForm(secret.join(":"))}`);
  return { ...Object.fromEntries(said), ...body };
}
/** Clients that don't encode what they send have nothing in it that a form would read otherwise. */
const asForm = (part: string): string => part.replaceAll("&", "%26");

/** `key`: by which the request is done once; `said`: what else its headers say to the route, which makes it another request. */
export type Headed = { key: string | undefined; said: string[]; faults: FieldFault[] };
export function headersFor(route: Route, { headers }: FastifyRequest): Headed {
  const faults: FieldFault[] = [];
  const key = idempotencyKey(route, headers, faults);
  if (route.takesIfMatch && !isIfMatch(headers["if-match"]))
    faults.push({ field: "If-Match", rule: "etag", message: 'must be an ETag in quotes, such as "3"' });
  return { key, said: ownHeaders(route, headers, faults), faults };
}

function idempotencyKey(route: Route, { "idempotency-key": key }: IncomingHttpHeaders, faults: FieldFault[]): string | undefined {
  const wrong = (rule: string, message: string): void => void faults.push({ field: "Idempotency-Key", rule, message });
  if (key === undefined) {
    if (route.idempotencyKey === "required") wrong("required", "this route needs the header, and a UUID is a good one");
    return undefined;
  }
  if (typeof key === "string" && key.length <= limits.IDEMPOTENCY_KEY_MAX_LENGTH && /^[\x20-\x7e]+$/.test(key)) return key;
  wrong("format", `must be 1 to ${limits.IDEMPOTENCY_KEY_MAX_LENGTH} printable ASCII characters`);
  return undefined;
}

const isIfMatch = (said = "*"): boolean => said.trim() === "*" || said.split(",").every((tag) => /^(W\/)?"[^"]*"$/.test(tag.trim()));

function ownHeaders({ takesHeaders = {} }: Route, headers: IncomingHttpHeaders, faults: FieldFault[]): string[] {
  return Object.entries(takesHeaders).flatMap(([name, { oneOf }]) => {
    const value = headers[name.toLowerCase()];
    if (value === undefined) return [];
    if (typeof value !== "string" || !oneOf.includes(value))
      faults.push({ field: name, rule: "enum", message: `must be one of ${oneOf.join(", ")}` });
    return `${name}: ${String(value)}`;
  });
}

/** What "the same request" means: method, address, what its headers say to the route, and the bytes of the body. */
export const fingerprint = ({ method, url, headers, bytes }: FastifyRequest, said: string[]): Buffer => {
  const head = [`${method} ${url}`, headers["if-match"] ?? "", ...said, ""].join("\n");
  return hash("sha256", Buffer.concat([Buffer.from(head), bytes ?? NO_BYTES]), "buffer");
};
export const NO_BYTES = Buffer.alloc(0);

/** The bytes of the file, whichever way it was sent. What ends in the middle of it is its sender's fault. */
export async function received(request: FastifyRequest, store: Store): Promise<Upload> {
  try {
    return await receive(store, request.isMultipart() ? fileIn(request) : request.raw);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal("MALFORMED_REQUEST", `the file didn't arrive whole: ${(error as Error).message}`);
  }
}

/** A file's name may be left out of its part (RFC 7578, 4.2). */
const isPartAFile = (field?: string, type?: string, fileName?: string): boolean =>
  field === "file" || fileName !== undefined || type === "application/octet-stream";

/** The one part of a form that there may be: a second one would be dropped in silence. */
async function* fileIn(request: FastifyRequest): AsyncGenerator<Buffer> {
  let found = false;
  for await (const part of request.parts({ isPartAFile })) {
    if (part.type !== "file" || part.fieldname !== "file")
      throw invalid([{ field: part.fieldname, rule: "unknown", message: "isn't known: the form has one part, named file" }]);
    if (found) throw invalid([{ field: "file", rule: "once", message: saying("is_twice") }]);
    found = true;
    yield* part.file as AsyncIterable<Buffer>;
    if (part.file.truncated) throw new Refusal("PAYLOAD_TOO_LARGE");
  }
  if (!found) throw invalid([{ field: "file", rule: "required", message: "is missing: the form has no file" }]);
}
