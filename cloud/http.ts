// The pipeline that every route runs through: who, how often, may they, is it well-formed, once, in one commit, said aloud.
import { hash, randomUUIDv7 } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import { setTimeout } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { isCorrelationId } from "#shared/correlation.ts";
import { type FieldFault, invalid, Refusal } from "#shared/errors.ts";
import { limits, tiers } from "#shared/limits.ts";
import { holds, type Scope } from "#shared/scopes.ts";
import type { Deps } from "./app.ts";
import { countedAs } from "./caller-address.ts";
import { append } from "./domain/audit.ts";
import { byClient, hasEnded } from "./domain/credentials.ts";
import { type Answer, once, scopeOf } from "./domain/idempotency.ts";
import { receive, type Upload } from "./domain/uploads.ts";
import { schemaOf } from "./openapi.ts";
import { type Asked, type Caller, isSchema, mediaOf, pathOf, type Reply, type Route, sentWith } from "./route.ts";
import type { Store, Tx } from "./store/store.ts";
import { checkOf, fitting, type Parts } from "./validate.ts";

declare module "fastify" {
  interface FastifyRequest {
    caller: Caller;
    bytes: Buffer | null;
  }
  interface FastifyContextConfig {
    endpoint?: string;
    route?: Route;
  }
}

export const correlationId = (sent: string | string[] | undefined): string => (isCorrelationId(sent) ? sent : randomUUIDv7());

export const anonymous: Caller = {
  tenantId: "",
  credential: { kind: "anonymous", id: "", name: "anonymous" },
  scopes: [],
  deviceId: null,
  tier: "anonymous",
};

export type Limit = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

export function mount(app: FastifyInstance, routes: readonly Route[], deps: Deps, limit: Limit): void {
  for (const route of routes) {
    const endpoint = pathOf(route);
    const judge = judgeOf(route, deps);
    const shown = deps.checkReplies ? replyChecker(route) : undefined;
    const url = endpoint.replaceAll(/\{(\w+)\}/g, ":$1");
    const always = { ...(route.open ? CORS : {}), ...route.headers };
    if (route.open) answerOptions(app, url, route.open, deps, limit);
    app.route({
      method: route.method,
      url,
      schema: route.endless ? { hide: true } : schemaOf(route),
      ...(route.bodyMaxBytes === undefined ? {} : { bodyLimit: route.bodyMaxBytes }),
      config: { endpoint, route },
      onRequest: async (request, reply) => {
        void reply.headers(always);
        request.caller = await admit(route, request, reply, deps, limit);
        refuseMediaType(route, request);
      },
      handler: async (request, reply) => {
        const answer = await handle(route, request, reply, deps, judge, limit);
        if (!(answer.body instanceof Readable)) shown?.({ ...answer, body: answer.body });
        if (route.replay) void reply.header("cache-control", "no-store"); // it holds a secret
        return send(reply, answer);
      },
    });
  }
}

const CORS = {
  "access-control-allow-origin": "*",
  "access-control-expose-headers": "ETag, Link, Location, X-Correlation-Id",
  "cross-origin-resource-policy": "cross-origin",
};
const PREFLIGHT = {
  "access-control-allow-methods": "GET, HEAD, OPTIONS",
  "access-control-allow-headers": "Accept, Accept-Language, If-None-Match, X-Correlation-Id",
  "access-control-max-age": "86400",
  allow: "GET, HEAD, OPTIONS",
};

function answerOptions(app: FastifyInstance, url: string, more: NonNullable<Route["open"]>, deps: Deps, limit: Limit): void {
  app.route({
    method: "OPTIONS",
    url,
    schema: { hide: true },
    onRequest: limit,
    handler: async (request, reply) =>
      reply
        .code(204)
        .headers({ ...CORS, ...PREFLIGHT, ...more(askedBy(request), deps) })
        .send(),
  });
}

const fromOf = ({ ip, socket }: FastifyRequest): string => countedAs(ip, socket.remoteAddress);
export const askedBy = (request: FastifyRequest): Asked => ({
  method: request.method,
  url: request.originalUrl,
  headers: request.headers,
  from: () => fromOf(request),
});

