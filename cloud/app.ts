// The cloud as a value: buildApp(deps) is what main starts and what every test starts.
import multipart from "@fastify/multipart";
import rateLimit from "@fastify/rate-limit";
import underPressure from "@fastify/under-pressure";
import Fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from "fastify";
import { type ErrorCode, Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { answerBadHttp, answerOddHttp, hostFault } from "./bad-http.ts";
import { readBodies } from "./bodies.ts";
import { serveConsole } from "./console.ts";
import type { Deps } from "./deps.ts";
import { failureOf, isEn18222 } from "./en18222.ts";
import { boundHeld } from "./held.ts";
import { anonymous, budgetOf, mount } from "./http.ts";
import { routedAs } from "./link-shape.ts";
import type { Metrics } from "./metrics.ts";
import { describe } from "./openapi.ts";
import { refusalFor } from "./problem.ts";
import { bucketStore, type Limit } from "./rate.ts";
import { askedBy, correlationId } from "./request.ts";
import { routes } from "./routes/index.ts";
import { securityHeaders } from "./security-headers.ts";
import { traceRequests } from "./traced-requests.ts";
import { answerUnrouted } from "./unrouted.ts";

type Given = Omit<Deps, "document">;
type Headers = Record<string, string>;

export async function buildApp(given: Given): Promise<FastifyInstance> {
  const secure = securityHeaders();
  const app = fastifyFor(given, secure);
  const deps: Deps = { ...given, document: () => app.swagger() };
  answerOddHttp(app.server);
  followRequests(app, deps, secure);
  boundHeld(app);
  readBodies(app, routes);
  await app.register(multipart, { limits: { files: 2, fields: 2, fileSize: limits.IMPORT_MAX_BYTES }, throwFileSizeLimit: false });
  await shedUnderPressure(app);
  const limit = await rateLimitOf(app, deps);
  answerErrors(app, deps.metrics, limit);
  await describe(app, routes, limit);
  mount(app, routes, deps, limit);
  const files = new Set(serveConsole(app));
  answerUnrouted(app, routes, limit, (path) => `${path}/`.startsWith("/docs/") || files.has(path));
  return app;
}

function fastifyFor(given: Given, secure: Headers): FastifyInstance {
  const loggerInstance: FastifyBaseLogger = given.log;
  const app: FastifyInstance = Fastify({
    loggerInstance,
    logController: new LogController({ disableRequestLogging: true }),
    childLoggerFactory: (logger) => logger, // our lines carry the request's id themselves; a logger a request costs more than its line
    rewriteUrl: ({ url = "/" }) => routedAs(url),
    genReqId: ({ headers }) => correlationId(headers["x-correlation-id"]),
    bodyLimit: limits.BODY_MAX_BYTES,
    requestTimeout: limits.REQUEST_MAX_MS,
    connectionTimeout: limits.ANSWER_UNTAKEN_MAX_MS, // else who reads nothing of an answer has it kept for good
    ...(given.trustProxy.length > 0 ? { trustProxy: given.trustProxy } : {}),
    http: {
      requireHostHeader: false, // Node's own refusal has no words
      maxHeaderSize: limits.HEADERS_MAX_BYTES,
      headersTimeout: limits.HEADERS_MAX_MS,
      connectionsCheckingInterval: 2_000,
    },
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: limits.PATH_PART_MAX_LENGTH },
    return503OnClosing: false,
    clientErrorHandler: answerBadHttp,
    frameworkErrors: (error, request, reply: FastifyReply) => {
      const refusal = asRefusal(error, request);
      const { headers, body } = told(refusal, request);
      void reply
        .headers({ "x-correlation-id": request.id, ...secure, ...headers })
        .code(refusal.status)
        .send(body);
      tell(request, reply, given); // no hook runs for these
    },
  });
  app.setValidatorCompiler(() => () => true); // routes check their input themselves, all parts at once
  app.setSerializerCompiler(() => JSON.stringify);
  app.decorateRequest("caller");
  app.decorateRequest("bytes", null);
  app.decorateRequest("refusal");
  return app;
}

