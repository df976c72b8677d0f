// What one node knows that another did: two nodes on one PostgreSQL, each promise of "Many nodes" that doesn't need a crash to be seen.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Client as Connection } from "pg";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { limits } from "#shared/limits.ts";
import * as audit from "../../cloud/domain/audit.ts";
import { fanOut } from "../../cloud/domain/fan-out.ts";
import { beHeard } from "../../cloud/domain/nodes.ts";
import { emit } from "../../cloud/domain/outbox.ts";
import { DEFAULT_TENANT } from "../../cloud/domain/tenants.ts";
import { createLog } from "../../cloud/log.ts";
import { eq } from "../../cloud/store/drizzle.ts";
import { openStore } from "../../cloud/store/open.ts";
import { deliveries, lanes, nodes, outbox } from "../../cloud/store/schema.ts";
import type { Store } from "../../cloud/store/store.ts";
import { type Client, client } from "../../fixtures/client.ts";
import { follow, type Heard } from "../../fixtures/sse.ts";
import { gtinOf } from "../../fixtures/gtin.ts";
import { productMaker } from "../../fixtures/publishing.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startReceiver } from "../../fixtures/receiver.ts";
import { startProgram } from "../../fixtures/program.ts";
import { onServer } from "../../fixtures/postgres.ts";
import { startProxy } from "../../fixtures/tcp-proxy.ts";
import { startWorld, type World } from "../../fixtures/world.ts";
import { freshFolder } from "../endings.ts";
import { freshDatabase } from "../world.ts";

const KEY = "a-key-that-two-nodes-share-1";
const ORIGIN = "https://cloud.example";
const OURS = { origin: ORIGIN, "content-type": "application/json" }; // as the console's own page asks
const LOOK_MS = 8_000;
const TURNS_MS = 700;
const FROZEN_MS = 9_500;
const WRITES_MEANWHILE = 1_200;
const ended: World[] = [];
afterAll(() => Promise.all(ended.map((world) => world.end())));

async function node(databaseUrl: string | undefined, settings: Record<string, string> = {}): Promise<World & { boss: Client }> {
  const world = await startWorld({
    databaseUrl,
    clock: false,
    settings: { IMPRIMATUR_BOOTSTRAP_KEY: KEY, IMPRIMATUR_PUBLIC_URL: ORIGIN, ...settings },
  });
  ended.push(world);
  return { ...world, url: world.url, boss: world.as(KEY) };
}
const programSettings = (databaseUrl: string): Record<string, string> => {
  const folder = freshFolder("nodes");
  return {
    IMPRIMATUR_DATABASE_URL: databaseUrl,
    IMPRIMATUR_DATA_DIR: folder,
    IMPRIMATUR_BOOTSTRAP_KEY: KEY,
    IMPRIMATUR_PUBLIC_URL: ORIGIN,
    IMPRIMATUR_PORT: "0",
    IMPRIMATUR_MQTT_PORT: "0",
  };
};
async function twoNodes(settings?: Record<string, string>) {
  const url = await freshDatabase("postgres");
  return [await node(url, settings), await node(url, settings)] as const;
}

test("a key, a token and a session that die on one node are dead on the other at its next request", async () => {
  const [a, b] = await twoNodes();
  const key = (await a.boss.post("/api-keys", { name: "k", scopes: ["products:read"] })).body;
  const oauth = (await a.boss.post("/oauth/clients", { name: "c", scopes: ["products:read"] })).body;
  const asked = { grant_type: "client_credentials", client_id: oauth.client_id, client_secret: oauth.client_secret };
  const token = (await a.nobody.post("/oauth/token", asked, { "idempotency-key": randomUUID() })).body.access_token;
  const begun = await a.nobody.send("POST", "//console/session", { json: { key: KEY }, headers: OURS });
  const cookie = begun.headers.get("set-cookie")?.split(";")[0] ?? "";
  const session = () => b.nobody.get("//console/session", { headers: { cookie } });
  const seen = async () => [
    (await b.as(key.data.secret).get("/products")).status,
    (await b.as(token).get("/products")).status,
    (await session()).status,
  ];
  expect(await seen()).toEqual([200, 200, 200]);
  expect((await a.boss.delete(`/api-keys/${key.data.id}`)).status).toBe(204);
  expect((await a.boss.delete(`/oauth/clients/${oauth.client_id}`)).status).toBe(204);
  expect((await a.nobody.send("DELETE", "//console/session", { headers: { cookie, ...OURS } })).status).toBe(204);
  expect(await seen()).toEqual([401, 401, 401]);
});