/** Who is it, may they come in at this pace, is their tenant alive, does their scope reach: in this order, and before the body is read. */
async function admit(route: Route, request: FastifyRequest, reply: FastifyReply, deps: Deps, limit: Limit): Promise<Caller> {
  if (route.scope === "client") return anonymous; // counted once it is known who it is
  if (route.scope === "public") {
    if (!route.always) await limit(request, reply);
    return anonymous;
  }
  const { caller, expired } = await deps.authenticate(request.headers, request.method).catch(async (error: unknown) => {
    await limit(request, reply); // guessing has a budget as well: the address's
    throw error;
  });
  request.caller = caller;
  await limit(request, reply);
  if (expired && !route.evenExpired) throw new Refusal("SANDBOX_EXPIRED");
  if (route.scope !== "credential" && !route.scope.some((scope) => holds(caller.scopes, scope)))
    throw await deny(route, route.scope, request, deps);
  return caller;
}

/** A refusal for want of a scope is a security event: it stands in the audit log before it is answered. */
async function deny(route: Route, required: readonly Scope[], { caller, id }: FastifyRequest, { store }: Deps): Promise<Refusal> {
  const details = { required, available: caller.scopes };
  await store.write("audit scope denied", async (tx) =>
    append(tx, caller, { action: "auth.scope_denied", subject: `${route.method} ${pathOf(route)}`, details, requestId: id }),
  );
  return new Refusal(route.deniedAs ?? "API_SCOPE_DENIED", `this needs the scope ${required.join(" or ")}`, details);
}

function refuseMediaType(route: Route, { headers }: FastifyRequest): void {
  const encoding = headers["content-encoding"]?.toLowerCase() ?? "identity";
  if (encoding !== "identity") throw new Refusal("UNSUPPORTED_MEDIA_TYPE", `send the body as it is, not as ${encoding}`);
  const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(headers["content-type"] ?? "")?.[1]?.toLowerCase() ?? "utf-8";
  if (charset !== "utf-8" && charset !== "utf8" && charset !== "us-ascii")
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE", `send the body in UTF-8, not in ${charset}`);
  const sent = mediaIn(headers);
  const taken = mediaOf(route);
  if ((route.takesFile || route.takesBytes) && !taken.includes(sent))
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE", `send it as ${taken.join(" or ")}`);
  if (sent === "" || headers["content-length"] === "0") return;
  if (route.method !== "GET" && !taken.includes(sent))
    throw new Refusal("UNSUPPORTED_MEDIA_TYPE", `send ${taken.join(" or ")}, not ${sent}`);
}

const mediaIn = ({ "content-type": type = "" }: IncomingHttpHeaders): string => type.split(";")[0]?.trim().toLowerCase() ?? "";

async function handle(route: Route, request: FastifyRequest, reply: FastifyReply, deps: Deps, judge: Judge, limit: Limit): Promise<Sent> {
  const { params, query, body = {} } = request; // no body at all is an object without fields
  route.refuse?.(body);
  const [key, faults] = idempotencyKey(route, request);
  const said = headersFor(route, request, faults);
  if (!route.readsAddress) await judge(request, { params, query, body }, faults);
  if (route.scope === "client") request.caller = await client(request, reply, deps, limit);
  const caller = request.caller;
  const upload = route.takesFile ? await received(request, deps) : undefined;
  if (upload) request.bytes = upload.digest;
  const { id: requestId, bytes } = request;
  const input = {
    caller,
    params,
    query,
    body,
    requestId,
    idempotencyKey: key,
    ifMatch: request.headers["if-match"],
    upload,
    bytes: bytes ?? NO_BYTES,
    mediaType: mediaIn(request.headers),
    asked: askedBy(request),
    deps,
  };
  if (route.kind === "serve") return sentOf(route, await route.run(input));
  const label = `${route.method} ${pathOf(route)}`;
  if (route.kind === "read") return deps.store.read(label, async (tx) => answerOf(route, await route.run({ ...input, tx })));
  const units = route.isJoint ? deps.store.joint : deps.store;
  const { prepare: prepareIt } = route;
  const prepare = prepareIt && (async (): Promise<unknown> => prepareIt(input));
  const act = async (tx: Tx, prepared: unknown) => {
    const done = await route.run({ ...input, tx, prepared });
    if (done.quiet) return answerOf(route, done);
    append(tx, caller, {
      action: route.audit,
      subject: done.about?.subject ?? null,
      details: done.about?.details,
      requestId: request.id,
    });
    return answerOf(route, done);
  };
  const refused = async (tx: Tx, { code, details }: Refusal) => {
    if (code !== "API_SCOPE_DENIED") return;
    append(tx, caller, { action: "auth.scope_denied", subject: label, details, requestId: request.id });
  };
  if (key === undefined) {
    const prepared = await prepare?.();
    return units.write(label, (tx) => act(tx, prepared)).catch((error: unknown) => tellOf(error, deps.store, refused));
  }
  const sent = { scope: scopeOf(caller, label), key, fingerprint: fingerprint(request, said), ...lockOf(route, body) };
  return once(units, label, sent, { act, refused, prepare });
}

