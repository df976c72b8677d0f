// Too slow and too much: a dripping request, an answer that can't come in time, more work than the store can hold.
import { hasSubscribers } from "node:diagnostics_channel";
import { once } from "node:events";
import { request } from "node:http";
import { connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { sql } from "drizzle-orm";
import Fastify from "fastify";
import { test } from "vitest";
import type { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { boundHeld } from "../../cloud/held.ts";
import { anonymous } from "../../cloud/http.ts";
import type { Log } from "../../cloud/log.ts";
import { startTracing } from "../../cloud/tracing.ts";
import { startCollector } from "../../fixtures/collector.ts";
import { routes } from "../../cloud/routes/index.ts";
import { world } from "../world.ts";

const SECOND = 1_000;
const KEPT = "public, immutable, max-age=31536000";

/** Sends the bytes, then nothing more, and waits for what the server makes of it. */
const stall = (url: string, bytes: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(url);
    const socket = connect(Number(port), hostname, () => socket.write(bytes));
    let heard = "";
    socket.on("data", (chunk: Buffer) => (heard += chunk.toString("utf8")));
    socket.on("close", () => resolve(heard));
    socket.on("error", reject);
  });

test("what watches traces on their way goes with the last of them, also where nobody takes those", async ({ expect }) => {
  const tracing = startTracing("http://127.0.0.1:1", { warn: () => {} } as unknown as Log);
  tracing.begin("a", "in", null).end();
  await expect(tracing.close()).rejects.toThrow("ECONNREFUSED");
  expect(hasSubscribers("http.client.request.start")).toBe(false);
});

test.concurrent(
  "a request that never ends, in its headers or in its body, is told so and let go",
  { timeout: 120 * SECOND },
  async ({ expect }) => {
    const w = await world();
    const [headers, body] = await Promise.all([
      stall(w.url, "GET /healthz HTTP/1.1\r\nhost: a\r\nx-slow: "),
      stall(
        w.url,
        `POST /api/v2/api-keys HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${w.adminKey}\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{"name":`,
      ),
    ]);
    for (const heard of [headers, body]) expect(heard).toMatch(/^HTTP\/1\.1 408[^]*REQUEST_TIMEOUT/);
  },
);

test.concurrent("who takes nothing of an answer keeps neither the answer nor the connection", async ({ expect }) => {
  const w = await world();
  const { server } = w.app;
  expect(server.timeout).toBe(limits.ANSWER_UNTAKEN_MAX_MS);
  server.timeout = SECOND; // of connections from here on
  const { hostname, port } = new URL(w.url);
  const reader = connect(Number(port), hostname).pause();
  reader.write("GET /api/v2/openapi.json HTTP/1.1\r\nhost: a\r\n\r\n".repeat(40)); // more than lies ready on the way to a reader
  const [theirs] = (await once(server, "connection")) as [Socket];
  await once(theirs, "close");
  reader.destroy();
});

test.concurrent("large bodies that don't come to their end hold a share of the memory, and no other tenant's calls", async ({ expect }) => {
  const w = await world();
  const { hostname, port } = new URL(w.url);
  const BYTES = limits.EPCIS_BODY_MAX_BYTES;
  const fit = limits.HELD_TENANT_MAX_BYTES / BYTES;
  const [greedy, other] = await Promise.all([w.tenant("greedy"), w.tenant("other")]);
  const send = (secret: string) => {
    const client = connect(Number(port), hostname);
    client.on("error", () => {});
    let heard = "";
    client.on("data", (chunk: Buffer) => (heard += chunk.toString("utf8")));
    client.write(
      `POST /api/v2/epcis/capture HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${secret}\r\ncontent-type: application/json\r\ncontent-length: ${BYTES}\r\n\r\n{`,
    );
    return { heard: () => heard, end: () => client.destroy() };
  };
  const sent = Array.from({ length: fit + 3 }, () => send(greedy.secret));
  const refused = () => sent.filter(({ heard }) => /^HTTP\/1\.1 503[^]*retry-after: 1[^]*OVERLOADED/i.test(heard()));
  await expect.poll(() => refused().length, { timeout: 20 * SECOND }).toBe(3);
  expect((await greedy.admin.get("/api-keys")).status).toBe(200); // what is small goes on
  const others = send(other.secret);
  await sleep(200);
  expect(others.heard()).toBe("");
  for (const { end } of [...sent, others]) end();
  const document = { name: "k".repeat(70_000), scopes: [] };
  await expect.poll(async () => (await greedy.admin.post("/api-keys", document)).status, { timeout: 20 * SECOND }).toBe(400); // there is room again
});

test.concurrent("a body that doesn't say its length counts as what came of it: many small ones are taken, and large ones bounded", async ({ expect }) => {
  const w = await world();
  const BYTES = limits.EPCIS_BODY_MAX_BYTES;
  const { secret } = await w.tenant("says no length");
  const send = async (pieces: Iterable<Buffer>) => {
    const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json" };
    const sent = request(`${w.url}/api/v2/epcis/capture`, { method: "POST", headers });
    sent.on("error", () => {});
    for (const piece of pieces) sent.write(piece);
    const answered = once(sent, "response").then(([{ statusCode }]) => statusCode as number);
    return { sent, answered };
  };
  const small = await Promise.all(Array.from({ length: 3 * (limits.HELD_TENANT_MAX_BYTES / BYTES) }, () => send([Buffer.from("{")])));
  await sleep(200); // so that all are under way
  for (const { sent } of small) sent.end("}");
  expect(new Set(await Promise.all(small.map(({ answered }) => answered)))).toEqual(new Set([400]));
  const third = Buffer.alloc(BYTES / 3, " ");
  const large = await Promise.all(Array.from({ length: limits.HELD_TENANT_MAX_BYTES / BYTES + 1 }, () => send([third])));
  expect(await Promise.race(large.map(({ answered }) => answered))).toBe(503);
  const unread = connect(Number(new URL(w.url).port), "127.0.0.1").on("error", () => {});
  unread.write(`GET /api/v2/products HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${secret}\r\ntransfer-encoding: chunked\r\n\r\n${(500_000).toString(16)}\r\n`);
  unread.write(Buffer.alloc(500_000));
  expect(String((await once(unread, "data"))[0])).toContain("HTTP/1.1 200");
  unread.destroy();
  for (const { sent, answered } of large) {
    answered.catch(() => {});
    sent.destroy();
  }
}); // oxfmt-ignore

test.concurrent.for([
  ["at once", (bytes: Buffer) => bytes],
  ["as a stream", (bytes: Buffer) => Readable.from([bytes])],
] as const)("large answers that nobody takes hold a share of the memory: a further one is refused, and nothing that is small; sent %s", async ([, sent], { expect }) => {
  const app = Fastify();
  app.decorateRequest("caller");
  app.addHook("onRequest", async (request) => void (request.caller = anonymous));
  app.setErrorHandler((error: Refusal, _request, reply) => reply.code(error.status).headers(error.headers).send(error.body));
  boundHeld(app);
  const large = Buffer.alloc(limits.HELD_TENANT_MAX_BYTES / 4);
  const config = { route: routes[0] } as object;
  app.get("/large", { config }, (_request, reply) => reply.headers({ "content-length": large.length, "cache-control": KEPT }).send(sent(large)));
  app.get("/small", { config }, async () => "small");
  const url = await app.listen({ host: "127.0.0.1", port: 0 });
  const { hostname, port } = new URL(url);
  const readers = Array.from({ length: 4 }, () => connect(Number(port), hostname).pause());
  const taken = readers.map((reader) => once(reader, "readable"));
  for (const reader of readers) reader.write("GET /large HTTP/1.1\r\nhost: a\r\n\r\n");
  await Promise.all(taken);
  const statusOf = async (path: string) => (await fetch(`${url}${path}`)).status;
  expect([await statusOf("/large"), await statusOf("/small")]).toEqual([503, 200]);
  expect((await fetch(`${url}/large`)).headers.get("cache-control")).toBe("no-store");
  for (const reader of readers) reader.destroy();
  await expect.poll(() => statusOf("/large"), { timeout: 20 * SECOND }).toBe(200);
  await app.close();
}); // oxfmt-ignore

test.concurrent("of who goes away in the middle of a request, or of an answer, nothing is kept but a line and a span", async (t) => {
  const { expect } = t;
  const collector = await startCollector();
  t.onTestFinished(collector.end);
  const w = await world({ settings: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
  const { hostname, port } = new URL(w.url);
  const asked: WeakRef<object>[] = [];
  w.app.server.on("request", (request: object) => void asked.push(new WeakRef(request)));
  const head = `host: a\r\nauthorization: Bearer ${w.adminKey}\r\n`;
  const halves = [
    `POST /api/v2/api-keys HTTP/1.1\r\n${head}content-type: application/json\r\ncontent-length: 50\r\n\r\n{"name":`,
    `GET /console/events HTTP/1.1\r\n${head}\r\n`,
  ];
  for (const half of halves) {
    const client = connect(Number(port), hostname);
    client.write(half);
    await once(w.app.server, "request");
    await sleep(100); // so that it is under way
    client.destroy();
  }
  setFlagsFromString("--expose-gc");
  const isKept = () => (runInNewContext("gc")(), asked.map((one) => one.deref() !== undefined));
  await expect.poll(isKept, { timeout: 20 * SECOND, interval: 100 }).toEqual([false, false]);
  const isCut = (line: string) => line.includes('"request-cut"');
  const cut = w
    .logged()
    .filter(isCut)
    .map((line) => JSON.parse(line) as { requestId: string });
  expect(cut).toMatchObject([{ endpoint: "/api/v2/api-keys" }, { endpoint: "/console/events", status: 200, tenantId: expect.any(String) }]);
  const isTraced = () =>
    cut.map(({ requestId }) => collector.spans.some(({ attributes }) => attributes["imprimatur.request_id"] === requestId));
  await expect.poll(isTraced, { timeout: 20 * SECOND }).toEqual([true, true]);
  const { text } = await w.admin.get("/metrics");
  expect(text.match(/^http_requests_cut_total.*/gm)).toEqual([
    'http_requests_cut_total{method="POST",endpoint="/api/v2/api-keys"} 1',
    'http_requests_cut_total{method="GET",endpoint="/console/events"} 1',
  ]);
});

test.concurrent(
  "a collector that drips its answers costs traces, says so once, and is sent them again",
  { timeout: 60 * SECOND },
  async (t) => {
    const { expect } = t;
    const collector = await startCollector();
    t.onTestFinished(collector.end);
    const w = await world({ settings: { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } });
    const told = () => w.logged().flatMap((line) => /"traces-(?:lost|taken)"/.exec(line) ?? []);
    const untilTold = (...events: string[]) =>
      expect
        .poll(async () => (await w.admin.get("/tenant"), told()), { timeout: 20 * SECOND, interval: 200 })
        .toEqual(events.map((event) => `"${event}"`));
    collector.drip(true);
    await untilTold("traces-lost");
    await sleep(5 * SECOND); // a further batch is lost, of which nobody is told
    collector.drip(false);
    await untilTold("traces-lost", "traces-taken");
  },
);

test.concurrent("a collector that takes nothing is told of in its reason's words, not with all that it answered", async (t) => {
  const { expect } = t;
  const collector = await startCollector();
  t.onTestFinished(collector.end);
  const w = await world({ settings: { OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/elsewhere` } });
  const told = () => w.logged().flatMap((line) => (line.includes('"traces-lost"') ? [JSON.parse(line) as object] : []));
  await expect.poll(told, { timeout: 20 * SECOND }).toHaveLength(1);
  const msg = "traces aren't taken (Not Found), and are lost until they are";
  expect(told()).toEqual([{ level: "warn", time: expect.any(String), event: "traces-lost", msg }]);
});

test.concurrent(
  "an answer that comes too late is a 503, and the same key gives the true one",
  { timeout: 120 * SECOND },
  async ({ expect }) => {
    const w = await world();
    const hog = () => w.store.write("hog", () => sleep(limits.UNIT_MAX_MS / 2));
    const hogs = Promise.all(Array.from({ length: 7 }, hog)); // one after another: the request behind them waits for over 30 s
    const key = { "idempotency-key": "late-1" };
    const late = await w.admin.post("/api-keys", { name: "late", scopes: ["aidc:read"] }, key);
    expect([late.status, late.body.error.code]).toEqual([503, "TIMED_OUT"]);
    await hogs;
    await expect
      .poll(async () => (await w.admin.get("/api-keys")).body.data.filter(({ name }: { name: string }) => name === "late").length)
      .toBe(1);
    const again = await w.admin.post("/api-keys", { name: "late", scopes: ["aidc:read"] }, key);
    expect([again.status, again.headers.get("idempotency-replayed")]).toEqual([201, "true"]);
  },
);

test.concurrent("a unit of work that takes too long is undone, and the next one runs", { timeout: 60 * SECOND }, async ({ expect }) => {
  const w = await world();
  const stuck = w.store.write("stuck", async ({ db }) => {
    await db.run(sql`INSERT INTO signing_keys (kid, public_jwk, created_at) VALUES ('stuck', '{}', 1)`);
    await new Promise(() => {});
  });
  await expect(stuck).rejects.toMatchObject({
    code: "STORE_UNAVAILABLE",
    cause: { message: expect.stringMatching(/"stuck" took over 10000 ms and was rolled back/) },
  });
  const rows = await w.store.read("look", async ({ db }) => db.values(sql`SELECT kid FROM signing_keys WHERE kid = 'stuck'`));
  expect(rows).toEqual([]);
  expect((await w.admin.post("/api-keys", { name: "next", scopes: ["aidc:read"] })).status).toBe(201);
});

test.concurrent("more work than the store can hold is shed before it begins; probes are answered, and it passes", async ({ expect }) => {
  const w = await world();
  const hog = Promise.withResolvers<void>(); // nothing of what comes behind it is done meanwhile, however long the request takes to come
  const held = w.store.write("hog", () => hog.promise);
  const work = Array.from({ length: limits.STORE_QUEUE_MAX_UNITS + 100 }, () => w.store.write("flood", async () => undefined));
  const headers = { authorization: `Bearer ${w.adminKey}` };
  const [shed, alive] = await Promise.all([fetch(`${w.url}/api/v2/tenant`, { headers }), w.admin.get("//healthz")]);
  hog.resolve();
  const body = await shed.json();
  expect([shed.status, body, shed.headers.get("retry-after")]).toEqual([
    503,
    { error: expect.objectContaining({ code: "OVERLOADED" }) },
    "1",
  ]);
  expect(alive.status).toBe(200);
  await Promise.all([held, ...work]);
  expect((await w.admin.get("/tenant")).status).toBe(200);
});

test.concurrent("a fault of ours is a 500 that tells nothing but its correlation id, under which the log tells all", async ({ expect }) => {
  const w = await world();
  await w.store.write("sabotage", async ({ db }) => void (await db.run(sql`DELETE FROM audit_heads`)));
  const broken = await w.admin.post("/api-keys", { name: "x", scopes: ["aidc:read"] }, { "x-correlation-id": "find-me" });
  expect([broken.status, broken.body]).toEqual([
    500,
    { error: { code: "INTERNAL_ERROR", message: "A fault of ours; quote the correlation id" } },
  ]);
  expect(broken.headers.get("x-correlation-id")).toBe("find-me");
  expect(w.logged().some((line) => line.includes("find-me") && line.includes("has no audit chain"))).toBe(true);
  expect((await w.admin.get("/api-keys")).body.data.map(({ name }: { name: string }) => name)).not.toContain("x");
});

test("a cloud that stood still while it started sheds nobody for that; one that stands still at work does, but its pages get their files", async ({
  expect,
}) => {
  const w = await world();
  const ask = async () => (await fetch(`${w.url}/api/v2/tenant`, { headers: { authorization: `Bearer ${w.adminKey}` } })).status;
  const { app } = w;
  const standStill = async () => {
    while (!app.isUnderPressure()) {
      for (const end = performance.now() + 2_400; performance.now() < end;);
      await sleep(1); // the delay is sampled here
    }
  };
  await standStill();
  expect(await ask()).toBe(200);
  await sleep(2_500);
  const [file, document] = ["/docs/static/swagger-ui-bundle.js", "/docs/json"];
  const answered = async () => {
    await standStill(); // what it samples counts for a second, in which a busy machine may not answer all
    const answers = ["/console", "/console/app.js", file, document].map(async (path) => (await fetch(`${w.url}${path}`)).status);
    return [await ask(), ...(await Promise.all(answers))];
  };
  await expect.poll(answered).toEqual([503, 200, 200, 200, 503]);
});