test("the same idempotency key on two nodes at once has one effect and one answer", async () => {
  const [a, b] = await twoNodes();
  for (let round = 0; round < 10; round += 1) {
    const headers = { "idempotency-key": randomUUID() };
    const answers = await Promise.all(
      [a, b, a, b].map(({ boss }) => boss.post("/api-keys", { name: "once", scopes: ["aidc:read"] }, headers)),
    );
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, 201]);
    expect(new Set(answers.map(({ body }) => body.data.id)).size).toBe(1);
  }
  expect((await b.boss.get("/audit-logs?action=auth.key_created&limit=200")).body.data).toHaveLength(10);
});

test("a claim that was in vain on one node and had a job on the other is answered with that job on both", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const a = await node(url);
  const b = await startProgram("cloud/main.ts", programSettings(url)); // a process of its own: what was in vain is remembered by one
  onTestFinished(async () => void (await b.end()));
  const shop = await printShop({ url: a.url, admin: a.boss, as: (secret) => a.as(secret) });
  const headers = { authorization: `Bearer ${shop.device.secret}`, "idempotency-key": randomUUID() };
  const [onA, onB] = [client(() => a.url, headers), client(() => b.url, headers)];
  const claim = (api: Client) => api.post("/aidc/jobs/claim", { needs: ["qr"] });
  expect((await claim(onA)).status).toBe(204);
  await shop.issue();
  const answers = [await claim(onB), await claim(onA), await claim(onB)];
  expect(answers.map(({ status, text }) => `${status} ${text}`)).toEqual(answers.map(() => `200 ${answers[0]?.text}`));
});

test("serials, jobs and claims taken on two nodes at once are each taken once, and log and audit chain stay whole", async () => {
  const [a, b] = await twoNodes();
  const shop = await printShop({ url: a.url, admin: a.boss, as: (secret) => a.as(secret) });
  const there = b.as(shop.adminKey);
  const batch = (api: Client) => api.post("/carriers/batch", { productId: shop.product.id, count: 50 });
  const serials = (await Promise.all([shop.admin, there, shop.admin, there].map(batch))).flatMap(({ body }) => body.serials as string[]);
  expect(new Set(serials).size).toBe(200);
  const issuers = [shop.admin, there] as const;
  const made = serials.slice(0, 40).map((serial, i) => issuers[(i % 2) as 0 | 1].post("/aidc/jobs", { gtin: shop.gtin, serial }));
  expect(new Set((await Promise.all(made)).map(({ status }) => status))).toEqual(new Set([201]));
  const stations = [a.as(shop.device.secret), b.as(shop.device.secret)] as const;
  const wanted = { max: 3, needs: ["qr"], lease_seconds: 600 };
  const asked = Array.from({ length: 20 }, (_, i) => stations[(i % 2) as 0 | 1].post("/aidc/jobs/claim/batch", wanted));
  const claims = (await Promise.all(asked)).flatMap(({ body }) => body.claims as { job: { job_ref: string } }[]);
  const refs = claims.map(({ job }) => job.job_ref);
  expect(refs).toHaveLength(40);
  expect(new Set(refs).size).toBe(40);
  for (const api of [shop.admin, there]) expect((await api.get("/audit-logs/verify")).body.valid).toBe(true);
});

