// The pipeline that every route runs through: who, how often, may they, is it well-formed, once, in one commit, said aloud.
import { setTimeout } from "node:timers/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type ErrorBody, type FieldFault, invalid, Refusal } from "#shared/errors.ts";
import { limits, tiers } from "#shared/limits.ts";
import { holds, type Scope } from "#shared/scopes.ts";
import { answerOf, replyChecker, send, type Sent, sentOf, unlessKnown } from "./answer.ts";
import { challenge } from "./auth.ts";
import type { Deps } from "./deps.ts";
import { append } from "./domain/audit.ts";
import { byClient, type Caller, hasEnded } from "./domain/callers.ts";
import { byOf } from "./domain/events.ts";
import { type Answer, once, type Once, refuseOther, scopeOf } from "./domain/idempotency.ts";
import type { Upload } from "./domain/uploads.ts";
import { schemaOf } from "./openapi.ts";
import { answerOptions, CORS } from "./options.ts";
import { refusalFor } from "./problem.ts";
import type { Limit } from "./rate.ts";
import {
  askedBy,
  fingerprint,
  fromOf,
  hasNoBody,
  headersFor,
  mediaIn,
  NO_BYTES,
  received,
  refuseMediaType,
  refuseUndecodable,
  withBasic,
} from "./request.ts";
import { type Asked, labelOf, needsCredential, pathOf, type Route } from "./route.ts";
import type { Store, Tx } from "./store/store.ts";
import { checkOf, type Parts } from "./validate.ts";

declare module "fastify" {
  interface FastifyRequest {
    caller: Caller;
    bytes: Buffer | null;
    /** What it was answered with, if that is no. */
    refusal: Refusal | undefined;
  }
  interface FastifyContextConfig {
    endpoint?: string;
    route?: Route;
  }
}

export const anonymous: Caller = {
  tenantId: "",
  credential: { kind: "anonymous", id: "", name: "anonymous" },
  scopes: [],
  deviceId: null,
  tier: "anonymous",
};

/** One address has another answer for each tenant, and a cache on the way knows them apart by Authorization alone: by no cookie, and no x-api-key. */
const PRIVATE = { "cache-control": "private, no-cache" };

export function mount(app: FastifyInstance, routes: readonly Route[], deps: Deps, limit: Limit): void {
  for (const route of routes) {
    const endpoint = pathOf(route);
    const judge = judgingOf(route, deps);
    const shown = deps.checkReplies ? replyChecker(route) : undefined;
    const url = endpoint.replaceAll(/\{(\w+)\}/g, ":$1");
    const always = { ...(needsCredential(route) ? PRIVATE : {}), ...(route.open ? CORS : {}), ...route.headers };
    if (!app.hasRoute({ method: "OPTIONS", url })) answerOptions(app, url, route, { routes, deps, limit });
    app.route({
      method: route.method,
      url,
      schema: route.endless ? { hide: true } : schemaOf(route),
      ...(route.bodyMaxBytes === undefined ? {} : { bodyLimit: route.bodyMaxBytes }),
      config: { endpoint, route },
      onRequest: async (request, reply) => {
        void reply.headers(always);
        request.caller = await admit(route, request, reply, deps, limit);
        refuseUndecodable(request);
        if (route.takesBytes) request.headers["content-type"] ??= "application/octet-stream"; // RFC 9110: what isn't named may be taken for that
        else if (hasNoBody(request) && !route.takesFile) delete request.headers["content-type"]; // nothing is of no type, whatever a client's library calls it
        refuseMediaType(route, request);
      },
      handler: async (request, reply) => {
        const answer = unlessKnown(route, await handle(route, request, reply, deps, judge, limit), request.headers["if-none-match"]);
        shown?.(answer);
        if (route.replay) void reply.header("cache-control", "no-store"); // it holds a secret
        return send(reply, answer);
      },
    });
  }
}

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
  if (route.onlyDevices && caller.deviceId === null) throw new Refusal("DEVICE_KEY_REQUIRED");
  return caller;
}

/** A refusal for want of a scope is a security event: it stands in the audit log before it is answered. */
const tellDenied = (tx: Tx, caller: Caller, route: Route, requestId: string, details: Refusal["details"]): void =>
  append(tx, caller, { action: "auth.scope_denied", subject: labelOf(route), details, requestId });
