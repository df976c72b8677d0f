// The console's HTTP: what the station is like, and what people say of its labels. For this machine, unless told otherwise, and for no page of another origin.
import { STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { hostname } from "node:os";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { Type } from "typebox";
import { answerInBytes, refusalOfBadHttp } from "#shared/bad-http.ts";
import { BEAT_MS } from "#shared/beat.ts";
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import { bareHost, urlAt } from "#shared/url-at.ts";
import { closed, nullable } from "#shared/wire/common.ts";
import { type ActDeps, serveActs } from "./acts.ts";
import { answer } from "./answers.ts";
import { verdicts } from "./attempt.ts";
import { pngOf } from "./bitmap.ts";
import { asClick, clickId } from "./click.ts";
import { labelStates, OPEN_LABELS } from "./buffer-labels.ts";
import { servePages } from "./pages.ts";
import { bodyOf, Text } from "./request-body.ts";
import { typedAs } from "./scanners/keyboard.ts";
import type { ScanAnswer, Scans } from "./scans.ts";
import type { ScannerSettings } from "./scanners/scanner.ts";
import type { State } from "./state.ts";
import { drawingOf } from "./drawing.ts";

export type Console = { url: string; close(): Promise<void> };
type Deps = ActDeps & {
  state(): State;
  scans: Scans;
  /** What is typed here comes from it. */
  keyboard: ScannerSettings;
  setPaused(is: boolean): void;
};

const BODY_MAX_BYTES = 65_536;
const REQUEST_MAX_MS = 10_000; // who stops in the middle of one would keep its connection, and printers need theirs
const EVENT_GAP_MS = 200;
const TOGETHER_MS = 10; // what changes in one go is told in one
const bodies = {
  arrival: Type.Union([closed({ badge: Text }), closed({ pin: Text })]),
  attest: closed({
    verdict: Type.Enum([...verdicts]),
    session: Type.Optional(Text),
    /** The question that is answered, as the state had it: one that was asked anew or of another attempt isn't. Null: nothing was asked. */
    attempt_id: Type.Optional(Text),
    since: Type.Optional(nullable(Text)),
  }),
  scan: closed({ text: Text, session: Type.Optional(Text) }),
  explain: closed({ words: Type.String({ minLength: 1, maxLength: 1_000 }), session: Type.Optional(Text) }),
};

export async function openConsole({ host, port }: { host: string; port: number }, deps: Deps): Promise<Console> {
  const { floor } = deps;
  const app = Fastify({
    bodyLimit: BODY_MAX_BYTES,
    requestTimeout: REQUEST_MAX_MS,
    clientErrorHandler: answerBadHttp,
    http: { requireHostHeader: false, headersTimeout: REQUEST_MAX_MS, connectionsCheckingInterval: 2_000 },
    forceCloseConnections: true,
    logger: false,
    frameworkErrors: (error, _request, reply: FastifyReply) => refuse(reply, refusalOf(error)),
  });
  takeJson(app);
  followClicks(app, floor);
  guard(app, host);
  answerUnrouted(app);
  app.setErrorHandler((error: Error & { statusCode?: number; code?: string }, { method, url }, reply) => {
    const refusal = refusalOf(error);
    if (refusal.code === "INTERNAL_ERROR")
      floor.say("error", { event: "console", stack: error.stack }, `${method} ${url.replace(/\?.*/, "")}: ${error.message}`);
    refuse(reply, refusal);
  });
  servePages(app);
  serveActs(app, deps);
  serveStation(app, deps);
  await app.listen({ host, port });
  const at = app.server.address();
  const bound = typeof at === "object" && at ? at.port : port;
  return { url: urlAt(host, bound), close: () => app.close() };
}

/** What the station is like, and what is said to it of labels, scans and pauses. */
function serveStation(app: FastifyInstance, deps: Deps): void {
  const { floor, state, operators, setPaused } = deps;
  let metrics: ReturnType<typeof import("./metrics.ts").metricsOf> | undefined;
  app.get("/api/state", () => state());
  app.get("/api/events", (request, reply) => events(request, reply, deps));
  app.post("/api/operator", (request) => operators.arrive(bodyOf(bodies.arrival, request.body)));
  app.post<{ Params: { ref: string } }>("/api/jobs/:ref/attest", (request) => {
    const { verdict, session, attempt_id: of, since } = bodyOf(bodies.attest, request.body);
    const { id } = operators.who(session);
    const { attemptId, jobRef } = answer(floor, request.params.ref, verdict, id, { of, since });
    const now = state();
    return {
      job: [...now.jobs, ...now.recent].find(({ attempt_id }) => attempt_id === attemptId) ?? { job_ref: jobRef, attempt_id: attemptId },
    };
  });
  app.post("/api/scan", (request) => {
    const { text, session } = bodyOf(bodies.scan, request.body);
    return typed(deps, text, session);
  });
  app.post<{ Params: { n: string } }>("/api/labels/:n/explain", (request) => {
    const { words, session } = bodyOf(bodies.explain, request.body);
    const { id } = operators.who(session);
    explain(floor, Number(request.params.n), `${id}: ${words}`);
    return { explained: true };
  });
  const pausing = (is: boolean) => () => {
    setPaused(is);
    return { paused: is };
  };
  app.post("/api/pause", pausing(true));
  app.post("/api/resume", pausing(false));
  app.get<{ Params: { ref: string }; Querystring: { attempt_id?: string } }>("/api/jobs/:ref/label.png", ({ params, query }, reply) =>
    reply.type("image/png").send(labelOf(deps, params.ref, query.attempt_id)),
  );
  app.get("/healthz", () => {
    const { notices, stopped } = state();
    if (notices.length === 0 && stopped === null) return { status: "ok" };
    return { status: "degraded", notices, ...(stopped === null ? {} : { stopped }) };
  });
  app.get("/metrics", async (_request, reply) => {
    metrics ??= (await import("./metrics.ts")).metricsOf(state); // 115 files, for stations that are watched
    return reply.type(metrics.contentType).send(await metrics.text());
  });
}

/** What isn't HTTP: Fastify's own answer to it has another shape than all others of ours. */
function answerBadHttp(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === "ECONNRESET" || !socket.writable) return void socket.destroy();
  const refusal = refusalOfBadHttp(error);
  socket.end(answerInBytes(refusal, STATUS_CODES[refusal.status] ?? "", clickId(undefined)));
}

function takeJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "string" }, (_request, text, done) => {
    try {
      done(null, text === "" ? undefined : JSON.parse(String(text)));
    } catch (error) {
      done(new Refusal("MALFORMED_JSON", `the body isn't JSON: ${(error as Error).message}`));
    }
  });
}
/** A page of another origin can neither read nor do anything here, whatever name it gives this machine. */
function guard(app: FastifyInstance, host: string): void {
  app.addHook("onRequest", async ({ headers, method }, reply) => {
    void reply.headers({
      "cache-control": "no-store",
      "x-content-type-options": "nosniff",
      "content-security-policy": "default-src 'self'; frame-ancestors 'none'",
      "referrer-policy": "no-referrer",
    });
    if (!isOurName(headers.host, host))
      throw new Refusal("FORBIDDEN", `this console isn't called ${headers.host ?? "nothing"}: use its address, localhost or its host name`);
    const { origin, "sec-fetch-site": site = "none", "sec-fetch-dest": dest } = headers;
    // Unread, answers still cost a station that is busy; a link that leads here is another matter.
    if (site !== "none" && site !== "same-origin" && dest !== "document")
      throw new Refusal("FORBIDDEN", "only the station's own page may ask for this");
    if (method !== "GET" && origin !== undefined && origin !== `http://${headers.host}` && origin !== `https://${headers.host}`)
      throw new Refusal("FORBIDDEN", "only the station's own page may do this");
    if (headers["content-length"] === "0") delete headers["content-type"]; // nothing is of no type, whatever a client's library calls it
  });
}
/** An address that exists is told which methods it takes. */
function answerUnrouted(app: FastifyInstance): void {
  const verbs = new Map<string, string[]>();
  app.addHook("onRoute", ({ url, method }) => void verbs.set(url, [...(verbs.get(url) ?? []), method].flat()));
  app.setNotFoundHandler(({ url, method }) => {
    const parts = url.replace(/\?.*/, "").split("/");
    const isThis = (known: string[]) =>
      known.length === parts.length && known.every((part, i) => part.startsWith(":") || part === parts[i]);
    const [, allowed] = [...verbs].find(([known]) => isThis(known.split("/"))) ?? [];
    if (!allowed) throw new Refusal("NOT_FOUND", "there is nothing here");
    const allow = [...new Set(allowed)].toSorted().join(", ");
    throw new Refusal("METHOD_NOT_ALLOWED", `${method} isn't for this path: it takes ${allow}`, undefined, { allow });
  });
}
const refuse = (reply: FastifyReply, { status, headers, body }: Refusal): void => void reply.code(status).headers(headers).send(body);
const CLICK = "x-correlation-id";
/** What a person does here has an id, which goes on with all that follows from it; so has what is refused. */
function followClicks(app: FastifyInstance, { say }: ActDeps["floor"]): void {
  app.addHook("onRequest", async (request, reply) => {
    if (request.method !== "GET") void reply.header(CLICK, clickId(request.headers[CLICK]));
  });
  app.addHook("preHandler", (request, reply, next) => {
    if (request.method !== "POST" || request.is404) return next(); // a monitor asks by HEAD, every few seconds
    asClick(String(reply.getHeader(CLICK)), () => {
      say("info", { event: "click", path: request.routeOptions.url }, `${request.method} ${request.routeOptions.url}`);
      next();
    });
  });
}
function refusalOf(error: Error & { statusCode?: number; code?: string }): Refusal {
  if (error instanceof Refusal) return error;
  if (error.statusCode === 413) return new Refusal("PAYLOAD_TOO_LARGE");
  if (error.statusCode === 415) return new Refusal("UNSUPPORTED_MEDIA_TYPE", "the body has to be application/json");
  if (error.statusCode !== undefined && error.statusCode < 500) return new Refusal("MALFORMED_REQUEST", error.message);
  return new Refusal("INTERNAL_ERROR", saying("station_fault"));
}
function isOurName(given: string | undefined, host: string): boolean {
  if (given === undefined || !URL.canParse(`http://${given}`)) return false;
  const name = bareHost(new URL(`http://${given}`).hostname);
  return /^[\d.]+$|:/.test(name) || ["localhost", host, hostname()].some((ours) => ours.toLowerCase() === name);
}

