// Against peers: the same durable life of a label (enqueued, claimed, five reports with evidence, done), theirs in process, ours over HTTP.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { manyLabels } from "../../fixtures/many-jobs.ts";
import { startPostgres } from "../../fixtures/postgres.ts";
import { type Claim, goodItems } from "../../fixtures/print-shop.ts";
import { type Call, leanClient, well } from "./lean-client.ts";
import { BRIEF, callers, inFull, type Line, median, percentile } from "./measure.ts";
import { bullmq, CALLERS, graphile, type Peer, pgBoss, rawSqlite } from "./peer-queues.ts";
import { claimSome, issue, oneByOne, type PrintCloud, printCloud } from "./print-cloud.ts";
import { freshFolder, startServer } from "./servers.ts";

const ROUNDS = inFull(5, 1);
const WARM_ROUND = inFull(-1, 0); // the first one doesn't count
const ROUND_MS = inFull(3_000, 50);
const BATCHING_STATIONS = 4;
const MANY = inFull(1_000_000, 200);
const HALF_LOAD_ROUNDS = inFull(9, 1); // of a second

/** Labels a second of everyone, round by round: they take turns, so that a noisy minute is everyone's. */
async function inTurns<Name extends string>(contestants: Record<Name, Peer>): Promise<Record<Name, number[]>> {
  const rates = Object.fromEntries(Object.keys(contestants).map((name) => [name, []])) as unknown as Record<Name, number[]>;
  for (let round = WARM_ROUND; round < ROUNDS; round += 1)
    for (const [name, { round: labels }] of Object.entries<Peer>(contestants)) {
      const began = performance.now();
      const done = await labels(ROUND_MS);
      if (round >= 0) rates[name as Name].push((done / (performance.now() - began)) * 1000);
    }
  return rates;
}

const sevenCalls = (cloud: PrintCloud): Peer => ({ round: (ms) => callers(CALLERS, ms, cloud.inSevenCalls), end: cloud.end });
/** So many stations, each with a hundred labels at a time. */
const batches = (cloud: PrintCloud): Peer => ({
  round: async (ms) => {
    let labels = 0;
    await callers(BATCHING_STATIONS, ms, async () => {
      const some = await cloud.inBatches();
      labels += some;
    });
    return labels;
  },
  end: async () => {}, // it is the cloud of the seven calls
});

/** Fastify with nothing behind it, asked what a label asks. */
async function bare(): Promise<Peer> {
  const server = await startServer("./bare-label.ts", {});
  const { post, end } = leanClient(server.url, "nobody");
  const body = { gtin: "09506000134352", serial: "100000000001" };
  return {
    round: (ms) => callers(CALLERS, ms, async () => (await well(post("/api/v2/aidc/jobs", body)), oneByOne(post))),
    end: async () => {
      end();
      await server.end();
    },
  };
}

function compared(name: string, ours: number[], theirs: number[], least: number): Line {
  const ratio = median(ours.map((rate, i) => rate / (theirs[i] ?? 1)));
  const figure = `${ratio.toFixed(2)} (${Math.round(median(ours))} against ${Math.round(median(theirs))} labels/s)`;
  return { name: `peers: ${name}`, figure, target: `at least ${least}`, met: ratio >= least };
}