type Judge = (request: FastifyRequest, parts: Parts, faults: FieldFault[]) => Promise<void>;

/** The route's check, which refuses an unfit body as such only where a fit one might have been taken. */
function judgeOf(route: Route, { store }: Deps): Judge {
  const check = checkOf(route);
  const guard = route.kind === "write" ? route.guard : undefined;
  if (!guard) return async (_, parts, faults) => check(parts, faults);
  const address = checkOf({ params: route.params });
  return async ({ caller, params }, parts, faults) => {
    try {
      check(parts, faults);
    } catch (unfit) {
      if (isFit(() => address({ params, query: {}, body: {} }, []))) await store.read("guard", (tx) => guard({ tx, caller, params }));
      throw unfit;
    }
  };
}

function isFit(check: () => void): boolean {
  try {
    check();
    return true;
  } catch {
    return false;
  }
}

/** The bytes of the file, whichever way it was sent. What ends in the middle of it is its sender's fault. */
async function received(request: FastifyRequest, { store }: Deps): Promise<Upload> {
  try {
    return await receive(store, request.isMultipart() ? fileIn(request) : request.raw);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw new Refusal("MALFORMED_REQUEST", `the file didn't arrive whole: ${(error as Error).message}`);
  }
}

/** The one part of a form that there may be: a second one would be dropped in silence. */
async function* fileIn(request: FastifyRequest): AsyncGenerator<Buffer> {
  let found = false;
  for await (const part of request.parts()) {
    if (part.type !== "file" || part.fieldname !== "file" || found)
      throw invalid([{ field: part.fieldname, rule: "unknown", message: "isn't known: the form has one part, named file" }]);
    found = true;
    yield* part.file as AsyncIterable<Buffer>;
    if (part.file.truncated) throw new Refusal("PAYLOAD_TOO_LARGE");
  }
  if (!found) throw invalid([{ field: "file", rule: "required", message: "is missing: the form has no file" }]);
}

/** What a refusal undid includes its audit row: where it has to leave one, that is a unit of its own. */
async function tellOf(error: unknown, store: Store, refused: (tx: Tx, refusal: Refusal) => Promise<void>): Promise<never> {
  if (error instanceof Refusal && error.code === "API_SCOPE_DENIED") await store.write("audit refusal", (tx) => refused(tx, error));
  throw error;
}

/** Where an answer is a secret as a whole, the secret of its request locks the copy that is kept. */
function lockOf({ replay }: Route, body: unknown): { lockWith?: string; keepMs?: number } {
  if (!replay || !("lockWith" in replay)) return {};
  return { lockWith: String((body as Record<string, unknown>)[replay.lockWith]), keepMs: replay.keepMs };
}

/** An OAuth client is known by what its body says. A wrong secret for a real client is told to that client's tenant. */
async function client(request: FastifyRequest, reply: FastifyReply, { store, lockout }: Deps, limit: Limit): Promise<Caller> {
  const { body, id, headers } = request;
  const { client_id, client_secret } = body as { client_id: string; client_secret: string };
  const from = fromOf(request);
  lockout.admit(client_id, from);
  const notBefore = setTimeout(limits.WRONG_SECRET_ANSWER_MIN_MS, undefined, { ref: false });
  const known = await store.read("oauth client", async (tx) => {
    const found = await byClient(tx, client_id, { secret: client_secret });
    return found && { ...found, ended: hasEnded(found, tx.now) };
  });
  if (known?.genuine) request.caller = known.caller;
  await limit(request, reply);
  if (!known?.genuine) {
    lockout.wrong(client_id, from);
    if (known)
      await store.write("audit token refused", async (tx) =>
        append(tx, known.caller, { action: "auth.token_refused", subject: client_id, requestId: id }),
      );
    await notBefore;
    const hint = headers.authorization === undefined ? "" : "; send them in the body, Authorization isn't read here";
    throw new Refusal("invalid_client", `client_id or client_secret is wrong${hint}`);
  }
  lockout.right(client_id, from);
  if (known.ended) throw new Refusal("SANDBOX_EXPIRED");
  return known.caller;
}

