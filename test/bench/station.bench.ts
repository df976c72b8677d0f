// One station at a printer's own speed, with the cloud far away and the agent on one core; what it costs when idle; a label's drawing; a long outage's reports.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { Task } from "../../agent/attempt.ts";
import { blank } from "../../agent/bitmap.ts";
import { openBuffer } from "../../agent/buffer.ts";
import { systemClock } from "../../agent/clock.ts";
import type { AgentConfig } from "../../agent/config.ts";
import { renderLabel } from "../../agent/label.ts";
import { formatOf } from "../../agent/printers/zpl-format.ts";
import { loadTemplates, templateFor } from "../../agent/template.ts";
import { startDistance } from "../../fixtures/distance.ts";
import { type FloorOptions, startFloor } from "../../fixtures/floor.ts";
import { type Claim, goodItems, printShop, sealOf, type Shop } from "../../fixtures/print-shop.ts";
import { startZplPrinter } from "../../fixtures/printers/zpl.ts";
import { cpuMs, inFull, type Line, median, residentMb, statOf } from "./measure.ts";
import { issue } from "./print-cloud.ts";
import { cloudOn } from "./servers.ts";

const AWAY_MS = 50; // each way
const PRINTER = { scale: 1, speed: 14, heightMm: 25.4, control: 0 };
const LABELS = inFull(250, 10);
const WARM = inFull(30, 3);
const OWN_LABELS = inFull(40, 3);
const IDLE_SETTLE_MS = inFull(15_000, 100);
const IDLE_MS = inFull(20_000, 500);
const DRAWN = inFull(300, 30);
const BUFFERED = inFull(100_000, 500);
const PER_LABEL = 5;
const MINUTES_MAX = 5;

const { npm_lifecycle_event: _npm, ...outsideNpm } = process.env;
type Agent = { url: string; pid: number; end(): Promise<void> };
/** As systemd starts it, on one core. */
async function agentOn(config: AgentConfig, folder: string): Promise<Agent> {
  const file = join(folder, "config.json");
  writeFileSync(file, JSON.stringify(config));
  const own = [process.execPath, fileURLToPath(new URL("../../.runtime/run.mjs", import.meta.url)), "agent", "--config", file];
  const [command = "", ...args] = process.platform === "linux" ? ["taskset", "-c", "1", ...own] : own;
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"], env: outsideNpm });
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  for await (const line of createInterface({ input: child.stdout })) {
    if (!line.includes('"event":"ready"')) continue;
    child.stdout.resume();
    const { url, pid } = JSON.parse(line) as { url: string; pid: number };
    const end = () => {
      child.kill("SIGTERM");
      return ended;
    };
    return { url, pid, end };
  }
  throw new Error("the agent ended before it was ready");
}

type Cloud = { url: string; shop: Shop };

/** Labels a second of the printer alone, everything it is to print lying in its buffer. */
async function ownRate(): Promise<number> {
  const machine = await startZplPrinter(PRINTER);
  const socket = connect(machine.port, "127.0.0.1").resume();
  const dots = blank(machine.widthDots, machine.heightDots);
  for (let i = 0; i < OWN_LABELS; i += 1) socket.write(formatOf(dots, "0".repeat(8), { name: "own", dpi: 203 }));
  await machine.printed(OWN_LABELS);
  const first = machine.labels[0]?.at ?? 0;
  const last = machine.labels[OWN_LABELS - 1]?.at ?? 0;
  socket.destroy();
  await machine.stop();
  return ((OWN_LABELS - 1) * 1_000) / (last - first);
}

async function atFullSpeed(cloud: Cloud): Promise<Line[]> {
  const own = await ownRate();
  const away = await startDistance(cloud.url, AWAY_MS);
  const floor = await fullFloor(cloud, away.url);
  await issue(cloud.shop, LABELS);
  const agent = await agentOn(floor.config, floor.folder);
  const before = cpuSeconds(agent.pid);
  try {
    const jobs = await allSealed(cloud);
    const busy = cpuSeconds(agent.pid) - before;
    const at = jobs.map(({ updated_at }) => Date.parse(updated_at)).toSorted((a, b) => a - b);
    const seconds = ((at.at(-1) ?? 0) - (at[WARM] ?? 0)) / 1_000;
    const rate = (LABELS - 1 - WARM) / seconds;
    const grades = await gradesOf(cloud, jobs);
    return [
      {
        name: `station: labels sealed with full evidence and scanned, the cloud ${AWAY_MS} ms away each way, one core, against the printer's own rate`,
        figure: `${(rate / own).toFixed(3)} (${rate.toFixed(2)} against ${own.toFixed(2)} labels/s; completion grades ${grades}; ${((busy * 1_000) / LABELS).toFixed(1)} ms of processor a label)`,
        target: "at least 0.95",
        met: rate / own >= 0.95,
      },
    ];
  } finally {
    await agent.end();
    await floor.end();
    await away.end();
  }
}
const fullFloor = ({ shop }: Cloud, url: string, more: FloorOptions = {}) =>
  startFloor(url, shop.device.secret, {
    eyes: "line",
    printer: PRINTER,
    config: { inFlight: 3 },
    settings: { claim: { ahead: 16, leaseSeconds: 60 }, logLevel: "info" },
    ...more,
  });

type SealedJob = { job_ref: string; state: string; updated_at: string };
async function allSealed({ shop }: Cloud): Promise<SealedJob[]> {
  for (const until = Date.now() + MINUTES_MAX * 60_000; Date.now() < until; await sleep(1_000)) {
    const jobs: SealedJob[] = [];
    for (let cursor: string | null = ""; cursor !== null;) {
      const { body } = await shop.admin.get(`/aidc/jobs?limit=200&state=SEALED${cursor ? `&cursor=${cursor}` : ""}`);
      jobs.push(...body.data);
      cursor = body.nextCursor;
    }
    if (jobs.length >= LABELS) return jobs;
  }
  throw new Error(`not sealed after ${MINUTES_MAX} minutes`);
}