async function againstQueues(): Promise<Line[]> {
  const server = await startPostgres({ onDisk: !BRIEF });
  const cloud = await printCloud();
  const onServer = await printCloud({ settings: { IMPRIMATUR_DATABASE_URL: await server.createDatabase("ours") } });
  const redis = await bullmq();
  const contestants = {
    boss: await pgBoss(await server.createDatabase("boss")),
    graphile: await graphile(await server.createDatabase("graphile")),
    raw: rawSqlite(),
    bare: await bare(),
    seven: sevenCalls(cloud),
    batch: batches(cloud),
    onServer: sevenCalls(onServer),
    onServerBatched: batches(onServer),
    ...(redis ? { redis } : {}),
  };
  const rates = await inTurns<keyof typeof contestants | "redis">(contestants as Record<keyof typeof contestants | "redis", Peer>);
  for (const { end } of Object.values(contestants)) await end();
  await server.stop();
  const { boss, seven, batch } = rates;
  return [
    compared("seven calls a label over HTTP, against pg-boss in process", seven, boss, 3),
    compared("in batches over HTTP, against pg-boss in process", batch, boss, 6),
    compared("seven calls on PostgreSQL, against pg-boss on the same server", rates.onServer, boss, 1),
    compared("in batches on PostgreSQL, against pg-boss on the same server", rates.onServerBatched, boss, 1),
    compared("seven calls against graphile-worker in process", seven, rates.graphile, 1),
    ...(redis
      ? [compared("seven calls against BullMQ in process (appendfsync always)", seven, rates.redis, 0)]
      : [{ name: "peers: BullMQ", figure: "skipped: redis-server isn't installed", target: "told", met: true }]),
    compared("seven calls against raw better-sqlite3, one caller, a commit each", seven, rates.raw, 0),
    compared("seven calls against a bare fastify with the same bodies", seven, rates.bare, 0.6),
  ];
}

/** The same in stores that hold a million sealed labels, and all that those left. */
async function withMany(): Promise<Line[]> {
  const server = await startPostgres({ onDisk: !BRIEF });
  const onServer = async (name: string) => ({ IMPRIMATUR_DATABASE_URL: await server.createDatabase(name) });
  const filled = (settings: Record<string, string>) =>
    printCloud({
      settings,
      stock: (dataDir, label) => manyLabels({ dataDir, databaseUrl: settings["IMPRIMATUR_DATABASE_URL"] }, label, MANY),
    });
  const clouds = {
    few: await printCloud(),
    many: await filled({}),
    fewOnServer: await printCloud({ settings: await onServer("few") }),
    manyOnServer: await filled(await onServer("many")),
  };
  const { few, many, fewOnServer, manyOnServer } = clouds;
  const rates = await inTurns({
    few: sevenCalls(few),
    many: sevenCalls(many),
    fewBatched: batches(few),
    manyBatched: batches(many),
    fewOnServer: sevenCalls(fewOnServer),
    manyOnServer: sevenCalls(manyOnServer),
    fewOnServerBatched: batches(fewOnServer),
    manyOnServerBatched: batches(manyOnServer),
  });
  const aSecond = await halfOf(few);
  const times = await pacedInTurns({ few: claimedOf(few), many: claimedOf(many) }, aSecond);
  for (const { end } of Object.values(clouds)) await end();
  await server.stop();
  const name = "with 1,000,000 sealed labels in the store against none";
  const atHalf = (share: number, words: string) =>
    slower(`a result at half load ${name}, ${words}`, { ours: times.many, theirs: times.few, aSecond, share, most: 1.2 });
  return [
    compared(`seven calls ${name}`, rates.many, rates.few, 0.8),
    compared(`batches ${name}`, rates.manyBatched, rates.fewBatched, 0.8),
    compared(`seven calls on PostgreSQL ${name}`, rates.manyOnServer, rates.fewOnServer, 0.8),
    compared(`batches on PostgreSQL ${name}`, rates.manyOnServerBatched, rates.fewOnServerBatched, 0.8),
    atHalf(0.5, "the median"),
    atHalf(0.99, "99 of 100"),
  ];
}

