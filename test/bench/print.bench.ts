// The print loop over real HTTP, every answer durable: labels a second from claim to seal, what a million jobs change, serials and exports.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { client } from "../../fixtures/client.ts";
import { manyJobs } from "../../fixtures/many-jobs.ts";
import { type Claim, goodItems, printShop, sealOf } from "../../fixtures/print-shop.ts";
import { startServer } from "./http.bench.ts";
import type { Line } from "./measure.ts";

const KEY = "a-bench-key-of-24-characters";
const LINES = 64; // stations at once
const ROUND_MS = 5_000;
const BATCH = 100; // labels a station claims and reports at once
const FEW = 1_000;
const MANY = 1_000_000;
const EXPORTED = 1_000_000;
const percentile = (values: number[], share: number) => values.toSorted((a, b) => a - b)[Math.floor(values.length * share)] ?? 0;
const rate = (value: number) => Math.round(value).toLocaleString("en-US");

/** A client that costs the machine as little as it can: the server is what is measured. */
function caller(url: string, secret: string) {
  const agent = new Agent({ keepAlive: true, maxSockets: LINES });
  const { hostname, port } = new URL(url);
  return (path: string, body: object): Promise<{ status: number; text: string }> => {
    const text = JSON.stringify(body);
    const headers = { authorization: `Bearer ${secret}`, "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    return new Promise((resolve, reject) => {
      const sent = request({ agent, hostname, port, path: `/api/v2${path}`, method: "POST", headers }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text: Buffer.concat(chunks).toString("utf8") }));
      });
      sent.on("error", reject);
      sent.end(text);
    });
  };
}
type Call = ReturnType<typeof caller>;

async function well<T>(answer: Promise<{ status: number; text: string }>): Promise<T> {
  const { status, text } = await answer;
  if (status >= 300) throw new Error(`answered ${status}: ${text}`);
  return JSON.parse(text || "null") as T;
}

/** A cloud in a process of its own that can be started again on the same folder. */
async function cloudOn(folder: string, settings: Record<string, string> = {}) {
  const start = () =>
    startServer("../../cloud/main.ts", {
      IMPRIMATUR_PORT: "0",
      IMPRIMATUR_DATA_DIR: folder,
      IMPRIMATUR_BOOTSTRAP_KEY: KEY,
      IMPRIMATUR_RATE_LIMIT: "off",
      IMPRIMATUR_MQTT_PORT: "0",
      ...settings,
    });
  let server = await start();
  const as = (secret: string) => client(() => server.url, { authorization: `Bearer ${secret}` });
  return {
    get url() {
      return server.url;
    },
    get pid() {
      return server.pid;
    },
    as,
    admin: as(KEY),
    restart: async (meanwhile: () => Promise<void>) => {
      await server.end();
      await meanwhile();
      server = await start();
    },
    end: async () => {
      await server.end();
      rmSync(folder, { recursive: true });
    },
  };
}
type Cloud = Awaited<ReturnType<typeof cloudOn>>;
type Shop = Awaited<ReturnType<typeof printShop>>;
const freshFolder = () => mkdtempSync(join(tmpdir(), "imprimatur-bench-"));

async function issue(shop: Shop, count: number): Promise<void> {
  for (let left = count; left > 0; left -= 1_000) {
    const serials = await shop.allocate(Math.min(left, 1_000));
    const { body } = await shop.admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin: shop.gtin, serial })) });
    if (body.failed > 0) throw new Error(JSON.stringify(body.errors[0]));
  }
}

/** A label's way in six calls: claim, four states, seal. */
async function oneByOne(call: Call): Promise<boolean> {
  const answer = await call("/aidc/jobs/claim", { needs: ["qr"] });
  if (answer.status === 204) return false;
  const claimed = await well<Claim>(Promise.resolve(answer));
  const items = goodItems(claimed, false);
  for (const item of [...items, sealOf(items)])
    await well(call(`/aidc/jobs/${claimed.job.job_ref}/result`, { attempt_id: claimed.attempt_id, ...item }));
  return true;
}