test(
  "files that two nodes import at once are imported once: each row a product, each product told of once",
  { timeout: 60_000 },
  async () => {
    const [a, b] = await twoNodes();
    const file = (n: number) =>
    ["name,description,gtin,serialNumber", ...Array.from({ length: 400 }, (_, i) => `Kettle,A kettle of 1.7 litres,${gtinOf(910_000 + n * 400 + i)},S-${i}`)].join("\n"); // oxfmt-ignore
    const headers = { "content-type": "text/csv" };
    const taken = await Promise.all(
      Array.from({ length: 6 }, (_, n) => (n % 2 ? a : b).boss.send("POST", "/imports?category=electronics", { body: file(n), headers })),
    );
    const ids = taken.map(({ body }) => body.data.id as string);
    const reports = async () => Promise.all(ids.map(async (id, n) => (await (n % 2 ? b : a).boss.get(`/imports/${id}`)).body)); // asked of the other node
    await expect.poll(async () => (await reports()).every(({ status }) => status === "completed"), { timeout: 50_000 }).toBe(true);
    for (const report of await reports()) expect(report).toMatchObject({ total: 400, processed: 400, created: 400, failed: 0 });
    const { data } = (await b.boss.get("/products/categories")).body;
    expect(data.find(({ category }: { category: string }) => category === "electronics").products).toBe(2_400);
    const told = await a.store.read("told", async ({ db }) =>
      db.values<[number, number]>("SELECT count(*), count(DISTINCT subject) FROM events WHERE type = 'product.created'"),
    );
    expect(told).toEqual([[2_400, 2_400]]);
  },
);

test("a webhook hears of a tenant's events in their order, also while one node is held up making deliveries of the first", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const settings = { IMPRIMATUR_WEBHOOK_PRIVATE: "on" };
  const [a, b] = [await node(url, settings), await node(url, settings)];
  const listen = async (...events: string[]) => {
    const receiver = await startReceiver();
    onTestFinished(() => receiver.end());
    const { id } = (await a.boss.post("/webhooks", { url: receiver.url, events })).body as { id: string };
    return { id, heard: () => receiver.received.map(({ event }) => event.type) };
  };
  const held = await listen("product.created");
  const other = await listen("product.created", "product.updated");
  const hand = new Connection({ connectionString: url });
  await hand.connect();
  onTestFinished(() => hand.end());
  await hand.query("BEGIN");
  await hand.query("SELECT 1 FROM lanes WHERE webhook_id = $1 FOR UPDATE", [held.id]);
  const { id } = await productMaker(a.boss)({ gtin: gtinOf(925_000) }, "none");
  const isHeldUp = async () =>
    (await hand.query("SELECT 1 FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))")).rowCount;
  await expect.poll(isHeldUp).toBeGreaterThan(0);
  await b.boss.patch(`/products/${id}`, { name: "Another" });
  await sleep(TURNS_MS); // of the node that nothing holds up
  await hand.query("ROLLBACK");
  await expect.poll(held.heard).toEqual(["product.created"]);
  await expect.poll(() => other.heard().length).toBe(2);
  expect(other.heard()).toEqual(["product.created", "product.updated"]);
});

test("what a node that was kept waiting makes deliveries of is told after what another one told meanwhile", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const line = await startProxy(() => ({ port: Number(new URL(url).port) }));
  onTestFinished(() => line.end());
  const storeAt = async (databaseUrl: string) => {
    const store = await openStore({ dataDir: "", databaseUrl, log: createLog("silent"), onFatal: () => {} });
    onTestFinished(() => store.close());
    return store;
  };
  const here = await storeAt(url);
  const behind = await storeAt(Object.assign(new URL(url), { port: line.port }).href);
  const tenantId = "a tenant";
  await here.write("lane", (tx) => tx.db.insert(lanes).values({ webhookId: "w", tenantId, dueAt: null, owner: null, leaseUntil: 0, revision: 1 })); // oxfmt-ignore
  const print = (serial: string) =>
    here.write("emit", (tx) => emit(tx, { tenantId }, "print.confirmed", { serials: [serial] }, { listeners: ["w"] }));
  const tell = (store: Store) => store.write("tell", (tx) => fanOut(tx, 32));
  const mend = line.afflict({ kind: "latency", ms: 1_000, jitterMs: 0 }, "down");
  const second = tell(behind);
  await sleep(100); // it has begun, and doesn't know yet
  mend();
  await print("first");
  await tell(here);
  await print("second");
  await second;
  await tell(here); // of what came after the other had looked, where the machine was slower than the line
  const told = await here.read("told", ({ db }) =>
    db.select({ body: outbox.body }).from(deliveries).innerJoin(outbox, eq(outbox.id, deliveries.eventId)).orderBy(deliveries.dueAt, deliveries.id),
  ); // oxfmt-ignore
  expect(told.map(({ body }) => JSON.parse(body).data.serials)).toEqual([["first"], ["second"]]);
});

