// A rolling restart: nodes come and go and the schema grows under those that run, while no request fails and no answered write is lost.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseYaml } from "@redocly/openapi-core";
import { Client } from "pg";
import { expect, test } from "vitest";
import { createLog } from "../../cloud/log.ts";
import { migrate, migrationsIn } from "../../cloud/store/migrate.ts";
import { openPostgres } from "../../cloud/store/postgres.ts";
import { storeOn } from "../../cloud/store/store.ts";
import { client } from "../../fixtures/client.ts";
import { haproxyMissing, startHaproxy } from "../../fixtures/haproxy.ts";
import { freePort } from "../../fixtures/free-port.ts";
import { onServer } from "../../fixtures/postgres.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { cloudSettings, type Program, startProgram } from "../../fixtures/program.ts";
import { freshFolder } from "../endings.ts";
import { freshDatabase } from "../world.ts";

const compose = parseYaml(readFileSync(new URL("../../cloud/deploy/compose.yaml", import.meta.url), "utf8")) as {
  "x-node": { environment: Record<string, string> };
};
const { IMPRIMATUR_DRAIN_NOTICE_S: DRAIN_NOTICE_S = "0" } = compose["x-node"].environment;
const adminKey = "a-key-for-the-rolling-test-1";
const folder = freshFolder("rolling");

/** Sends everybody to the next node that says it is ready, looking as often as balancers do, only faster. */
function balancer() {
  const nodes: Program[] = [];
  const ready = new Set<Program>();
  const watchers: Promise<void>[] = [];
  let turn = 0;
  let isOver = false;
  const isReady = async (node: Program) => {
    const answer = await client(() => node.url).get("//readyz").catch(() => undefined); // oxfmt-ignore
    return answer?.status === 200;
  };
  /** Each by itself: one that is slow to answer keeps nobody from noticing another. */
  const watch = async (node: Program) => {
    while (!isOver && nodes.includes(node)) {
      if (await isReady(node)) ready.add(node);
      else ready.delete(node);
      await sleep(50);
    }
  };
  return {
    nodes,
    add: (node: Program) => {
      nodes.push(node);
      watchers.push(watch(node));
    },
    url: () => [...ready][(turn += 1) % ready.size]?.url ?? "http://127.0.0.1:1",
    ready: () => ready.size,
    end: async () => {
      isOver = true;
      await Promise.all(watchers);
    },
  };
}

const nodeOn =
  (url: string, more: Record<string, string> = {}) =>
  (n: number, port = 0) =>
    startProgram("cloud/main.ts", {
      ...cloudSettings(join(folder, `node-${n}`), adminKey),
      IMPRIMATUR_PORT: String(port),
      IMPRIMATUR_DATABASE_URL: url,
      IMPRIMATUR_DRAIN_NOTICE_S: "5",
      ...more,
    });

/** Three lines that print through whoever stands at that address; what was sealed, and what failed. */
async function printing(url: () => string) {
  const as = (secret: string) => client(url, { authorization: `Bearer ${secret}` });
  const shop = await printShop({ get url() { return url(); }, admin: as(adminKey), as }); // oxfmt-ignore
  const [sealed, failed]: [string[], unknown[]] = [[], []];
  let isOver = false;
  const line = async () => {
    while (!isOver)
      try {
        await shop.issue();
        const claimed = await shop.device.claim();
        const { status } = await shop.device.seal(claimed);
        if (status === 200) sealed.push(claimed.job.job_ref);
        else failed.push(status);
      } catch (error) {
        failed.push((error as Error).cause ?? error);
      }
  };
  const lines = Array.from({ length: 3 }, line);
  return {
    failed,
    more: async () => {
      const then = sealed.length;
      await expect.poll(() => sealed.length).toBeGreaterThan(then + 5);
    },
    /** Once the lines stand still: nothing failed, and what was answered is there. */
    judge: async () => {
      isOver = true;
      await Promise.all(lines);
      expect(failed).toEqual([]);
      for (const ref of sealed) expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body.state).toBe("SEALED");
      expect((await shop.admin.get("/audit-logs/verify")).body.valid).toBe(true);
    },
  };
}

