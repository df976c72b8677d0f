// What a label costs on PostgreSQL, a call a state and in batches, and what a thousand factories would ask for at that price.
import { readdirSync } from "node:fs";
import { Client } from "pg";
import { startPostgres } from "../../fixtures/postgres.ts";
import { type Cost, needOf } from "./factories.ts";
import { leanClient, well } from "./lean-client.ts";
import { BRIEF, callers, cpuMs, inFull, type Line, median, statOf, TICK_MS } from "./measure.ts";
import { printCloud } from "./print-cloud.ts";

const ROUNDS = inFull(3, 1);
const ROUND_MS = inFull(5_000, 100);
const STATIONS = 16; // as many as there are connections: cost is looked for, not speed
const LABELS_A_CALL = 20;
const BATCHES_AT_ONCE = 1; // of one tenant: more wait for its rows
const [RESTING, POLL_S] = [inFull(10_000, 200), 2];
const FLOOR = { factories: 1_000, linesEach: 4, labelsAMinute: 20, seed: 1 };

/** Processor time of a server and all its children, those that have ended among them. */
function cpuOfFamily(parent: number): number {
  const own = statOf(parent);
  const ended = (Number(own[13]) + Number(own[14])) * TICK_MS;
  const children = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        const stat = statOf(pid);
        return Number(stat[1]) === parent ? [cpuMs(stat)] : [];
      } catch {
        return []; // it ended meanwhile
      }
    });
  return children.reduce((sum, ms) => sum + ms, cpuMs(own) + ended);
}

type Reading = { nodeCpuMs: number; databaseCpuMs: number; walBytes: number; storedBytes: number; commits: number };
async function meterOf(url: string, nodePid: number) {
  const client = new Client({ connectionString: url });
  await client.connect();
  const ask = async (text: string) => Number((await client.query({ text, rowMode: "array" })).rows[0]?.[0]);
  const server = Number(statOf(await ask("SELECT pg_backend_pid()"))[1]);
  return {
    read: async (): Promise<Reading> => ({
      nodeCpuMs: cpuMs(statOf(nodePid)),
      databaseCpuMs: cpuOfFamily(server),
      walBytes: await ask("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn"),
      storedBytes: await ask("SELECT pg_database_size(current_database())"),
      commits: await ask("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"),
    }),
    end: () => client.end(),
  };
}

/** Labels done by so many callers; one that a busy machine shed is begun anew, and none. */
async function labelsIn(ms: number, count: number, act: () => Promise<number>): Promise<number> {
  let done = 0;
  await callers(count, ms, async () => {
    const some = await act().catch((error: Error) => {
      if (error.message.startsWith("answered 503")) return 0;
      throw error;
    });
    done += some; // not in one line with the await: others count meanwhile
  });
  return done;
}

const NAMES = ["nodeCpuMs", "databaseCpuMs", "walBytes", "storedBytes", "commits"] as const;

export async function capacityBench(): Promise<Line[]> {
  const server = await startPostgres({ onDisk: !BRIEF });
  const url = await server.createDatabase("capacity");
  const cloud = await printCloud({ settings: { IMPRIMATUR_DATABASE_URL: url } });
  const meter = await meterOf(url, cloud.pid());
  const ways = [
    { name: "seven calls a label", run: (ms: number) => labelsIn(ms, STATIONS, cloud.inSevenCalls) },
    {
      name: `${LABELS_A_CALL} labels a call`,
      run: (ms: number) => labelsIn(ms, BATCHES_AT_ONCE, () => cloud.inBatches(LABELS_A_CALL)),
    },
  ];
  const seen = ways.map(() => ({ rates: [] as number[], costs: [] as Cost[] }));
  for (const { run } of ways) await run(ROUND_MS / 2); // warm
  for (let round = 0; round < ROUNDS; round += 1)
    for (const [i, { run }] of ways.entries()) {
      const before = await meter.read();
      const began = performance.now();
      const labels = await run(ROUND_MS);
      const seconds = (performance.now() - began) / 1_000;
      const now = await meter.read();
      seen[i]?.rates.push(labels / seconds);
      seen[i]?.costs.push(Object.fromEntries(NAMES.map((name) => [name, (now[name] - before[name]) / labels])) as Cost);
    }
  await meter.end();
  await cloud.end();
  const resting = await atRest(await server.createDatabase("resting"));
  await server.stop();
  const labels = ways.flatMap(({ name }, i) => {
    const { rates = [], costs = [] } = seen[i] ?? {};
    const cost = Object.fromEntries(NAMES.map((one) => [one, median(costs.map((of) => of[one]))])) as Cost;
    return [costLine(name, median(rates), cost), needLine(name, cost)];
  });
  return [...labels, resting];
}

/** What stations ask for that have nothing to do: a claim every two seconds, under a key, in vain. */
async function atRest(url: string): Promise<Line> {
  const cloud = await printCloud({ settings: { IMPRIMATUR_DATABASE_URL: url } });
  const meter = await meterOf(url, cloud.pid());
  const { post, end } = leanClient(cloud.url(), cloud.shop.device.secret, true);
  const ask = () => well(post("/api/v2/aidc/jobs/claim/batch", { needs: ["qr"], max: 4, lease_seconds: 60 }));
  await callers(STATIONS, ROUND_MS / 2, ask);
  const before = await meter.read();
  const asked = await callers(STATIONS, ROUND_MS, ask);
  const now = await meter.read();
  end();
  await meter.end();
  await cloud.end();
  const [node, database, kept] = (["nodeCpuMs", "databaseCpuMs", "storedBytes"] as const).map((name) => (now[name] - before[name]) / asked);
  const cores = (ms = 0) => round((RESTING / POLL_S) * (ms / 1_000));
  return {
    name: `capacity: a claim in vain on PostgreSQL, and ${round(RESTING, 0)} stations at rest`,
    figure: `${round(node ?? 0, 2)} ms of a node, ${round(database ?? 0, 2)} ms of the database, ${round(kept ?? 0)} bytes kept; ${cores(node)} cores of nodes, ${cores(database)} of the database`,
    target: "told",
    met: true,
  };
}

const round = (value: number, digits = 1) => Number(value.toFixed(digits)).toLocaleString("en-US");
const costLine = (name: string, rate: number, cost: Cost): Line => ({
  name: `capacity: a label on PostgreSQL, ${name}`,
  figure: `${round(cost.nodeCpuMs, 2)} ms of a node, ${round(cost.databaseCpuMs, 2)} ms of the database, ${round(cost.walBytes / 1_000)} kB of WAL, ${round(cost.storedBytes / 1_000)} kB kept, ${round(cost.commits, 2)} commits; ${round(rate, 0)} labels/s here`,
  target: "told",
  met: true,
});
function needLine(name: string, cost: Cost): Line {
  const need = needOf(FLOOR, cost);
  return {
    name: `capacity: ${round(FLOOR.factories, 0)} factories of ${FLOOR.linesEach} lines and ${FLOOR.labelsAMinute} labels a minute, ${name}`,
    figure: `${round(need.labelsADay / 1e6)} million labels a day, ${round(need.peakLabels, 0)}/s at the peak: ${need.nodeCores} cores of nodes, ${need.databaseCores} of the database, ${round(need.walMb)} MB/s of WAL, ${round(need.commits, 0)} commits/s, ${round(need.storedTbAYear)} TB a year`,
    target: "told",
    met: true,
  };
}