async function deny(route: Route, required: readonly Scope[], { caller, id }: FastifyRequest, { store }: Deps): Promise<Refusal> {
  const details = { required, available: caller.scopes };
  await store.write("audit scope denied", async (tx) => tellDenied(tx, caller, route, id, details));
  const headers = challenge(`, error="insufficient_scope", scope="${required[0]}"`); // one that would do: there is no "or" in it
  return new Refusal(route.deniedAs ?? "API_SCOPE_DENIED", `this needs the scope ${required.join(" or ")}`, details, headers);
}

/** A body may be long on its way: who has lost the key meanwhile does nothing with it any more. */
async function readmit(route: Route, request: FastifyRequest, reply: FastifyReply, { authenticate }: Deps): Promise<void> {
  if (!needsCredential(route) || reply.elapsedTime < limits.BODY_PROMPT_MS) return;
  const { caller, expired } = await authenticate(request.headers, request.method);
  if (expired && !route.evenExpired) throw new Refusal("SANDBOX_EXPIRED");
  request.caller = caller;
}

async function handle(route: Route, request: FastifyRequest, reply: FastifyReply, deps: Deps, judge: Judging, limit: Limit): Promise<Sent> {
  await readmit(route, request, reply, deps);
  if (route.scope === "client") request.body = withBasic(request.body, request.headers);
  const { params, query, body = {} } = request; // no body at all is an object without fields
  route.refuse?.(body);
  const { key, said, faults } = headersFor(route, request);
  const keyed = (): Keyed | undefined => (key === undefined ? undefined : { key, fingerprint: fingerprint(request, said) });
  if (!route.readsAddress)
    await judge(request, { params, query, body }, faults).catch((unfit: unknown) => refuseUnfit(route, request, deps, keyed(), unfit));
  if (route.scope === "client") request.caller = await client(request, reply, deps, limit);
  const upload = route.takesFile ? await received(request, deps.store) : undefined;
  if (upload) {
    request.bytes = upload.digest;
    await readmit(route, request, reply, deps);
  }
  const input = inputOf(request, deps, key, upload);
  if (route.kind === "serve") return sentOf(route, await route.run(input));
  if (route.kind === "read") return deps.store.read(labelOf(route), async (tx) => answerOf(route, await route.run({ ...input, tx })));
  return write(route, input, keyed());
}

/** An unfit request whose idempotency key was used for another request is refused for that, as a fit one would be; not where its client or file isn't known yet. */
async function refuseUnfit(
  route: Route,
  { caller }: FastifyRequest,
  { store }: Deps,
  keyed: Keyed | undefined,
  unfit: unknown,
): Promise<never> {
  if (keyed && route.kind === "write" && route.scope !== "client" && !route.takesFile)
    await store.read("idempotency", (tx) => refuseOther(tx, { ...keyed, scope: scopeOf(caller, labelOf(route)) }));
  throw unfit;
}

const inputOf = (request: FastifyRequest, deps: Deps, idempotencyKey: string | undefined, upload: Upload | undefined) => ({
  caller: request.caller,
  by: byOf(request.caller, request.id),
  params: request.params,
  query: request.query,
  body: request.body ?? {},
  requestId: request.id,
  idempotencyKey,
  ifMatch: request.headers["if-match"],
  upload,
  bytes: request.bytes ?? NO_BYTES,
  mediaType: mediaIn(request.headers),
  asked: askedBy(request),
  deps,
});

