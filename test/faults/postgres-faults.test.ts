// PostgreSQL misbehaves while we work: connections are killed, transactions lose against others, the server is gone for good and its standby takes over.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { burstOf, limits, tiers } from "#shared/limits.ts";
import { jobPath } from "#shared/states.ts";
import type { Refusal } from "#shared/errors.ts";
import { createLog } from "../../cloud/log.ts";
import { openPostgres } from "../../cloud/store/postgres.ts";
import { storeOn } from "../../cloud/store/store.ts";
import { startBalancer } from "../../fixtures/balancer.ts";
import { topicsOf } from "#shared/mqtt.ts";
import type { Client } from "../../fixtures/client.ts";
import { peer } from "../../fixtures/mqtt.ts";
import { onServer, type Postgres, startPostgres } from "../../fixtures/postgres.ts";
import { bundleOf, type Claim, goodItems, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { startProxy } from "../../fixtures/tcp-proxy.ts";
import { type World } from "../../fixtures/world.ts";
import { endsWithFile } from "../endings.ts";
import { freshDatabase, world } from "../world.ts";

const SOON = { timeout: 30_000, interval: 50 };
const WRITERS = 8;
const SILENT_MS = 500;
const PATIENCE_MS = 300;

/** Writes without a pause, each until it is answered well under its one key; what else was said meanwhile is noted. */
function load(w: World) {
  const [answered, refused]: [Map<string, string>, Set<string>] = [new Map(), new Set()];
  let running = true;
  const writer = async (n: number) => {
    for (let i = 0; running; i += 1) {
      const name = `${n}-${i}`;
      for (let done = false; !done && running;) {
        const { status, body } = await w.admin.post("/api-keys", { name, scopes: ["aidc:read"] }, { "idempotency-key": name });
        done = status === 201;
        if (done) answered.set(name, body.data.id as string);
        else refused.add(`${status} ${body.error.code as string}`);
      }
    }
  };
  const writers = Array.from({ length: WRITERS }, (_, n) => writer(n));
  return {
    answered,
    refused,
    more: async (count = 50) => {
      const before = answered.size;
      await expect.poll(() => answered.size).toBeGreaterThan(before + count);
    },
    end: async () => {
      running = false;
      await Promise.all(writers);
    },
  };
}
/** Lines that print: each call is made until it is answered well, with its one key, as a station does; the seals that were answered. */
async function printing(w: World) {
  const shop = await printShop(w);
  const sealed: string[] = [];
  const refused = new Set<string>();
  let running = true;
  const say = async (client: Client, path: string, body: object, key: string) => {
    for (;;) {
      const answer = await client.post(path, body, { "idempotency-key": key });
      if (answer.status < 300) return answer.body;
      refused.add(`${answer.status} ${answer.body.error.code as string}`);
      if (answer.status !== 503) throw new Error(`${path}: ${answer.text}`);
    }
  };
  const line = async (n: number) => {
    const { api } = await shop.newDevice(`line ${n}`);
    for (let i = 0; running; i += 1) {
      const key = `${n} ${i}`;
      const { serials } = await say(shop.admin, "/carriers/batch", { productId: shop.product.id, count: 1 }, key);
      const station = `station-${n}`;
      await say(shop.admin, "/aidc/jobs", { gtin: shop.gtin, serial: serials[0], station }, key);
      const claimed = await say(api, "/aidc/jobs/claim", { needs: ["qr"], station, lease_seconds: 600 }, key);
      const items = goodItems(claimed);
      for (const item of [...items, sealOf(items)])
        await say(api, `/aidc/jobs/${claimed.job.job_ref}/result`, { attempt_id: claimed.attempt_id, ...item }, `${key} ${item.status}`);
      sealed.push(claimed.job.job_ref);
    }
  };
  const lines = Promise.allSettled(Array.from({ length: 3 }, (_, n) => line(n)));
  return {
    sealed,
    refused,
    more: async () => {
      const before = sealed.length;
      await expect.poll(() => sealed.length).toBeGreaterThan(before + 5);
    },
    end: async () => {
      running = false;
      for (const ended of await lines) if (ended.status === "rejected") refused.add(String(ended.reason));
    },
    /** Labels whose record isn't what was answered: sealed once by one claim, with a bundle that the log proves. */
    wrong: async (refs: readonly string[]) => {
      const found = await Promise.all(
        refs.map(async (ref) => {
          const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body as { data?: { to: string }[] };
          const { items, sha256, proof } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
          const path = data?.map(({ to }) => to).join();
          return path === jobPath.join() && bundleOf(items ?? []) === sha256 && proof !== null ? [] : [`${ref}: ${path}`];
        }),
      );
      return found.flat();
    },
  };
}

/** What was answered and isn't there, and whether anything is there twice. */
async function judged(w: World, answered: ReadonlyMap<string, string>) {
  const rows = await w.store.read("keys", async ({ db }) =>
    db.values<[string, string]>("SELECT id, name FROM api_keys WHERE name LIKE '%-%'"),
  );
  const there = new Set(rows.map(([id]) => id));
  const names = rows.map(([, name]) => name).filter((name) => /^\d+-\d+$/.test(name));
  return {
    lost: [...answered.values()].filter((id) => !there.has(id)).length,
    twice: names.length - new Set(names).size,
    valid: (await w.admin.get("/audit-logs/verify")).body.valid as boolean,
  };
}
async function worldOn(databaseUrl: string): Promise<World> {
  return world({ databaseUrl, clock: false });
}

test(
  "connections killed in the middle of anything: typed refusals at most, each write there once, no restart of ours",
  { timeout: 90_000 },
  async () => {
    const url = (await freshDatabase("postgres")) ?? "";
    const w = await worldOn(url);
    const work = load(w);
    const kill =
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() < 0.4";
    for (let round = 0; round < 12; round += 1) {
      await work.more(10);
      await onServer(url, kill);
    }
    await work.more();
    await work.end();
    expect([...work.refused]).toEqual(["503 STORE_UNAVAILABLE"]); // some were hit, or this has shown nothing
    expect(await judged(w, work.answered)).toEqual({ lost: 0, twice: 0, valid: true });
  },
);

/** Every fifth audit row that is written fails as if another transaction had won: of every third, now and then one unit met eight, and was refused. */
const tripping = (code: string) => `
  CREATE SEQUENCE trips;
  CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN IF nextval('trips') % 5 = 0 THEN RAISE EXCEPTION 'tripped' USING ERRCODE = '${code}'; END IF; RETURN NEW; END $$;
  CREATE TRIGGER trip BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION trip();`;

test.each([
  ["serialization failures", "40001"],
  ["deadlocks", "40P01"],
])("%s are tried again inside: nobody hears of them, and nothing is done twice", { timeout: 60_000 }, async (_what, code) => {
  const url = (await freshDatabase("postgres")) ?? "";
  const w = await worldOn(url);
  await onServer(url, tripping(code));
  const work = load(w);
  await work.more(100);
  await work.end();
  expect([...work.refused]).toEqual([]);
  expect(await judged(w, work.answered)).toEqual({ lost: 0, twice: 0, valid: true });
});

test("a conflict that one of many reports meets is tried again for all of them: those that failed because of it don't hide it", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const w = await worldOn(url);
  const shop = await printShop(w);
  const serials = await shop.allocate(30);
  await shop.admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin: shop.gtin, serial })) });
  const { claims } = (await shop.device.api.post("/aidc/jobs/claim/batch", { max: 30, needs: ["qr"] })).body as { claims: Claim[] };
  await onServer(
    url,
    `CREATE SEQUENCE moves;
    CREATE FUNCTION trip_once() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN IF nextval('moves') = 20 THEN RAISE EXCEPTION 'tripped' USING ERRCODE = '40P01'; END IF; RETURN NEW; END $$;
    CREATE TRIGGER trip_once BEFORE UPDATE ON print_jobs FOR EACH ROW EXECUTE FUNCTION trip_once();`,
  );
  const results = claims.flatMap((claimed) =>
    goodItems(claimed).map((item) => ({ job_ref: claimed.job.job_ref, attempt_id: claimed.attempt_id, ...item })),
  );
  const told = await shop.device.api.post("/aidc/results", { results });
  expect(told.status).toBe(200);
  expect(new Set(told.body.results.map(({ status }: { status: number }) => status))).toEqual(new Set([200]));
});