/** Each request from its first line to its end, which is its connection's or its own: for who goes away before, no hook of fastify's runs. */
function followRequests(app: FastifyInstance, deps: Deps, secure: Headers): void {
  const endSpan = deps.tracing && traceRequests(app, deps.tracing);
  const open = new Set<FastifyReply>();
  app.addHook("onRequest", (request, reply, next) => {
    request.caller = anonymous;
    void reply.headers({ "x-correlation-id": request.id, ...secure });
    reply.raw.once("close", () => {
      endSpan?.(request, reply);
      if (open.delete(reply) && !reply.raw.writableFinished) tellCut(request, reply, deps);
    });
    const refusal = hostFault(request.raw) ?? (deps.store.pending() > limits.STORE_QUEUE_MAX_UNITS ? shed(request) : undefined);
    if (!refusal) open.add(reply);
    next(refusal);
  });
  app.addHook("onResponse", (request, reply, next) => {
    tell(request, reply, deps);
    next();
  });
  answerOverdue(app, open);
}

/** By the delay of the event loop, once there has been work for two of its samples: what was measured before is our own start on a busy machine, or a machine that stood still. */
async function shedUnderPressure(app: FastifyInstance): Promise<void> {
  let askedAt: number | undefined;
  app.addHook("onRequest", (request, _reply, next) => {
    if (!request.routeOptions.config.route?.always) askedAt ??= performance.now();
    next();
  });
  await app.register(underPressure, {
    maxEventLoopDelay: limits.EVENT_LOOP_DELAY_MAX_MS,
    sampleInterval: LOOP_SAMPLE_MS,
    pressureHandler: async (request) => {
      const isOfWork = askedAt !== undefined && performance.now() - askedAt > 2 * LOOP_SAMPLE_MS;
      const refusal = isOfWork ? shed(request) : undefined;
      if (refusal) throw refusal;
    },
  });
}

async function rateLimitOf(app: FastifyInstance, { budgets, rateLimited }: Deps): Promise<Limit> {
  await app.register(rateLimit, {
    global: false,
    store: bucketStore(budgets),
    keyGenerator: (request) => budgetOf(request).key,
    max: (request) => budgetOf(request).perMinute,
    errorResponseBuilder: (_request, { ttl }) =>
      new Refusal("RATE_LIMITED", `over the rate budget: come back in ${Math.ceil(ttl / 1000)} s`),
  });
  return rateLimited ? (app.rateLimit() as unknown as Limit) : async () => {};
}

const LOOP_SAMPLE_MS = 1_000;
/** A megabyte of text, made anew for each who asks: nobody else is answered meanwhile. */
const DOCUMENTS = new Set<string | undefined>(["/docs/json", "/docs/yaml"]);
/** Not a page's files, nor what there is no route for: they cost next to nothing, and a page that lacks a file stays blank. */
function shed({ routeOptions: { config, url } }: FastifyRequest): Refusal | undefined {
  const isCheap = config.route === undefined ? !DOCUMENTS.has(url) : config.route.always;
  return isCheap ? undefined : new Refusal("OVERLOADED", undefined, undefined, { "retry-after": "1" });
}

/** One line and one figure for every answer; the template of the address, never the address. Probes that find all well are told at `debug`. */
function tell(request: FastifyRequest, reply: FastifyReply, { log, metrics }: Pick<Deps, "log" | "metrics">): void {
  const line = lineOf("request", request, reply, reply.statusCode);
  metrics.answered(request.method, line.endpoint, reply.statusCode, reply.elapsedTime / 1000);
  const isProbe = request.routeOptions.config.route?.always && reply.statusCode < 400; // a balancer asks every second
  log.plain[isProbe ? "debug" : "info"](line);
}
/** Of who went away before the end: a status is there where the answer had begun. */
function tellCut(request: FastifyRequest, reply: FastifyReply, { log, metrics }: Pick<Deps, "log" | "metrics">): void {
  const line = lineOf("request-cut", request, reply, reply.raw.headersSent ? reply.statusCode : undefined);
  metrics.cut(request.method, line.endpoint);
  log.plain.info(line);
}
function lineOf(event: string, request: FastifyRequest, { elapsedTime }: FastifyReply, status: number | undefined) {
  const { id, method, routeOptions, is404, caller } = request;
  const { tenantId, credential } = caller ?? anonymous;
  return {
    event,
    requestId: id,
    method,
    endpoint: routeOptions.config.endpoint ?? (is404 ? "(none)" : (routeOptions.url ?? "(none)")),
    status,
    ms: Math.round(elapsedTime * 10) / 10,
    ...(tenantId ? { tenantId, credentialId: credential.id } : {}),
  };
}