test("a node that comes back from a long silence doesn't wait for another one that does", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const store = await openStore({ dataDir: "", databaseUrl: url, log: createLog("silent"), onFatal: () => {} });
  onTestFinished(() => store.close());
  await store.write("long ago", (tx) =>
    tx.db.insert(nodes).values(["here", "there", "gone"].map((id) => ({ id, origin: ORIGIN, seenAt: 0 }))),
  );
  const there = new Connection({ connectionString: url });
  await there.connect();
  onTestFinished(() => there.end());
  await there.query(`BEGIN; UPDATE nodes SET seen_at = ${Date.now()} WHERE id = 'there'`);
  const heard = store.write("roll call", (tx) => beHeard(tx, "here", ORIGIN)).then(() => "heard");
  const isFirst = await Promise.race([heard, sleep(15_000)]);
  await there.query("COMMIT");
  await heard;
  const left = await store.read("left", ({ db }) => db.select({ id: nodes.id }).from(nodes).orderBy(nodes.id));
  expect([isFirst, left.map(({ id }) => id)]).toEqual(["heard", ["here", "there"]]);
});

test("a passport that two nodes make at once is one, and is published and anchored once", { timeout: 60_000 }, async () => {
  const [a, b] = await twoNodes();
  const make = productMaker(a.boss);
  for (let n = 0; n < 8; n += 1) {
    const { id } = await make({ gtin: gtinOf(920_000 + n) }, "none");
    for (const stage of ["validated", "ready_for_dpp"]) await b.boss.post(`/products/${id}/lifecycle/transition`, { stage });
    const made = await Promise.all([a, b, a, b].map(({ boss }) => boss.post("/dpps", { productId: id })));
    expect(made.map(({ status }) => status).toSorted((one, other) => one - other)).toEqual([201, 409, 409, 409]);
    const passport = made.find(({ status }) => status === 201)?.body.id as string;
    const leaves = async () => Number((await a.boss.get("/log/checkpoint")).text.split("\n")[1]);
    const before = await leaves();
    const published = await Promise.all(
      [a, b].map(({ boss }) => boss.post(`/products/${id}/publish-dpp`, undefined, { "idempotency-key": `publish-${id}` })),
    );
    expect(published.map(({ status }) => status)).toEqual([200, 200]);
    const anchored = await Promise.all(
      [a, b, a, b].map(({ boss }) => boss.post(`/passports/${passport}/validations`, undefined, { "idempotency-key": `anchor-${id}` })),
    );
    expect(new Set(anchored.map(({ status }) => status))).toEqual(new Set([201]));
    expect((await leaves()) - before, "one validation under one key is one leaf").toBe(1);
  }
});