test("the control: a fault that is no conflict does reach the caller from the same place", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const w = await worldOn(url);
  await onServer(url, tripping("22012"));
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) => w.admin.post("/api-keys", { name: `${i}`, scopes: ["aidc:read"] })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201, 500]));
});

const FOLLOWS_NOBODY = "DO $$ BEGIN IF EXISTS (SELECT FROM pg_stat_wal_receiver) THEN RAISE EXCEPTION 'it still follows'; END IF; END $$";
/** A primary and its standby, behind the one name that the cloud knows. */
async function pair() {
  const primary = await startPostgres();
  endsWithFile(primary.stop);
  const database = await primary.createDatabase("floor");
  await primary.halt();
  const standby: Postgres = await startPostgres({ follows: primary });
  endsWithFile(standby.stop);
  await primary.start();
  let serving = primary;
  const address = await startBalancer(() => [serving.url]);
  endsWithFile(address.end);
  const url = new URL(database);
  url.port = new URL(address.url).port;
  return { primary, standby, url: url.href, leadTo: (server: Postgres) => void (serving = server) };
}
const CUT = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname <> 'postgres' AND pid <> pg_backend_pid()";

test("an address that leads to a replica for a while: nobody is answered by it, and the same cloud goes on with the primary", { timeout: 90_000 }, async () => {
  const { primary, standby, url, leadTo } = await pair();
  const w = await worldOn(url);
  const statuses = async () => [
    (await w.admin.post("/api-keys", { name: "x", scopes: ["aidc:read"] })).status,
    (await w.admin.get("/api-keys")).status,
    (await w.admin.get("//readyz")).status,
  ];
  expect(await statuses()).toEqual([201, 200, 200]);
  leadTo(standby);
  await onServer(primary.url, CUT);
  await expect.poll(statuses, SOON).toEqual([503, 503, 503]);
  leadTo(primary);
  await expect.poll(statuses, SOON).toEqual([201, 200, 200]);
}); // oxfmt-ignore