function typed({ floor, operators, scans, keyboard }: Deps, text: string, session: string | undefined): ScanAnswer {
  const operator = session === undefined ? undefined : operators.who(session).id;
  const seen = typedAs(keyboard, text, floor.clock);
  return "words" in seen ? { moved: false, words: seen.words, job_ref: null, why: "not_text" } : scans.sighting(seen, operator);
}

function explain({ store, news }: ActDeps["floor"], n: number, words: string): void {
  if (store.explain(n, words)) return news.beat();
  const state = store.labelStateOf(n);
  if (state === undefined) throw new Refusal("NOT_FOUND", saying("no_such_label"));
  if (OPEN_LABELS.includes(state)) throw new Refusal("ILLEGAL_TRANSITION", saying("label_not_over"), { state, allowed: [] });
  throw new Refusal(
    "ILLEGAL_TRANSITION",
    `this label is ${state.replace("_", " ")} (${labelStates[state]}): there is nothing to explain; that can be done of ${OPEN_LABELS.join(", ")}`,
    { state, allowed: [...OPEN_LABELS] },
  );
}

/** Of the attempt that is named, else of the newest: what is written on them tells them apart. */
function labelOf({ floor, lanes }: Deps, ref: string, attemptId: string | undefined): Buffer {
  const attempt = floor.store.ofJob(ref).find((one) => attemptId === undefined || one.attemptId === attemptId);
  if (!attempt)
    throw new Refusal("NOT_FOUND", `this station has no ${attemptId === undefined ? "job" : `attempt ${attemptId} of job`} ${ref}`);
  const config = (lanes.find((lane) => lane.config.name === attempt.printer) ?? lanes[0])?.config;
  if (!config) throw new Refusal("NOT_FOUND", saying("no_printer"));
  return pngOf(drawingOf(floor, attempt, config).bitmap);
}

/** The whole state: at once after a change, a few times a second while there are many. */
function events(request: FastifyRequest, reply: FastifyReply, { floor, state }: Deps): void {
  const { clock, news, say } = floor;
  const first = state(); // where it can't be told, the answer says why
  void reply.hijack();
  const { raw } = reply;
  const unheld = { "cache-control": "no-store", "x-accel-buffering": "no" }; // nginx would wait for a page's worth of it
  raw.writeHead(200, { "content-type": "text/event-stream", "x-content-type-options": "nosniff", ...unheld });
  if (request.method === "HEAD") return void raw.end();
  let due = false;
  let missed = false;
  let sentAt = 0;
  let cancel = () => {};
  const tell = (now: State) => {
    sentAt = clock.now();
    raw.write(`event: state\ndata: ${JSON.stringify(now)}\n\n`);
    cancel = clock.after(BEAT_MS, send);
  };
  const send = () => {
    due = false;
    cancel();
    missed = raw.writableNeedDrain; // who doesn't read is told no more; once it does, it is told how things are then
    if (missed) return void (cancel = clock.after(BEAT_MS, send));
    try {
      tell(state());
    } catch (error) {
      say("error", { event: "console" }, `the page can't be told how the station is: ${(error as Error).message}`);
      off();
      raw.end(); // it asks again
    }
  };
  const off = news.onBeat(() => {
    if (due) return;
    due = true;
    cancel();
    cancel = clock.after(Math.min(EVENT_GAP_MS, Math.max(TOGETHER_MS, sentAt + EVENT_GAP_MS - clock.now())), send);
  });
  raw.on("drain", () => void (missed && send()));
  request.raw.on("close", () => {
    off();
    cancel();
  });
  tell(first);
}