test("a node that ends in order gives back the passports and the file that it had still to do", { timeout: 60_000 }, async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const a = await node(url);
  const make = productMaker(a.boss);
  const hand = new Connection({ connectionString: url });
  await hand.connect();
  onTestFinished(() => hand.end());
  const HOLD = "BEGIN; LOCK TABLE passport_versions IN SHARE MODE"; // what is begun can't be made
  const rows = async (statement: string) => (await hand.query({ text: statement, rowMode: "array" })).rows as unknown[][];
  const leases = () => rows("SELECT state, lease_until > '0' FROM passports ORDER BY id");
  const generate = async (n: number) => {
    const { id } = await make({ gtin: gtinOf(930_000 + n) }, "none");
    for (const stage of ["validated", "ready_for_dpp"]) await a.boss.post(`/products/${id}/lifecycle/transition`, { stage });
    expect((await a.boss.post("/passports/generate", { productId: id })).status).toBe(202);
  };
  await hand.query(HOLD);
  await generate(0);
  await expect.poll(leases).toEqual([["generating", true]]);
  for (const n of [1, 2, 3]) await generate(n);
  await hand.query(`COMMIT; ${HOLD}`);
  await expect.poll(leases).toEqual([["draft", false], ...[1, 2, 3].map(() => ["generating", true])]);
  const lines = Array.from({ length: 20_000 }, (_, i) => `Pot ${i},A pot of cast iron,${gtinOf(300_000 + i)},SN-${i}`);
  const body = ["name,description,gtin,serialNumber", ...lines].join("\n");
  await a.boss.send("POST", "/imports?category=electronics", { body, headers: { "content-type": "text/csv" } });
  await expect.poll(() => rows("SELECT processed > '0' FROM imports")).toEqual([[true]]);
  const closed = a.close();
  await expect.poll(() => a.nobody.get("//healthz").then(() => "open", () => "shut")).toBe("shut"); // oxfmt-ignore
  await sleep(300);
  await hand.query("COMMIT");
  await closed;
  expect(await leases()).toEqual([["draft", false], ["draft", false], ["generating", false], ["generating", false]]); // oxfmt-ignore
  expect(await rows("SELECT status, lease_until FROM imports")).toEqual([["running", "0"]]);
});

test("who watches one node hears of what is done on the other", { timeout: 60_000 }, async () => {
  const [a, b] = await twoNodes();
  const shop = await printShop({ url: b.url, admin: b.boss, as: (secret) => b.as(secret) });
  const begun = await a.nobody.send("POST", "//console/session", { json: { key: shop.adminKey }, headers: OURS });
  const cookie = begun.headers.get("set-cookie")?.split(";")[0] ?? "";
  const seen = await follow(`${a.url}/console/events`, { cookie });
  const sealed = ({ event, data }: Heard) => event === "summary" && (data as { states: Record<string, number> }).states["SEALED"];
  await seen.heard((heard) => sealed(heard) === 0);
  await shop.issue();
  await shop.device.seal(await shop.device.claim());
  const { data } = await seen.heard((heard) => sealed(heard) === 1);
  expect(data).toMatchObject({ states: { QUEUED: 0, SEALED: 1 } });
  seen.close();
});

test(
  "who watches a node that stood still hears of all that changed meanwhile, however much else was done since",
  { timeout: 90_000 },
  async () => {
    const url = (await freshDatabase("postgres")) ?? "";
    const b = await node(url);
    const a = await startProgram("cloud/main.ts", programSettings(url));
    onTestFinished(async () => void (await a.end("SIGKILL")));
    const begun = await client(() => a.url).send("POST", "//console/session", { json: { key: KEY }, headers: OURS });
    const cookie = begun.headers.get("set-cookie")?.split(";")[0] ?? "";
    const seen = await follow(`${a.url}/console/events`, { cookie });
    onTestFinished(seen.close);
    const told = (topic: string) => (heard: Heard) =>
      heard.event === "changed" && (heard.data as { topics: string[] }).topics.includes(topic);
    await seen.heard(({ event }) => event === "summary");
    process.kill(a.pid, "SIGSTOP");
    await productMaker(b.boss)({ gtin: gtinOf(925_001) }, "none");
    const credential = { kind: "system", id: "else", name: "whoever else is about" } as const;
    await b.store.write("much else", async (tx) => {
      for (let i = 0; i < WRITES_MEANWHILE; i += 1)
        audit.append(tx, { tenantId: DEFAULT_TENANT, credential }, { action: "tenant.updated", subject: null, requestId: randomUUID() });
    });
    process.kill(a.pid, "SIGCONT");
    await seen.heard(told("audit"));
    expect(seen.all().filter(told("product"))).toHaveLength(1);
  },
);