test("no request fails while nodes are replaced and the schema grows; what was answered is there", { timeout: 120_000 }, async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  const start = nodeOn(url);
  const floor = balancer();
  floor.add(await start(1));
  await expect.poll(floor.ready).toBe(1);
  const { more, judge } = await printing(floor.url);
  await more();
  for (const n of [2, 3]) {
    floor.add(await start(n));
    await expect.poll(floor.ready).toBe(2);
    await more();
    const old = floor.nodes[0] as Program;
    const ended = old.end();
    await expect.poll(async () => (await client(() => old.url).get("//readyz").catch(() => ({ status: 0 }))).status).toBe(503); // oxfmt-ignore
    expect((await client(() => old.url).get("/log/checkpoint")).headers.get("connection")).toBe("close"); // it still answers, and says go
    expect(await ended).toBe(0);
    floor.nodes.shift();
    await more();
  }
  // What a newer version brings: columns that may be absent, a table, an index.
  const text = ["print_jobs", "print_events", "audit_log", "idempotency", "outbox", "serials", "devices", "log_leaves"]
    .map((table) => `ALTER TABLE ${table} ADD COLUMN grown TEXT;\n`)
    .join("");
  const newer = `${text}CREATE TABLE grown (id TEXT PRIMARY KEY) STRICT;\nCREATE INDEX grown_by_reason ON print_jobs (reason) WHERE reason IS NOT NULL;`;
  const engine = openPostgres({ url, connections: 2 });
  const store = storeOn(engine, createLog("silent"));
  await migrate(engine, store, [...migrationsIn(), { version: 9_000, name: "9000-grown.sql", text: newer, digest: "d", isLayout: false }]);
  await store.close();
  await more();
  await judge();
  await floor.end();
  await floor.nodes[0]?.end("SIGKILL");
});

if (haproxyMissing) process.stderr.write(`skipped: nodes replaced behind the example's proxy: ${haproxyMissing}\n`);
test.skipIf(haproxyMissing)("behind the example's proxy, told what the example tells them, each node is replaced and no request fails", { timeout: 180_000 }, async (t) => {
  const start = nodeOn((await freshDatabase("postgres")) ?? "", { IMPRIMATUR_DRAIN_NOTICE_S: DRAIN_NOTICE_S });
  const ports = [await freePort(), await freePort(), await freePort()];
  const nodes = await Promise.all(ports.map((port, i) => start(10 + i, port)));
  t.onTestFinished(async () => void (await Promise.all(nodes.map((node) => node.end("SIGKILL")))));
  const proxy = await startHaproxy(ports);
  t.onTestFinished(proxy.end);
  const { more, judge, failed } = await printing(() => proxy.url);
  await more();
  for (const [i, port] of ports.entries()) {
    expect(await nodes[i]?.end()).toBe(0);
    await more();
    nodes[i] = await start(10 + i, port);
    await more();
  }
  await judge();
  // The control: all of them killed at once is more than a proxy can hide.
  const seen = await printing(() => proxy.url);
  await Promise.all(nodes.map((node) => node.end("SIGKILL")));
  await expect.poll(() => seen.failed.length).toBeGreaterThan(0);
  expect(failed).toEqual([]);
  await expect(seen.judge()).rejects.toThrow("to deeply equal []");
}); // oxfmt-ignore

test("the control: a node that is killed instead fails requests, and they are seen", { timeout: 60_000 }, async () => {
  const start = nodeOn((await freshDatabase("postgres")) ?? "");
  const floor = balancer();
  for (const n of [4, 5]) floor.add(await start(n));
  await expect.poll(floor.ready).toBe(2);
  const admin = client(floor.url, { authorization: `Bearer ${adminKey}` });
  let [answered, failed, isOver] = [0, 0, false];
  const caller = async () => {
    while (!isOver) await admin.get("/tenant").then(() => (answered += 1), () => (failed += 1)); // oxfmt-ignore
  };
  const callers = Array.from({ length: 8 }, caller);
  await expect.poll(() => answered).toBeGreaterThan(50);
  expect(failed).toBe(0);
  await floor.nodes[0]?.end("SIGKILL");
  await expect.poll(() => failed).toBeGreaterThan(0);
  isOver = true;
  await Promise.all(callers);
  await floor.end();
  await floor.nodes[1]?.end("SIGKILL");
});

test("while a copy is made, as pg_dump makes one, a migration waits, and nobody behind it who writes; in the end it says what it waits for", { timeout: 90_000 }, async (t) => {
  const url = (await freshDatabase("postgres")) ?? "";
  const nodeWith = (scriptPatienceMs: number) => {
    const engine = openPostgres({ url, connections: 2, scriptPatienceMs });
    const store = storeOn(engine, createLog("silent"));
    t.onTestFinished(store.close);
    return { store, migrate: (known = migrationsIn()) => migrate(engine, store, known) };
  };
  const patient = nodeWith(60_000);
  await patient.migrate();
  const copy = new Client({ connectionString: url });
  t.onTestFinished(() => copy.end());
  await copy.connect();
  await copy.query("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox");
  const newer = [...migrationsIn(), { version: 9_000, name: "9000-grown.sql", text: "ALTER TABLE outbox ADD COLUMN grown TEXT;", digest: "d", isLayout: false }];
  await expect(nodeWith(0).migrate(newer)).rejects.toThrow("start again when the copy that is being made (pg_dump)");
  const grown = patient.migrate(newer);
  const waiting = () => copy.query("SELECT 1 FROM pg_locks WHERE relation = 'outbox'::regclass AND NOT granted").then(({ rowCount }) => rowCount);
  for (let times = 1; times <= 3; times += 1) {
    await expect.poll(waiting, { interval: 10, timeout: 20_000 }).toBe(1);
    await onServer(url, "UPDATE outbox SET at = at"); // comes through though the copy goes on
  }
  await copy.query("COMMIT");
  await grown;
  expect((await copy.query("SELECT grown FROM outbox")).rows).toEqual([]);
}); // oxfmt-ignore

