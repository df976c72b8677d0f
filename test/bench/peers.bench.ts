// Against peers: the same durable life of a label (enqueued, claimed, five reports with evidence, done), theirs in process, ours over HTTP.
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { Pool } from "pg";
import { PgBoss } from "pg-boss";
import { startPostgres } from "../../fixtures/postgres.ts";
import type { Line } from "./measure.ts";
import { batchedLabels, labelInSevenCalls, printCloud } from "./print.bench.ts";

const CALLERS = 64;
const CONNECTIONS = 16;
const ROUNDS = 3;
const ROUND_MS = 4_000;
const REPORTS = 5;
const EVIDENCE = JSON.stringify({
  payload: "https://id.example/01/09506000134352/21/123456789012",
  sha256: "9f".repeat(32),
  note: "x".repeat(300),
});

type Contestant = { name: string; /** Labels done in about this time. */ round(ms: number): Promise<number>; end(): Promise<void> };

/** What a job's reports are kept in where the queue itself has no place for them: the state, and one row of evidence each. */
const TABLES = `CREATE TABLE labels (id uuid PRIMARY KEY, state int NOT NULL);
  CREATE TABLE evidence (n bigserial PRIMARY KEY, label uuid NOT NULL, state int NOT NULL, body jsonb NOT NULL);`;
const REPORT = `WITH moved AS (INSERT INTO labels VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET state = $2 WHERE labels.state = $2 - 1 RETURNING id)
  INSERT INTO evidence (label, state, body) SELECT id, $2, $3 FROM moved`;
async function reports(pool: Pool, id: string): Promise<void> {
  for (let state = 1; state <= REPORTS; state += 1) await pool.query({ name: "report", text: REPORT, values: [id, state, EVIDENCE] });
}

async function during(ms: number, callers: number, act: () => Promise<number>): Promise<number> {
  const until = performance.now() + ms;
  let done = 0;
  const one = async () => {
    while (performance.now() < until) done += await act();
  };
  await Promise.all(Array.from({ length: callers }, one));
  return done;
}

async function pgBoss(url: string): Promise<Contestant> {
  const boss = new PgBoss({ connectionString: url, max: CONNECTIONS, supervise: false, schedule: false });
  await boss.start();
  await boss.createQueue("labels");
  const pool = new Pool({ connectionString: url, max: CONNECTIONS })
    .on("error", () => {})
    .on("connect", (one) => void one.on("error", () => {}));
  await pool.query(TABLES);
  const label = async () => {
    await boss.send("labels", { gtin: "09506000134352" });
    const [job] = await boss.fetch("labels", { batchSize: 1 });
    if (!job) return 0;
    await reports(pool, job.id);
    await boss.complete("labels", job.id);
    return 1;
  };
  return {
    name: "pg-boss in process",
    round: (ms) => during(ms, CALLERS, label),
    end: async () => {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
}

async function graphile(url: string): Promise<Contestant> {
  const pool = new Pool({ connectionString: url, max: CONNECTIONS })
    .on("error", () => {})
    .on("connect", (one) => void one.on("error", () => {}));
  await pool.query(TABLES);
  const logger = new Logger(() => () => {});
  await runMigrations({ pgPool: pool, logger });
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  let done = 0;
  const runner = await run({
    pgPool: pool,
    logger,
    concurrency: CALLERS,
    pollInterval: 50,
    noHandleSignals: true,
    taskList: {
      label: async (payload) => {
        await reports(pool, (payload as { id: string }).id);
        done += 1;
      },
    },
  });
  return {
    name: "graphile-worker in process",
    round: async (ms) => {
      const before = done;
      let waiting = 0;
      // As many as are worked on at once wait to be: an enqueuer that never lets the workers idle.
      await during(ms, CALLERS, async () => {
        if (waiting - (done - before) > 2 * CALLERS) await new Promise((resolve) => setTimeout(resolve, 5));
        else {
          waiting += 1;
          await utils.addJob("label", { id: crypto.randomUUID() });
        }
        return 0;
      });
      return done - before;
    },
    end: async () => {
      await runner.stop();
      await utils.release();
      await pool.end();
    },
  };
}

const median = (values: number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;

export async function peersBench(): Promise<Line[]> {
  const server = await startPostgres();
  const cloud = await printCloud();
  const contestants: Contestant[] = [
    await pgBoss(await server.createDatabase("boss")),
    await graphile(await server.createDatabase("graphile")),
    {
      name: "ours over HTTP, seven calls a label",
      round: (ms) => during(ms, CALLERS, () => labelInSevenCalls(cloud)),
      end: async () => {},
    },
    { name: "ours over HTTP, in batches", round: (ms) => during(ms, 4, () => batchedLabels(cloud)), end: () => cloud.end() },
  ];
  const rates = contestants.map((): number[] => []);
  for (const { round } of contestants) await round(ROUND_MS / 2); // warm
  for (let i = 0; i < ROUNDS; i += 1)
    for (const [n, { round }] of contestants.entries()) {
      const began = performance.now();
      const done = await round(ROUND_MS);
      rates[n]?.push((done / (performance.now() - began)) * 1000);
    }
  for (const { end } of contestants) await end();
  await server.stop();
  const [boss = [], worker = [], seven = [], batch = []] = rates;
  const line = (name: string, ours: number[], theirs: number[], least: number): Line => {
    const ratio = median(ours.map((rate, i) => rate / (theirs[i] ?? 1)));
    const figure = `${ratio.toFixed(2)} (${Math.round(median(ours))} against ${Math.round(median(theirs))} labels/s)`;
    return { name, figure, target: `at least ${least}`, met: ratio >= least };
  };
  return [
    line("peers: a label's life in seven calls over HTTP, against pg-boss in process", seven, boss, 3),
    line("peers: the same against graphile-worker in process", seven, worker, 1),
    line("peers: labels in batches over HTTP, against pg-boss in process", batch, boss, 6),
  ];
}