test(
  "who watches sees a device go whose end had to wait for as long as a node that is frozen can hold others up",
  { timeout: 60_000 },
  async () => {
    const url = (await freshDatabase("postgres")) ?? "";
    const a = await node(url);
    const shop = await printShop({ url: a.url, admin: a.boss, as: (secret) => a.as(secret) });
    const begun = await a.nobody.send("POST", "//console/session", { json: { key: shop.adminKey }, headers: OURS });
    const seen = await follow(`${a.url}/console/events`, { cookie: begun.headers.get("set-cookie")?.split(";")[0] ?? "" });
    onTestFinished(seen.close);
    const ofDevices = ({ event, data }: Heard) =>
      event === "devices" ? (data as { devices: { id: string }[]; removed: string[] }) : undefined;
    await seen.heard((heard) => ofDevices(heard)?.devices.some(({ id }) => id === shop.device.id) ?? false);
    const frozen = new Connection({ connectionString: url });
    await frozen.connect();
    onTestFinished(() => frozen.end());
    await frozen.query("BEGIN");
    await frozen.query("SELECT 1 FROM audit_heads WHERE tenant_id = $1 FOR UPDATE", [shop.tenantId]);
    const removed = shop.admin.delete(`/devices/${shop.device.id}`);
    await sleep(FROZEN_MS);
    await frozen.query("ROLLBACK");
    expect((await removed).status).toBe(204);
    await seen.heard((heard) => ofDevices(heard)?.removed.includes(shop.device.id) ?? false);
  },
);

test("who asks what changed since a while before the latest change that it knows, as is told, misses no product whose commit came later", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const [a, b] = [await node(url), await node(url)];
  const newProduct = productMaker(a.boss);
  const slow = await newProduct({ gtin: gtinOf(920_001) }, "none");
  const [holder, watcher] = [new Connection({ connectionString: url }), new Connection({ connectionString: url })];
  for (const each of [holder, watcher]) {
    await each.connect();
    onTestFinished(() => each.end());
  }
  await holder.query("BEGIN");
  await holder.query("SELECT 1 FROM products WHERE id = $1 FOR UPDATE", [slow.id]);
  const IN_WAIT = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
  const changing = a.boss.patch(`/products/${slow.id}`, { name: "changed slowly" });
  await expect.poll(async () => (await watcher.query(IN_WAIT)).rowCount).toBe(1);
  const quick = await newProduct({ gtin: gtinOf(920_002), name: "changed quickly" }, "none");
  const { updatedAt: known } = (await b.boss.get(`/products/${quick.id}`)).body;
  await holder.query("ROLLBACK");
  const { status, body: changed } = await changing;
  expect([status, changed.updatedAt < known]).toEqual([200, true]);
  const since = new Date(Date.parse(known) - limits.COMMIT_LATE_MAX_MS).toISOString();
  const asked = `/products?updatedSince=${since}&limit=1`;
  const { data: first, nextCursor } = (await b.boss.get(asked)).body;
  const rest = nextCursor === null ? { data: [], nextCursor } : (await b.boss.get(`${asked}&cursor=${nextCursor}`)).body;
  expect([...first, ...rest.data].map(({ id, productName }) => [id, productName])).toEqual([
    [quick.id, "changed quickly"],
    [slow.id, "changed slowly"],
  ]);
  expect(rest.nextCursor).toBe(null);
});

test("a rate budget is one budget on all nodes", async () => {
  const [a, b] = await twoNodes({ IMPRIMATUR_RATE_LIMIT: "on" });
  const { adminKey } = (await a.boss.post("/tenants", { name: "s", sandbox: true })).body;
  const [here, there] = [a.as(adminKey.secret), b.as(adminKey.secret)];
  const burst = (as: Client) => Promise.all(Array.from({ length: 12 }, () => as.get("/tenant")));
  const began = performance.now();
  await Promise.all([burst(here), burst(there)]);
  // Each let a burst through before it knew of the other: now both are in debt, which is paid back before there is more.
  let all = 24;
  const seconds = () => (performance.now() - began) / 1_000;
  const until = performance.now() + LOOK_MS;
  const asking = async (as: Client) => {
    while (performance.now() < until || all === 24) {
      if ((await as.get("/tenant")).status === 200) all += 1;
      await sleep(100);
    }
  };
  await Promise.all([asking(here), asking(there)]);
  // 120 a minute and the burst of 12, and on each node what came within the second in which it didn't know of the other; 56 if they knew nothing.
  expect(all).toBeLessThanOrEqual(2 * seconds() + 12 + 2 * 4);
});