function idempotencyKey(route: Route, { headers }: FastifyRequest): [key: string | undefined, faults: FieldFault[]] {
  const key = headers["idempotency-key"];
  const wrong = (rule: string, message: string): [undefined, FieldFault[]] => [undefined, [{ field: "Idempotency-Key", rule, message }]];
  if (key === undefined)
    return route.idempotencyKey === "required" ? wrong("required", "this route needs the header; a UUID is a good one") : [undefined, []];
  if (typeof key !== "string" || key.length > limits.IDEMPOTENCY_KEY_MAX_LENGTH || !/^[\x20-\x7e]+$/.test(key))
    return wrong("format", `must be 1 to ${limits.IDEMPOTENCY_KEY_MAX_LENGTH} printable ASCII characters`);
  return [key, []];
}

/** What the headers say that a route takes, and what is wrong with them. */
function headersFor({ takesHeaders = {} }: Route, { headers }: FastifyRequest, faults: FieldFault[]): string[] {
  return Object.entries(takesHeaders).flatMap(([name, { oneOf }]) => {
    const value = headers[name.toLowerCase()];
    if (value === undefined) return [];
    if (typeof value !== "string" || !oneOf.includes(value))
      faults.push({ field: name, rule: "enum", message: `must be one of ${oneOf.join(", ")}` });
    return `${name}: ${String(value)}`;
  });
}

/** What "the same request" means: method, address, what its headers say to the route, and the bytes of the body. */
const fingerprint = ({ method, url, headers, bytes }: FastifyRequest, said: string[]): Buffer => {
  const head = [`${method} ${url}`, headers["if-match"] ?? "", ...said, ""].join("\n");
  return hash("sha256", Buffer.concat([Buffer.from(head), bytes ?? NO_BYTES]), "buffer");
};
const NO_BYTES = Buffer.alloc(0);

/** What leaves: an answer, or one whose body comes as it is made. */
type Sent = Omit<Answer, "body"> & { body: Answer["body"] | Readable };
const sentOf = (route: Route, reply: Reply): Sent =>
  reply.body instanceof Readable ? { status: reply.status, headers: reply.headers ?? {}, body: reply.body } : answerOf(route, reply);

function answerOf(route: Route, { status, body, headers = {} }: Reply): Answer {
  if (body === undefined) return { status, headers, body: null };
  if (typeof body === "string") return { status, headers, body };
  const answer: Answer = { status, headers, body: JSON.stringify(body) };
  if (route.replay && "hide" in route.replay) answer.keep = JSON.stringify(hidden(body, route.replay.hide));
  return answer;
}

/** A copy in which the paths are null: what a replay of a mint shows. */
const hidden = (body: object, paths: readonly string[]): object => paths.reduce((copy, path) => without(copy, path.split(".")), body);

function without(value: object, [name = "", ...rest]: string[]): object {
  const inner = (value as Record<string, object>)[name] ?? {};
  return { ...value, [name]: rest.length === 0 ? null : without(inner, rest) };
}

function send(reply: FastifyReply, { status, headers, body }: Sent): FastifyReply {
  const type = body === null ? {} : { "content-type": "application/json; charset=utf-8" };
  return reply
    .code(status)
    .headers({ ...type, ...headers })
    .send(typeof body === "string" && headers["content-type"] !== undefined ? Buffer.from(body) : (body ?? undefined)); // as bytes its type stays as it is
}

/** In tests an answer that isn't documented is a fault, so that the document stays true. */
function replyChecker(route: Route): (answer: Answer) => void {
  const shapes = Object.fromEntries(
    Object.entries(route.replies).map(([status, shape]) => [status, isSchema(shape) ? fitting(shape) : undefined]),
  );
  return ({ status, body, headers }) => {
    if (status >= 400) return;
    for (const name of ["ETag", "Location"] as const)
      if (name.toLowerCase() in headers !== sentWith(route, status).includes(name))
        throw new Error(`${route.method} ${pathOf(route)} and its document disagree about the header ${name}`);
    if (!(status in shapes)) throw new Error(`${route.method} ${pathOf(route)} answered ${status}, which it doesn't document`);
    const validate = shapes[status];
    if (validate && !validate(JSON.parse(body ?? "null")))
      throw new Error(`${route.method} ${pathOf(route)} answered a shape it doesn't document: ${JSON.stringify(validate.errors)}`);
  };
}

/** The budget that a request is counted against: its credential's, or its address's while it has none. */
export const budgetOf = (request: FastifyRequest): { key: string; perMinute: number } => {
  const { credential, tier } = request.caller;
  return credential.kind === "anonymous"
    ? { key: `ip:${fromOf(request)}`, perMinute: tiers.anonymous }
    : { key: credential.id, perMinute: tiers[tier] };
};