test("a database that only reads for a while, as one whose disk is full does: what was refused is taken once it may be written to", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const w = await worldOn(url);
  const name = new URL(url).pathname.slice(1);
  const write = async () => (await w.admin.post("/api-keys", { name: "x", scopes: ["aidc:read"] })).status;
  const statuses = async () => new Set(await Promise.all(Array.from({ length: limits.POSTGRES_CONNECTIONS }, write)));
  const isRefused = async () => (await statuses()).has(503) && w.logged().some((line) => line.includes("25006"));
  await onServer(url, `ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  await onServer(url, CUT.replace("<> 'postgres'", "= current_database()"));
  await expect.poll(isRefused, SOON).toBe(true);
  await onServer(url, `BEGIN READ WRITE; ALTER DATABASE ${name} RESET default_transaction_read_only; COMMIT`);
  await expect.poll(statuses, SOON).toEqual(new Set([201]));
});

test("a connection that only reads is given up for a new one, also where many units meet it together", async (t) => {
  const url = (await freshDatabase("postgres")) ?? "";
  const store = storeOn(openPostgres({ url, connections: 1 }), createLog("silent"));
  t.onTestFinished(store.close);
  await store.write("table", ({ db }) => db.run("CREATE TABLE told (n BIGINT)"));
  const tell = (n: number) => store.joint.write("tell", ({ db }) => db.run(`INSERT INTO told VALUES (${n})`));
  const all = async () => (await Promise.allSettled([1, 2, 3].map(tell))).map(({ status }) => status);
  await store.write("demoted", ({ db }) => db.run("SET default_transaction_read_only = on")); // as behind an address that leads elsewhere by now
  expect([new Set(await all()), await all()]).toEqual([new Set(["rejected"]), ["fulfilled", "fulfilled", "fulfilled"]]);
});

/** A primary that is lost for good under load, and its standby promoted in its place. */
async function failover({ waitsForStandby }: { waitsForStandby: boolean }) {
  const { primary, standby, url, leadTo } = await pair();
  const waitFor = async (names: string) => {
    await onServer(primary.url, `ALTER SYSTEM SET synchronous_standby_names = '${names}'`);
    await onServer(primary.url, "SELECT pg_reload_conf()");
  };
  await waitFor("*");
  const w = await worldOn(url);
  const work = load(w);
  const labels = await printing(w);
  await work.more();
  await labels.more();
  if (!waitsForStandby) {
    await waitFor("");
    await onServer(standby.url, "ALTER SYSTEM SET primary_conninfo = ''"); // it falls behind, and nobody waits for it
    await onServer(standby.url, "SELECT pg_reload_conf()");
    await expect.poll(() => onServer(standby.url, FOLLOWS_NOBODY).then(() => "it follows nobody", String)).toBe("it follows nobody");
    await work.more();
    await labels.more();
  }
  await primary.crash("SIGKILL");
  leadTo(standby);
  await onServer(standby.url, "SELECT pg_promote()");
  const before = new Map(work.answered);
  const sealedBefore = [...labels.sealed];
  if (waitsForStandby) await work.more();
  if (waitsForStandby) await labels.more();
  await work.end();
  await labels.end();
  expect([...work.refused].filter((refusal) => refusal !== "503 STORE_UNAVAILABLE")).toEqual([]);
  return { w, before, answered: work.answered, labels, sealedBefore };
}

test(
  "the primary is lost for good: on the promoted standby every answered write is there, and the same cloud goes on",
  { timeout: 120_000 },
  async () => {
    const { w, answered, labels } = await failover({ waitsForStandby: true });
    expect(await judged(w, answered)).toEqual({ lost: 0, twice: 0, valid: true });
    expect([...labels.refused].filter((refusal) => refusal !== "503 STORE_UNAVAILABLE")).toEqual([]);
    expect(await labels.wrong(labels.sealed), "every label whose seal was answered is sealed once, by one claim, and proven").toEqual([]);
  },
);

test(
  "the control: where the primary doesn't wait for its standby, the same failover loses answers, and the check counts them",
  { timeout: 120_000 },
  async () => {
    const { w, before, labels, sealedBefore } = await failover({ waitsForStandby: false });
    await expect.poll(async () => (await w.admin.get("//readyz")).status, { timeout: 30_000 }).toBe(200);
    expect((await judged(w, before)).lost).toBeGreaterThan(0);
    expect((await labels.wrong(sealedBefore)).length).toBeGreaterThan(0);
  },
);

test("the server's machine is gone without a word: what was asked of it is refused, and the same store goes on with the one in its place", async (t) => {
  const url = new URL((await freshDatabase("postgres")) ?? "");
  const address = await startProxy(() => ({ port }));
  const port = Number(url.port);
  url.port = String(address.port);
  const engine = openPostgres({ url: url.href, silentMaxMs: SILENT_MS });
  const store = storeOn(engine, createLog("silent"));
  t.onTestFinished(address.end);
  t.onTestFinished(store.close);
  await engine.script("CREATE TABLE told (n BIGINT)");
  const tell = (n: number) => store.write("tell", ({ db }) => db.run(`INSERT INTO told VALUES (${n})`));
  const tellJoint = (n: number) => store.joint.write("tell", ({ db }) => db.run(`INSERT INTO told VALUES (${n})`));
  const look = () => store.joint.read("look", ({ db }) => db.values("SELECT count(*) FROM told"));
  const all = () => Promise.allSettled([tell(1), tellJoint(2), look()]);
  expect(new Set((await all()).map(({ status }) => status))).toEqual(new Set(["fulfilled"]));
  address.bereave();
  const refused = (await all()).flatMap((end) => (end.status === "rejected" ? [(end.reason as Refusal).code] : []));
  expect(refused).toEqual(["STORE_UNAVAILABLE", "STORE_UNAVAILABLE", "STORE_UNAVAILABLE"]);
  await expect.poll(async () => new Set((await all()).map(({ status }) => status)), SOON).toEqual(new Set(["fulfilled"]));
  await engine.script(`SELECT pg_sleep(${(2 * SILENT_MS) / 1_000})`); // what brings tables up to date may be silent for as long as it takes
}); // oxfmt-ignore

test("a line that lets a byte through now and then is given up as well: who shares it waits no longer, and the same store goes on over another", { timeout: 60_000 }, async (t) => {
  const url = new URL((await freshDatabase("postgres")) ?? "");
  const address = await startProxy(() => ({ port }));
  const port = Number(url.port);
  url.port = String(address.port);
  const store = storeOn(openPostgres({ url: url.href, silentMaxMs: 4 * SILENT_MS }), createLog("silent"));
  t.onTestFinished(address.end);
  t.onTestFinished(store.close);
  const look = () => store.joint.read("look", ({ db }) => db.values("SELECT repeat('x', 10000)"));
  await look();
  const heal = address.afflict({ kind: "slice", bytes: 1, ms: SILENT_MS / 10 }, "down");
  await expect(look()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  heal();
  expect(await look()).toHaveLength(1);
}); // oxfmt-ignore

test("a connection that comes when whoever waited for it has just given up isn't lost to the pool", async (t) => {
  const url = new URL((await freshDatabase("postgres")) ?? "");
  const address = await startProxy(() => ({ port }));
  const port = Number(url.port);
  url.port = String(address.port);
  t.onTestFinished(address.end);
  const stores = Array.from({ length: 12 }, () => storeOn(openPostgres({ url: url.href, connections: 1 }), createLog("silent")));
  for (const store of stores) t.onTestFinished(store.close);
  const look = (store: (typeof stores)[number]) => store.read("look", ({ db }) => db.values("SELECT 1"));
  await Promise.all(stores.map(look));
  const slow = address.afflict({ kind: "latency", ms: 400, jitterMs: 0 });
  // Each loses its only connection at another moment before the five seconds are over that the next one waits.
  const lost = stores.map((store, i) =>
    store.write("lost", async ({ db }) => {
      await sleep(1_800 + 250 * i);
      await db.run("SELECT pg_terminate_backend(pg_backend_pid())");
    }),
  );
  await Promise.allSettled([...lost, ...stores.map(look)]);
  slow();
  for (const store of stores) await expect.poll(() => look(store).then((rows) => rows, String), SOON).toEqual([[1]]);
});

test("a unit of a node that stood for longer than the server waits is undone, and may be asked again", async (t) => {
  const store = storeOn(openPostgres({ url: (await freshDatabase("postgres")) ?? "" }), createLog("silent"));
  t.onTestFinished(store.close);
  await store.write("table", ({ db }) => db.run("CREATE TABLE told (n BIGINT)"));
  const frozen = store.write("frozen", async ({ db }) => {
    await db.run(`SET LOCAL idle_in_transaction_session_timeout = ${PATIENCE_MS}`); // else the server's patience is ten seconds
    await db.run("INSERT INTO told VALUES (1)");
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3 * PATIENCE_MS); // just before the commit
  });
  await expect(frozen).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
  expect(await store.read("look", ({ db }) => db.values("SELECT count(*) FROM told"))).toEqual([[0]]);
});

test("what was let through while the server was away is paid back by then as well: nobody is refused for it afterwards", { timeout: 90_000 }, async () => {
  const server = await startPostgres();
  endsWithFile(() => server.stop());
  const w = await world({ databaseUrl: await server.createDatabase("rates"), clock: false, settings: { IMPRIMATUR_RATE_LIMIT: "on" } });
  const look = async () => (await w.nobody.get("/log/checkpoint")).status;
  await server.crash();
  const perSecond = tiers.anonymous / 60;
  const meanwhile = [];
  for (let n = 0; n < 2 * burstOf(tiers.anonymous); n += 1, await sleep(1_000 / perSecond)) meanwhile.push(await look());
  expect(new Set(meanwhile)).toEqual(new Set([503]));
  await server.start();
  const after: number[] = [];
  const isServed = async () => {
    after.push(await look());
    return after.filter((status) => status === 200).length;
  };
  await expect.poll(isServed, { ...SOON, interval: 400 }).toBe(5);
  expect(after).not.toContain(429);
}); // oxfmt-ignore

test(
  "what a station says by MQTT while the server is away is written when it is back, and its newest word counts",
  { timeout: 60_000 },
  async () => {
    const server = await startPostgres();
    endsWithFile(() => server.stop());
    const w = await world({ databaseUrl: await server.createDatabase("away") });
    const { admin, device, tenantId } = await printShop(w);
    const { mqtt } = (await device.api.get("/aidc/station")).body;
    const one = await peer(mqtt.url, { username: device.id, password: device.secret });
    const { status, telemetry } = topicsOf({ tenantId, deviceId: device.id });
    const failures = () => w.logged().filter((line) => line.includes("station-reports-failed")).length;
    await server.crash();
    await one.say(status, JSON.stringify({ status: "degraded", buffer_depth: 1 }), true);
    await expect.poll(failures, SOON).toBeGreaterThan(0);
    await one.say(telemetry, JSON.stringify({ buffer_depth: 2 }));
    const before = failures();
    await expect.poll(failures, SOON).toBeGreaterThan(before);
    await server.start();
    await expect
      .poll(async () => (await admin.get(`/devices/${device.id}`)).body, SOON)
      .toMatchObject({ status: "degraded", buffer_depth: 2 });
    await one.leave();
  },
);

test("what a station said by MQTT while its row couldn't be written, as where the disk is full, is written once it can be", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const w = await worldOn(url);
  const { admin, device, tenantId } = await printShop(w);
  const { mqtt } = (await device.api.get("/aidc/station")).body;
  const one = await peer(mqtt.url, { username: device.id, password: device.secret });
  await onServer(
    url,
    `CREATE FUNCTION is_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$;
    CREATE TRIGGER is_full BEFORE UPDATE ON devices FOR EACH ROW EXECUTE FUNCTION is_full();`,
  );
  await one.say(topicsOf({ tenantId, deviceId: device.id }).status, JSON.stringify({ status: "degraded", buffer_depth: 7 }), true);
  await expect.poll(() => w.logged().some((line) => line.includes("station-reports-failed")), SOON).toBe(true);
  await onServer(url, "DROP TRIGGER is_full ON devices");
  await expect
    .poll(async () => (await admin.get(`/devices/${device.id}`)).body, SOON)
    .toMatchObject({ status: "degraded", buffer_depth: 7 });
  await one.leave();
});