test("a tenant gets no more webhooks than it may have, also from two nodes at once", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const [a, b] = [await node(url), await node(url)];
  const made = { url: "https://hooks.example/in", events: ["product.created"] };
  const first = (await a.boss.post("/webhooks", made)).body;
  const room = 4;
  await onServer(
    url,
    `INSERT INTO webhooks SELECT (jsonb_populate_record(w, jsonb_build_object('id', 'w' || n))).*
      FROM webhooks w, generate_series(1, ${limits.WEBHOOKS_MAX_ITEMS - 1 - room}) n WHERE w.id = '${first.id}'`,
  );
  /** A machine that is busy beyond measure lets one wait for the store in vain, which changes nothing: it asks again. */
  const asks = async (at: typeof a): Promise<number> => {
    const { status } = await at.boss.post("/webhooks", made);
    return status === 503 ? asks(at) : status;
  };
  const statuses = await Promise.all(Array.from({ length: 4 * room }, (_, n) => asks(n % 2 ? a : b)));
  expect(statuses.filter((status) => status === 201)).toHaveLength(room);
  expect(statuses.filter((status) => status === 409)).toHaveLength(3 * room);
});

test("of two nodes that start at once on an empty database one makes the bootstrap key, and it is good on both", async () => {
  const url = await freshDatabase("postgres");
  const shown: string[] = [];
  const start = () =>
    startWorld({
      databaseUrl: url,
      clock: false,
      settings: { IMPRIMATUR_BOOTSTRAP_KEY: "", IMPRIMATUR_PUBLIC_URL: ORIGIN },
      onNewKey: (secret) => void shown.push(secret),
    });
  const nodes = await Promise.all([start(), start(), start()]);
  ended.push(...nodes);
  expect(shown).toHaveLength(1);
  for (const world of nodes) expect((await world.as(shown[0] ?? "").get("/tenant")).status).toBe(200);
  expect(nodes.filter(({ bootstrapFile }) => existsSync(bootstrapFile))).toHaveLength(1);
});

test.each([
  ["LOCALHOST", /^http:\/\/localhost:\d+$/],
  ["0:0:0:0:0:0:0:1", /^http:\/\/\[::1\]:\d+$/],
])("a cloud that listens at %s stands on labels as everybody writes that", async (host, origin) => {
  const world = await node(undefined, { IMPRIMATUR_PUBLIC_URL: "", IMPRIMATUR_HOST: host });
  expect(world.url).toMatch(origin);
});

test.runIf(process.platform === "linux")(
  "a cloud that listens at an address that no URL has starts, where its public URL is told",
  async () => {
    const { url } = await node(undefined, { IMPRIMATUR_HOST: "::1%lo" });
    expect(url).toMatch(/^http:\/\/\[::1%lo\]:\d+$/);
  },
);

test.each([
  [true, "a node on PostgreSQL", true, "127.0.0.1"],
  [true, "a cloud that listens everywhere", false, "0.0.0.0"],
  [false, "a cloud of this machine's own", false, "127.0.0.1"],
])("without a public URL it is %s that %s says which address stands on its labels", async (is, _who, isNode, host) => {
  const world = await node(isNode ? await freshDatabase("postgres") : undefined, { IMPRIMATUR_PUBLIC_URL: "", IMPRIMATUR_HOST: host });
  expect(world.logged().some((line) => line.includes(`labels, links and tokens name http://${host}:${new URL(world.url).port}: `))).toBe(
    is,
  );
});