/** A request that is still unanswered after its time is told so; the hand that comes late finds the answer given. */
function answerOverdue(app: FastifyInstance, open: ReadonlySet<FastifyReply>): void {
  const timer = setInterval(() => {
    for (const reply of open) if (!reply.sent && !reply.raw.headersSent && isOverdue(reply)) void reply.send(new Refusal("TIMED_OUT"));
  }, WATCH_MS).unref();
  app.addHook("onClose", () => clearInterval(timer));
}
const WATCH_MS = 1_000;
/** A request that hasn't arrived as a whole isn't counted here: Node ends it, with a 408. */
const isOverdue = ({ request, elapsedTime }: FastifyReply) => request.raw.complete && elapsedTime > limits.REQUEST_MAX_MS;

/** What fastify and its plugins refuse by themselves, in our words. */
const OURS: Record<string, [ErrorCode, message?: string]> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: ["UNSUPPORTED_MEDIA_TYPE", "say what the body is: Content-Type: application/json"],
  FST_ERR_MAX_PARAM_LENGTH: ["URI_TOO_LONG"],
  FST_REQ_FILE_TOO_LARGE: ["PAYLOAD_TOO_LARGE"],
  FST_ERR_BAD_URL: ["MALFORMED_REQUEST"],
};

function asRefusal(error: unknown, { routeOptions }: FastifyRequest): Refusal {
  if (error instanceof Refusal) return error;
  const { code = "", statusCode = 500 } = error as Partial<FastifyError>;
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE")
    return new Refusal("PAYLOAD_TOO_LARGE", `the body is larger than ${routeOptions.bodyLimit} bytes`);
  const known = OURS[code];
  if (known) return new Refusal(...known);
  return statusCode >= 400 && statusCode < 500 ? new Refusal("MALFORMED_REQUEST", (error as Error).message) : new Refusal("INTERNAL_ERROR");
}

/** Who asks for a token counts once it is known who it is; what fails before that counts against its address. */
async function counted(error: unknown, request: FastifyRequest, reply: FastifyReply, limit: Limit): Promise<unknown> {
  if (request.routeOptions.config.route?.scope !== "client") return error;
  return limit(request, reply).then(
    () => error,
    (over: unknown) => over,
  );
}

/** In the words of the standard that its address is of, and of those who accept a problem. */
const told = (refusal: Refusal, { id, url, headers, routeOptions }: FastifyRequest) =>
  isEn18222(url)
    ? { headers: refusal.headers, body: failureOf(refusal, id) }
    : refusalFor(refusal, routeOptions.config.route, headers.accept);

function answerErrors(app: FastifyInstance, metrics: Metrics, limit: Limit): void {
  app.setErrorHandler(async (thrown, request, reply) => {
    const error = await counted(thrown, request, reply, limit);
    const refusal = asRefusal(error, request);
    request.refusal = refusal;
    if (refusal.isFault) {
      metrics.fault(refusal.code);
      const err = refusal === error ? (refusal.cause ?? refusal) : error;
      app.log.error({ event: "fault", requestId: request.id, code: refusal.code, err }, refusal.message);
    }
    // Closed by fastify, a client that is still sending hears of a broken connection and not of the answer. Node reads on to the body's end, in REQUEST_MAX_MS.
    // A drain's own `close` stays.
    if (["PAYLOAD_TOO_LARGE", "OVERLOADED"].includes(refusal.code) && !reply.raw.hasHeader("connection"))
      void reply.removeHeader("connection");
    const { headers, body } = told(refusal, request);
    const page = request.routeOptions.config.route?.refusalPage?.(refusal, askedBy(request));
    return reply
      .code(refusal.status)
      .headers({ ...headers, ...page?.headers })
      .send(page?.body ?? body);
  });
}