test("while another node brings the tables up to date, or what a killed one began goes on at the server, a node waits, however long that takes", { timeout: 90_000 }, async (t) => {
  const url = (await freshDatabase("postgres")) ?? "";
  const PATIENCE_MS = 1_000;
  const engine = openPostgres({ url, connections: 2, scriptPatienceMs: PATIENCE_MS });
  const store = storeOn(engine, createLog("silent"));
  t.onTestFinished(store.close);
  await migrate(engine, store);
  const newer = [...migrationsIn(), { version: 9_000, name: "9000-grown.sql", text: "ALTER TABLE outbox ADD COLUMN grown TEXT;", digest: "d", isLayout: false }];
  const other = new Client({ connectionString: url });
  t.onTestFinished(() => other.end());
  await other.connect();
  await other.query("BEGIN; INSERT INTO migrations VALUES (9000, '9000-grown.sql', 'd'); ALTER TABLE outbox ADD COLUMN grown TEXT");
  let isOver = false;
  const migrated = migrate(engine, store, newer).finally(() => (isOver = true));
  await Promise.race([sleep(3 * PATIENCE_MS), migrated]);
  expect(isOver).toBe(false);
  await other.query("COMMIT");
  await migrated;
}); // oxfmt-ignore

const LINES = "/proc/net/tcp";
const KEEPALIVE = "02"; // as the kernel calls its timer
test.skipIf(!existsSync(LINES))("while a migration lasts, however long, the server's machine is asked whether it is still there, and one that isn't is told as the store's fault", async (t) => {
  const url = (await freshDatabase("postgres")) ?? "";
  const engine = openPostgres({ url, connections: 1 });
  const look = new Client({ connectionString: url });
  t.onTestFinished(async () => void (await Promise.all([engine.close(), look.end()])));
  await look.connect();
  const lasting = engine.script("SELECT pg_sleep(60)").catch((error: unknown) => error);
  const ports = async () => (await look.query("SELECT client_port FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(60)' AND pid <> pg_backend_pid()")).rows as { client_port: number }[];
  await expect.poll(ports, { interval: 20 }).toHaveLength(1);
  const [{ client_port: port } = { client_port: 0 }] = await ports();
  const ours = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const timers = () => readFileSync(LINES, "utf8").split("\n").map((line) => line.trim().split(/\s+/)).filter(([, local]) => local?.endsWith(ours)).map((line) => line[5]?.split(":")[0]); // oxfmt-ignore
  await expect.poll(timers, { interval: 20 }).toEqual([KEEPALIVE]);
  await look.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE client_port = ${port}`);
  expect(await lasting).toMatchObject({ code: "STORE_UNAVAILABLE" }); // by which its start says what to see to
}); // oxfmt-ignore

/** What an older node's statements bear: more of everything, nothing less and nothing else. */
const EXPANDS = [
  /^CREATE TABLE /,
  /^CREATE (UNIQUE )?INDEX /,
  /^ALTER TABLE \w+ ADD COLUMN \w+ \w+( DEFAULT [^ ]+| NOT NULL DEFAULT [^ ]+| REFERENCES \w+ \(\w+\))?$/,
  /^INSERT INTO /,
  /^UPDATE /,
];
const LAST_BEFORE_RELEASE = 13; // until then there was no node to go on
test("every migration only adds, so that nodes of the version before go on meanwhile", () => {
  const released = migrationsIn().filter(({ version, isLayout }) => version > LAST_BEFORE_RELEASE && !isLayout); // SQLite has one node
  const statements = released.flatMap(({ name, text }) =>
    text
      .replaceAll(/--[^\n]*/g, "")
      .split(";")
      .map((statement) => statement.trim().replaceAll(/\s+/g, " "))
      .filter(Boolean)
      .map((statement) => ({ name, statement })),
  );
  expect(statements.filter(({ statement }) => !EXPANDS.some((form) => form.test(statement)))).toEqual([]);
});