/** So many calls a second, each begun when its time has come whether the others are answered or not; how long each took from then. */
async function paced(count: number, aSecond: number, call: (n: number) => Promise<unknown>): Promise<number[]> {
  const took: number[] = [];
  const began = performance.now();
  const open: Promise<void>[] = [];
  for (let n = 0; n < count;) {
    for (const due = ((performance.now() - began) / 1000) * aSecond; n < due && n < count; n += 1) {
      const at = began + (n / aSecond) * 1000;
      open.push(call(n).then(() => void took.push(performance.now() - at)));
    }
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await Promise.all(open);
  return took;
}

/** Who is asked at a pace, and what it is asked. */
type Paced = { post: Call; results(count: number): Promise<Result[]> };
const claimedOf = (cloud: PrintCloud): Paced => ({ post: cloud.post, results: (count) => claimedResults(cloud, count) });

/** How long each call took, by rounds of a second in turns. */
async function pacedInTurns<Name extends string>(contestants: Record<Name, Paced>, aSecond: number): Promise<Record<Name, number[][]>> {
  const rounds = Object.fromEntries(Object.keys(contestants).map((name) => [name, []])) as unknown as Record<Name, number[][]>;
  for (let round = WARM_ROUND; round < HALF_LOAD_ROUNDS; round += 1)
    for (const [name, { post, results }] of Object.entries<Paced>(contestants)) {
      const calls = await results(aSecond);
      const times = await paced(aSecond, aSecond, (n) => well(post(...(calls[n] as Result))));
      if (round >= 0) rounds[name as Name].push(times);
    }
  return rounds;
}

/** How many calls a second are half of what a cloud can do. */
async function halfOf(cloud: PrintCloud): Promise<number> {
  const full = await callers(CALLERS, ROUND_MS, cloud.inSevenCalls);
  return inFull(Math.floor(((full / ROUND_MS) * 1000 * 7) / 2), 20);
}

type Waits = { ours: number[][]; theirs: number[][]; aSecond: number; share: number; most: number };
function slower(name: string, { ours, theirs, aSecond, share, most }: Waits): Line {
  const [one, other] = [ours, theirs].map((each) => each.map((times) => percentile(times, share))) as [number[], number[]];
  const ratio = median(one.map((ms, i) => ms / (other[i] ?? 1)));
  const worst = [one, other].map((each) => Math.max(...each).toFixed(2)).join(" against ");
  const figure = `${ratio.toFixed(1)} (${median(one).toFixed(2)} against ${median(other).toFixed(2)} ms at ${aSecond} calls/s; in its worst second ${worst})`;
  return { name: `peers: ${name}`, figure, target: most === Infinity ? "told" : `at most ${most}`, met: ratio <= most };
}

/**
 * How long a result waits at half of what the cloud can do, against a canned answer at the same rate, and against one that is kept as cheaply as
 * this disk allows: a disk that stalls is in both but not in the canned one.
 */
async function atHalfLoad(): Promise<Line[]> {
  const cloud = await printCloud();
  const folder = freshFolder();
  const servers = [await startServer("./bare-label.ts", {}), await startServer("./bare-label.ts", { BARE_FILE: join(folder, "kept") })];
  const clients = servers.map(({ url }) => leanClient(url, "nobody"));
  const [anyResult] = await claimedResults(cloud, 1);
  const [canned, synced] = clients.map(({ post }) => ({ post, results: async (count) => Array(count).fill(anyResult) })) as [Paced, Paced];
  const aSecond = await halfOf(cloud);
  const times = await pacedInTurns({ ours: claimedOf(cloud), canned, synced }, aSecond);
  for (const { end } of clients) end();
  for (const { end } of [...servers, cloud]) await end();
  rmSync(folder, { recursive: true });
  const line = (name: string, theirs: number[][], share: number, most: number): Line =>
    slower(`a result at half load against a canned answer${name}`, { ours: times.ours, theirs, aSecond, share, most });
  return [
    line(", the median", times.canned, 0.5, 6),
    line(", 99 of 100", times.canned, 0.99, 8),
    line(" that is synced to the same disk, the median", times.synced, 0.5, Infinity),
    line(" that is synced to the same disk, 99 of 100", times.synced, 0.99, Infinity),
  ];
}

type Result = [path: string, body: object];

/** The first results of so many freshly claimed labels. */
async function claimedResults(cloud: PrintCloud, count: number): Promise<Result[]> {
  await issue(cloud.shop, count);
  const claims: Claim[] = [];
  while (claims.length < count) claims.push(...(await claimSome(cloud.post, 100)));
  return claims.map((claimed) => [
    `/api/v2/aidc/jobs/${claimed.job.job_ref}/result`,
    { attempt_id: claimed.attempt_id, ...goodItems(claimed, false)[0] },
  ]);
}

export const peersBench = async (): Promise<Line[]> => [...(await againstQueues()), ...(await withMany()), ...(await atHalfLoad())];