type Write = Extract<Route, { kind: "write" }>;
type Keyed = { key: string; fingerprint: Buffer };
/** The deed, its audit row and what is kept under its key: one unit, or none of it. */
async function write(route: Write, input: ReturnType<typeof inputOf>, keyed: Keyed | undefined): Promise<Answer> {
  const { caller, requestId, body, deps } = input;
  const label = labelOf(route);
  const units = route.isJoint && !route.runsAlone?.(body) ? deps.store.joint : deps.store;
  const { prepare: prepareIt } = route;
  const prepare = prepareIt && (async (): Promise<unknown> => prepareIt(input));
  const act = async (tx: Tx, prepared: unknown) => {
    const done = await route.run({ ...input, tx, prepared });
    const { subject = null, details } = done.about ?? {};
    if (!done.quiet && !done.isIdle) append(tx, caller, { action: route.audit, subject, details, requestId });
    return answerOf(route, done);
  };
  const refused = async (tx: Tx, { code, details }: Refusal) => {
    if (code === "API_SCOPE_DENIED") tellDenied(tx, caller, route, requestId, details);
  };
  if (keyed) {
    const request = { ...keyed, scope: scopeOf(caller, label), ...lockOf(route, body, deps) };
    return inWordsOf(input.asked, route, await once(units, label, request, { act, refused, prepare }));
  }
  const prepared = await prepare?.();
  return units.write(label, (tx) => act(tx, prepared)).catch((error: unknown) => tellOf(error, deps.store, refused));
}

/** A refusal that was kept leaves as one that is thrown does: as a problem for those who accept one. */
function inWordsOf({ headers: { accept } }: Asked, route: Write, answer: Answer): Answer {
  const { status, headers, body } = answer;
  if (status < 400 || body === null) return answer;
  const told = refusalFor({ status, headers, body: JSON.parse(body) as ErrorBody }, route, accept);
  return { status, headers: told.headers, body: JSON.stringify(told.body) };
}

type Judging = (request: FastifyRequest, parts: Parts, faults: FieldFault[]) => Promise<void>;

/** The route's check. Before it refuses an unfit body the guard is asked, which refuses where no body could be taken, and adds faults that only the store can tell. */
function judgingOf(route: Route, { store }: Deps): Judging {
  const check = checkOf(route);
  const guard = route.kind === "write" ? route.guard : undefined;
  if (!guard) return async (_, parts, faults) => check(parts, faults);
  const address = checkOf({ params: route.params });
  return async ({ caller, params }, parts, faults) => {
    try {
      check(parts, faults);
    } catch (unfit) {
      if (!isFit(() => address({ params, query: {}, body: {} }, []))) throw unfit;
      const found = (unfit as Refusal).details?.["fields"] as FieldFault[];
      const more = await store.read("guard", (tx) => guard({ tx, caller, params, body: parts.body, found }));
      throw invalid([...found, ...(more ?? [])].slice(0, limits.FAULTS_MAX_ITEMS));
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

/** A refusal undoes its unit, and with it the audit row: where one has to stand it is written in a unit of its own. */
async function tellOf(error: unknown, store: Store, refused: (tx: Tx, refusal: Refusal) => Promise<void>): Promise<never> {
  if (error instanceof Refusal && error.code === "API_SCOPE_DENIED") await store.write("audit refusal", (tx) => refused(tx, error));
  throw error;
}

/** An answer that is all secret is kept encrypted with the secret that its request brought. */
function lockOf({ replay }: Route, body: unknown, deps: Deps): Pick<Once, "lockWith" | "keepMs" | "stands"> {
  if (!replay || !("lockWith" in replay)) return {};
  return {
    lockWith: String((body as Record<string, unknown>)[replay.lockWith]),
    keepMs: replay.keepMs,
    stands: (answer) => replay.stands(answer, deps),
  };
}

/** An OAuth client is known by what its body says, or Basic in its stead. A wrong secret for a real client is told to that client's tenant. */
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
    const basic = headers.authorization === undefined ? {} : { "www-authenticate": 'Basic realm="imprimatur", charset="UTF-8"' };
    throw new Refusal("invalid_client", "client_id or client_secret is wrong", undefined, basic);
  }
  lockout.right(client_id, from);
  if (known.ended) throw new Refusal("SANDBOX_EXPIRED");
  return known.caller;
}

/** The budget that a request is counted against: its credential's, or its address's while it has none. */
export const budgetOf = (request: FastifyRequest): { key: string; perMinute: number } => {
  const { credential, tier } = request.caller;
  return credential.kind === "anonymous"
    ? { key: `ip:${fromOf(request)}`, perMinute: tiers.anonymous }
    : { key: `${credential.id} as ${tier}`, perMinute: tiers[tier] }; // what is owed of one budget is no debt of another
};