async function gradesOf({ shop }: Cloud, jobs: SealedJob[]): Promise<string> {
  const counts = new Map<string, number>();
  for (const { job_ref } of jobs) {
    const { items } = (await shop.admin.get(`/aidc/jobs/${job_ref}/evidence`)).body as {
      items: { evidence?: { completion?: { grade: string } } }[];
    };
    const grade = items[2]?.evidence?.completion?.grade ?? "none";
    counts.set(grade, (counts.get(grade) ?? 0) + 1);
  }
  return [...counts].map(([grade, count]) => `${grade} ${count}`).join(", ");
}

const cpuSeconds = (pid: number): number => cpuMs(statOf(pid)) / 1_000;

async function idle(cloud: Cloud): Promise<Line[]> {
  const floor = await fullFloor(cloud, cloud.url);
  const agent = await agentOn(floor.config, floor.folder);
  try {
    await sleep(IDLE_SETTLE_MS);
    const before = cpuSeconds(agent.pid);
    await sleep(IDLE_MS);
    const share = ((cpuSeconds(agent.pid) - before) * 1_000) / IDLE_MS;
    const mb = residentMb(agent.pid);
    return [
      { name: "station: memory when idle", figure: `${Math.round(mb)} MB`, target: "under 100 MB", met: mb < 100 },
      { name: "station: processor when idle", figure: `${(share * 100).toFixed(2)} %`, target: "under 1 %", met: share < 0.01 },
    ];
  } finally {
    await agent.end();
    await floor.end();
  }
}

async function drawing(): Promise<Line> {
  const template = templateFor(loadTemplates(), { widthMm: 50, heightMm: 25 });
  const took: number[] = [];
  for (let i = 0; i < DRAWN; i += 1) {
    const serial = String(100_000_000_000 + i);
    const payload = `https://id.example.com/01/09506000134352/21/${serial}`;
    const began = performance.now();
    await renderLabel({ payload, gtin: "09506000134352", serial }, { template, dpi: 203 });
    took.push(performance.now() - began);
  }
  const p50 = median(took.slice(DRAWN / 3));
  return { name: "station: a label drawn and read back, p50", figure: `${p50.toFixed(2)} ms`, target: "under 8 ms", met: p50 < 8 };
}

/** What a station has to say after a very long outage: everything of 20,000 labels. */
async function outage(cloud: Cloud, awayMs: number): Promise<Line> {
  const labels = BUFFERED / PER_LABEL;
  await issue(cloud.shop, labels);
  const away = await startDistance(cloud.url, awayMs);
  const floor = await fullFloor(cloud, away.url);
  const store = openBuffer(floor.config.dataDir, systemClock);
  for (let left = labels; left > 0;) {
    const { body } = await cloud.shop.device.api.post("/aidc/jobs/claim/batch", { needs: ["qr"], max: 200, lease_seconds: 600 });
    store.write(() => {
      for (const claim of body.claims as Claim[]) buffer(store, claim);
    });
    left -= body.claims.length;
    if (body.claims.length === 0) throw new Error("nothing to claim");
  }
  store.close();
  const began = performance.now();
  const agent = await agentOn(floor.config, floor.folder);
  try {
    for (const until = Date.now() + MINUTES_MAX * 60_000; Date.now() < until; await sleep(500)) {
      const depth = Number(/imprimatur_agent_buffer_depth (\d+)/.exec(await (await fetch(`${agent.url}/metrics`)).text())?.[1] ?? "1");
      if (depth === 0) break;
    }
    const seconds = (performance.now() - began) / 1_000;
    const rate = BUFFERED / seconds;
    return {
      name: `station: ${BUFFERED.toLocaleString("en-US")} buffered reports drain, start included, the cloud ${awayMs} ms away each way`,
      figure: `${Math.round(rate).toLocaleString("en-US")} a second`,
      target: "at least 2,000",
      met: rate >= 2_000,
    };
  } finally {
    await agent.end();
    await floor.end();
    await away.end();
  }
}
function buffer(store: ReturnType<typeof openBuffer>, claimed: Claim): void {
  const { job, attempt_id: attemptId, envelope } = claimed;
  const { job_ref, gtin, serial, digital_link } = job as Claim["job"] & { gtin: string; serial: string };
  const terms = {
    needs: ["qr" as const],
    template: "any",
    template_sha256: null,
    product_name: null,
    reprint: false,
    duplicate_risk: false,
  };
  const task: Task = { job_ref, attempt: 1, gtin, serial, digital_link, sgtin96_epc: null, ...terms };
  const now = Date.now();
  store.take({ attemptId, task, envelope, leaseSeconds: 600, leaseUntil: now + 600_000, envelopeUntil: now + 86_400_000 });
  const items = goodItems(claimed, true).map((item) => ({ ...item, occurred_at: item.occurred_at ?? new Date(now).toISOString() }));
  for (const item of [...items, { ...sealOf(items), occurred_at: new Date(now).toISOString() }]) store.report(attemptId, item as never);
  store.change(attemptId, { stage: "sealing", printer: "printer" });
}

export async function stationBench(): Promise<Line[]> {
  const { url, end, ...rest } = await cloudOn(undefined, { IMPRIMATUR_LOG_LEVEL: "error" });
  const cloud: Cloud = { url, shop: await printShop({ url, ...rest }) };
  try {
    return [await drawing(), ...(await idle(cloud)), ...(await atFullSpeed(cloud)), await outage(cloud, AWAY_MS)];
  } finally {
    await end();
  }
}