/** Many labels' way in as many calls as it takes: a claim for all of them, then their results, 500 a call. */
async function inBatches(call: Call): Promise<number> {
  const { claims } = await well<{ claims: Claim[] }>(call("/aidc/jobs/claim/batch", { needs: ["qr"], max: BATCH }));
  const results = claims.flatMap((claimed) => {
    const items = goodItems(claimed, false);
    return [...items, sealOf(items)].map((item) => ({ job_ref: claimed.job.job_ref, attempt_id: claimed.attempt_id, ...item }));
  });
  for (let at = 0; at < results.length; at += 500) {
    const { results: outcomes } = await well<{ results: { status: number; error?: object }[] }>(
      call("/aidc/results", { results: results.slice(at, at + 500) }),
    );
    const refused = outcomes.find(({ status }) => status !== 200);
    if (refused) throw new Error(JSON.stringify(refused));
  }
  return claims.length;
}

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
  const cloud = await cloudOn(freshFolder());
  const shop = await printShop(cloud);
  const call = caller(cloud.url, shop.device.secret);
  await issue(shop, 40_000);
  await labels(LINES, async () => Number(await oneByOne(call))); // warm
  const single = await labels(LINES, async () => Number(await oneByOne(call)));
  const batched = await labels(2, () => inBatches(call));
  const allocations: number[] = [];
  for (let i = 0; i < 5; i += 1) {
    const began = performance.now();
    await shop.allocate(10_000);
    allocations.push(performance.now() - began);
  }
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
  await cloud.restart(() => manyJobs(folder, ref, jobs));
  await issue(shop, 6_000);
  return { cloud, call: caller(cloud.url, shop.device.secret) };
}

async function claims(): Promise<Line> {
  const contestants = [await withJobs(MANY), await withJobs(FEW)] as const;
  const took: [number[], number[]] = [[], []];
  for (let round = 0; round < 10; round += 1)
    for (const [i, { call }] of contestants.entries())
      for (let n = 0; n < 300; n += 1) {
        const began = performance.now();
        await well(call("/aidc/jobs/claim", { needs: ["qr"], lease_seconds: 600 }));
        if (round > 1) took[i as 0 | 1].push(performance.now() - began);
      }
  for (const { cloud } of contestants) await cloud.end();
  const [many, few] = [percentile(took[0], 0.99), percentile(took[1], 0.99)];
  return {
    name: "print: a claim with 1,000,000 jobs in the table against 1,000, 99 of 100",
    figure: `${(many / few).toFixed(2)} (${many.toFixed(1)} against ${few.toFixed(1)} ms)`,
    target: "at most 1.5",
    met: many / few <= 1.5,
  };
}

/** For the bench against peers: a cloud with a shop in it, and labels that live their whole life there. */
export async function printCloud(settings: Record<string, string> = {}) {
  const cloud = await cloudOn(freshFolder(), settings);
  const shop = await printShop(cloud);
  const call = caller(cloud.url, shop.device.secret);
  const issueAs = caller(cloud.url, shop.adminKey);
  const serials: string[] = [];
  let more: Promise<unknown> | undefined;
  /** Serials are allocated by the thousand, as factories do; who finds none waits for the one call that brings them. */
  async function nextSerial(): Promise<string> {
    for (;;) {
      const serial = serials.pop();
      if (serial !== undefined) return serial;
      more ??= shop.allocate(10_000).then((made) => {
        serials.push(...made);
        more = undefined;
      });
      await more;
    }
  }
  return { call, issueAs, nextSerial, shop, pid: () => cloud.pid, end: () => cloud.end() };
}
type PrintCloud = Awaited<ReturnType<typeof printCloud>>;

export async function labelInSevenCalls({ call, issueAs, nextSerial, shop }: PrintCloud): Promise<number> {
  await well(issueAs("/aidc/jobs", { gtin: shop.gtin, serial: await nextSerial() }));
  return Number(await oneByOne(call));
}

export async function batchedLabels({ call, issueAs, nextSerial, shop }: PrintCloud): Promise<number> {
  const items = [];
  for (let i = 0; i < BATCH; i += 1) items.push({ gtin: shop.gtin, serial: await nextSerial() });
  await well(issueAs("/aidc/jobs/batch", { items }));
  return inBatches(call);
}

const residentMb = ({ pid }: Cloud) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1024;

async function exports(): Promise<Line> {
  const cloud = await cloudOn(freshFolder());
  const shop = await printShop(cloud);
  for (let made = 0; made < EXPORTED; made += 10_000) await shop.allocate(10_000);
  const before = residentMb(cloud);
  let most = before;
  const began = performance.now();
  const answer = await fetch(`${cloud.url}/api/v2/carriers/export?productId=${shop.product.id}`, {
    headers: { authorization: `Bearer ${shop.adminKey}` },
  });
  let rows = -1; // the header
  for await (const chunk of answer.body ?? []) {
    for (const byte of chunk as Uint8Array) if (byte === 10) rows += 1;
    most = Math.max(most, residentMb(cloud));
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
export const printBench = async (): Promise<Line[]> => [...(await wholeLabels()), await claims(), await exports()];
