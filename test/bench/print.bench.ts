// The print loop over real HTTP, every answer durable: labels a second from claim to seal, what a million jobs change, serials and exports.
import { manyJobs } from "../../fixtures/many-jobs.ts";
import { onServer, startPostgres } from "../../fixtures/postgres.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { leanClient, well } from "./lean-client.ts";
import { BRIEF, inFull, type Line, percentile, rate, ratioLine, residentMb } from "./measure.ts";
import { BATCH, inBatches, issue, oneByOne } from "./print-cloud.ts";
import { cloudOn, freshFolder } from "./servers.ts";

const LINES = inFull(64, 8); // stations at once
const ROUND_MS = inFull(5_000, 50);
const ISSUED = inFull(40_000, 400);
const FEW = inFull(1_000, 100);
const MANY = inFull(1_000_000, 200);
const [CLAIM_ROUNDS, CLAIMS] = inFull([10, 300], [3, 10]); // the first two don't count
const EXPORTED = inFull(1_000_000, 10_000);

/** So many stations at once until the time is over or nothing waits; labels a second. */
async function labels(lines: number, act: () => Promise<number>): Promise<number> {
  const began = performance.now();
  let done = 0;
  const line = async () => {
    while (performance.now() - began < ROUND_MS) {
      const some = await act();
      if (some === 0) return;
      done += some;
    }
  };
  await Promise.all(Array.from({ length: lines }, line));
  return done / ((performance.now() - began) / 1000);
}

async function wholeLabels(): Promise<Line[]> {
  const cloud = await cloudOn();
  const shop = await printShop(cloud);
  const { post, end } = leanClient(cloud.url, shop.device.secret);
  await issue(shop, ISSUED);
  await labels(LINES, async () => Number(await oneByOne(post))); // warm
  const single = await labels(LINES, async () => Number(await oneByOne(post)));
  const batched = await labels(2, () => inBatches(post));
  const allocations: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    const began = performance.now();
    await shop.allocate(10_000);
    allocations.push(performance.now() - began);
  }
  end();
  await cloud.end();
  const ms = percentile(allocations, 0.5);
  const told = (how: string, value: number): Line => ({
    name: `print: whole labels from claim to seal, ${how}`,
    figure: `${rate(value)} a second`,
    target: "told, judged beside its peers elsewhere",
    met: true,
  });
  return [
    told(`six calls each, ${LINES} stations`, single),
    told(`${BATCH} a claim, 500 results a call`, batched),
    { name: "print: allocating 10,000 serials", figure: `${Math.round(ms)} ms`, target: "under 500 ms", met: ms < 500 },
  ];
}

/** A cloud in which so many other jobs lie, and some to claim. */
async function withJobs(jobs: number) {
  const folder = freshFolder();
  const cloud = await cloudOn(folder);
  const shop = await printShop(cloud);
  const { job_ref: ref } = await shop.issue({ priority: -1 });
  await cloud.restart(() => manyJobs({ dataDir: folder }, ref, jobs));
  await issue(shop, 2 * CLAIM_ROUNDS * CLAIMS);
  return { cloud, station: leanClient(cloud.url, shop.device.secret) };
}

async function claims(): Promise<Line> {
  const contestants = [await withJobs(MANY), await withJobs(FEW)] as const;
  const took: [number[], number[]] = [[], []];
  for (let round = 0; round < CLAIM_ROUNDS; round += 1)
    for (const [i, { station }] of contestants.entries())
      for (let n = 0; n < CLAIMS; n += 1) {
        const began = performance.now();
        await well(station.post("/api/v2/aidc/jobs/claim", { needs: ["qr"], lease_seconds: 600 }));
        if (round > 1) took[i as 0 | 1].push(performance.now() - began);
      }
  for (const { cloud, station } of contestants) {
    station.end();
    await cloud.end();
  }
  const [many, few] = [percentile(took[0], 0.99), percentile(took[1], 0.99)];
  return {
    name: "print: a claim with 1,000,000 jobs in the table against 1,000, 99 of 100",
    figure: `${(many / few).toFixed(2)} (${many.toFixed(1)} against ${few.toFixed(1)} ms)`,
    target: "at most 1.5",
    met: many / few <= 1.5,
  };
}

async function exports(): Promise<Line> {
  const cloud = await cloudOn();
  const shop = await printShop(cloud);
  for (let made = 0; made < EXPORTED; made += 10_000) await shop.allocate(10_000);
  const before = residentMb(cloud.pid);
  let most = before;
  const began = performance.now();
  const answer = await fetch(`${cloud.url}/api/v2/carriers/export?productId=${shop.product.id}`, {
    headers: { authorization: `Bearer ${shop.adminKey}` },
  });
  let rows = -1; // the header
  for await (const chunk of answer.body ?? []) {
    for (const byte of chunk as Uint8Array) if (byte === 10) rows += 1;
    most = Math.max(most, residentMb(cloud.pid));
  }
  const seconds = (performance.now() - began) / 1000;
  await cloud.end();
  return {
    name: "print: exporting 1,000,000 carriers",
    figure: `${rate(rows)} rows, ${rate(rows / seconds)} a second, ${Math.round(most - before)} MB above idle`,
    target: "all of them, at most 64 MB",
    met: rows === EXPORTED && most - before <= 64,
  };
}

/** A server that has never looked at its tables, as after an upgrade or a restore, against the same once it has. */
async function onYoungServer(): Promise<Line> {
  const server = await startPostgres({ onDisk: !BRIEF });
  const url = await server.createDatabase("young");
  await onServer(url, "ALTER SYSTEM SET autovacuum = off");
  await onServer(url, "SELECT pg_reload_conf()");
  const cloud = await cloudOn(freshFolder(), { IMPRIMATUR_DATABASE_URL: url });
  const shop = await printShop(cloud);
  const { post, end } = leanClient(cloud.url, shop.device.secret);
  const perSecond = async (count: number): Promise<number> => {
    const began = performance.now();
    await issue(shop, count);
    for (let done = 0; done < count;) done += await inBatches(post);
    return (count / (performance.now() - began)) * 1000;
  };
  await perSecond(ISSUED / 10); // warm
  const young = await perSecond(ISSUED / 2);
  await onServer(url, "ANALYZE");
  const known = await perSecond(ISSUED / 2);
  end();
  await cloud.end();
  await server.stop();
  return ratioLine(
    "print: labels in batches on a PostgreSQL that knows nothing of its tables, against one that has analyzed them",
    { rates: [young, known], ratio: young / known },
    0.8,
    "labels",
  );
}

export const printBench = async (): Promise<Line[]> => [...(await wholeLabels()), await claims(), await exports(), await onYoungServer()];
