// Peers that queue jobs, in process and durable, each doing a label's life as well as it can: enqueued, claimed, five reports with evidence, done.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { Queue, Worker } from "bullmq";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { Pool } from "pg";
import { PgBoss } from "pg-boss";
import { freePort } from "../../fixtures/free-port.ts";
import { callers, inFull } from "./measure.ts";

/** Labels done in about this time, beginning and ending with nothing under way: who idles must not slow the others. */
export type Peer = { round(ms: number): Promise<number>; end(): Promise<void> };

export const CALLERS = inFull(64, 8);
const CONNECTIONS = 16;
const REPORTS = [1, 2, 3, 4, 5];
const LABEL = { gtin: "09506000134352", serial: "123456789012" };
const EVIDENCE = JSON.stringify({
  payload: "https://id.example/01/09506000134352/21/123456789012",
  sha256: "9f".repeat(32),
  note: "x".repeat(300),
});

/** What a job's reports are kept in where the queue itself has no place for them: the state, and one row of evidence each. */
const TABLES = `CREATE TABLE labels (id uuid PRIMARY KEY, state int NOT NULL);
  CREATE TABLE evidence (n bigserial PRIMARY KEY, label uuid NOT NULL, state int NOT NULL, body jsonb NOT NULL);`;
const REPORT = `WITH moved AS (INSERT INTO labels VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET state = $2 WHERE labels.state = $2 - 1 RETURNING id)
  INSERT INTO evidence (label, state, body) SELECT id, $2, $3 FROM moved`;
async function reports(pool: Pool, id: string): Promise<void> {
  for (const state of REPORTS) await pool.query({ name: "report", text: REPORT, values: [id, state, EVIDENCE] });
}

/** Asks again as long as there is nothing: what was just put in may be locked by who looks for the next one. */
async function until<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
  }
}

async function poolOn(url: string): Promise<Pool> {
  const pool = new Pool({ connectionString: url, max: CONNECTIONS });
  const heard = () => {}; // the server is stopped at the end of the bench, with connections open
  pool.on("error", heard).on("connect", (client) => void client.on("error", heard));
  await pool.query(TABLES);
  return pool;
}

export async function pgBoss(url: string): Promise<Peer> {
  const boss = new PgBoss({ connectionString: url, max: CONNECTIONS, supervise: false, schedule: false });
  await boss.start();
  await boss.createQueue("labels");
  const pool = await poolOn(url);
  return {
    round: (ms) =>
      callers(CALLERS, ms, async () => {
        await boss.send("labels", LABEL);
        const job = await until(async () => (await boss.fetch("labels", { batchSize: 1 }))[0]);
        await reports(pool, job.id);
        await boss.complete("labels", job.id);
      }),
    end: async () => {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
}

export async function graphile(url: string): Promise<Peer> {
  const pool = await poolOn(url);
  const logger = new Logger(() => () => {});
  await runMigrations({ pgPool: pool, logger });
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  const waiting = new Map<string, () => void>();
  const label = async (payload: unknown) => {
    const { id } = payload as { id: string };
    await reports(pool, id);
    waiting.get(id)?.();
  };
  const settings = { pgPool: pool, logger, concurrency: CALLERS, pollInterval: 1_000, noHandleSignals: true, taskList: { label } };
  return {
    round: async (ms) => {
      const runner = await run(settings);
      const done = await callers(CALLERS, ms, async () => {
        const id = crypto.randomUUID();
        const reported = new Promise<void>((resolve) => waiting.set(id, resolve));
        await utils.addJob("label", { id });
        await reported;
        waiting.delete(id);
      });
      await runner.stop();
      return done;
    },
    end: async () => {
      await utils.release();
      await pool.end();
    },
  };
}

/** A Redis that has written to the disk before it answers; nothing where none is installed. */
async function startRedis(): Promise<{ port: number; stop(): Promise<void> } | undefined> {
  if (spawnSync("redis-server", ["--version"]).error) return undefined;
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "imprimatur-redis-"));
  const options = { port, bind: "127.0.0.1", dir: folder, appendonly: "yes", appendfsync: "always", save: "" };
  const server = spawn(
    "redis-server",
    Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]),
    { stdio: "ignore" },
  );
  return {
    port,
    stop: async () => {
      const ended = once(server, "exit");
      server.kill("SIGTERM");
      await ended;
      rmSync(folder, { recursive: true });
    },
  };
}

export async function bullmq(): Promise<Peer | undefined> {
  const redis = await startRedis();
  if (!redis) return undefined;
  const connection = { host: "127.0.0.1", port: redis.port, maxRetriesPerRequest: null };
  const queue = new Queue("labels", { connection });
  const worker = new Worker("labels", null, { connection, autorun: false });
  await queue.waitUntilReady();
  return {
    round: (ms) =>
      callers(CALLERS, ms, async () => {
        const token = crypto.randomUUID();
        await queue.add("label", LABEL);
        const job = await until(() => worker.getNextJob(token, { block: false }));
        for (const state of REPORTS) await job.updateData({ ...job.data, state, [`evidence${state}`]: EVIDENCE });
        await job.moveToCompleted("done", token, false);
      }),
    end: async () => {
      await worker.close();
      await queue.close();
      await redis.stop();
    },
  };
}

/** No queue and no server: the same rows by hand, a durable commit each, as fast as one process can. */
export function rawSqlite(): Peer {
  const folder = mkdtempSync(join(tmpdir(), "imprimatur-raw-"));
  const database = new Database(join(folder, "raw.db"));
  database.pragma("journal_mode = WAL");
  database.pragma("synchronous = FULL");
  database.exec(`CREATE TABLE jobs (id TEXT PRIMARY KEY, state INTEGER NOT NULL, body TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE evidence (n INTEGER PRIMARY KEY, job TEXT NOT NULL, state INTEGER NOT NULL, body TEXT NOT NULL) STRICT;`);
  const add = database.prepare("INSERT INTO jobs VALUES (?, 0, ?)");
  const move = database.prepare("UPDATE jobs SET state = ? WHERE id = ? AND state = ? - 1");
  const tell = database.prepare("INSERT INTO evidence (job, state, body) VALUES (?, ?, ?)");
  const step = database.transaction((id: string, state: number) => {
    if (move.run(state, id, state).changes !== 1) throw new Error(`job ${id} wasn't in the state before ${state}`);
    tell.run(id, state, EVIDENCE);
  });
  return {
    round: (ms) =>
      callers(1, ms, async () => {
        const id = crypto.randomUUID();
        add.run(id, JSON.stringify(LABEL));
        for (const state of [1, ...REPORTS.map((report) => report + 1)]) step(id, state);
      }),
    end: async () => {
      database.close();
      rmSync(folder, { recursive: true });
    },
  };
}
