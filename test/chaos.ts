// A run of chaos: a site at work, misfortunes by a seed, then all is mended and comes to its end, and the invariants are judged.
import { setTimeout as sleep } from "node:timers/promises";
import { parseNote } from "#shared/note.ts";
import { openStates } from "#shared/states.ts";
import { heal, misfortunes, type Pace } from "../fixtures/chaos/misfortunes.ts";
import { type Figures, type Site, type SiteOptions, startSite, type Tenant } from "../fixtures/chaos/site.ts";
import { gtinOf } from "../fixtures/gtin.ts";
import { random } from "../fixtures/random.ts";
import { all, atRest, gathered } from "./chaos-evidence.ts";
import type { Head } from "./cluster-checker.ts";
import { brokenHistory, type History } from "./history-checker.ts";

export type Plan = Pick<SiteOptions, "postgres" | "nodes"> & {
  seed: number;
  stations?: readonly number[];
  pace: Pace;
  /** Labels that are asked for: so many a second, or this share of what the floor can do, which is measured first. */
  load: { labelsPerSecond: number } | { share: number };
  walMaxBytes?: number;
  onLook?: (look: Look) => void;
};
export type Look = { seconds: number; figures: Figures[]; backlog: number; issued: number; sealed: number };
export type Outcome = { broken: string[]; told: string[]; history: History; looks: Look[]; seconds: number };

const WAL_MAX_BYTES = 64 * 1_048_576;
const LOOK_MS = 150;
const FIGURES_MS = 2_000;
const COLLECTED_EVERY = 3; // looks: the least that a node held is then what it needs, and not what was left when V8 last thought of it
const DRAIN_MS = 120_000;
const SOON_MS = 6_000;
const JOBS_A_CALL = 2;
const FIRST_KETTLE = 100_000;
const CANCELLED = 0.15; // of the jobs
const CANCELLED_MS = 4_000;
const AS_ORDERED = () => 0.99; // a chance in which nothing is thought better of

type Made = { acknowledged: string[]; allocated: number; issued: number };

/** What an integrator does all day: serials, jobs for them, products; some jobs are thought better of. Each asked until it is answered. */
async function integrate(
  { admin, product, gtin, name }: Tenant,
  chance: () => number,
  everyMs: () => number,
  over: () => boolean,
  made: Made,
) {
  const afterthoughts: Promise<unknown>[] = [];
  for (let n = 1; !over(); n += 1) {
    const { serials } = (await admin.post("/carriers/batch", { productId: product.id, count: JOBS_A_CALL })).body as { serials: string[] };
    made.allocated += serials.length;
    const items = serials.map((serial) => ({
      gtin,
      serial,
      needs: ["qr", "rfid"],
      priority: Math.floor(chance() * 3),
      max_attempts: chance() < 0.15 ? 1 + Math.floor(chance() * 2) : 20,
    }));
    const { jobs } = (await admin.post("/aidc/jobs/batch", { items })).body as { jobs: { job_ref: string }[] };
    made.acknowledged.push(...jobs.map(({ job_ref: ref }) => ref));
    made.issued += jobs.length;
    for (const { job_ref: ref } of jobs)
      if (chance() < CANCELLED)
        afterthoughts.push(sleep(chance() * CANCELLED_MS).then(() => admin.post(`/aidc/jobs/${ref}/cancel`, { reason: "changed" })));
    const kettle = { name: `Kettle ${n}`, description: `A kettle of ${name}, number ${n}`, category: "electronics", extensions: {} };
    const { id } = (await admin.post("/products", { ...kettle, gtin: gtinOf(FIRST_KETTLE + made.allocated), serialNumber: "1" })).body as {
      id: string;
    };
    made.acknowledged.push(id);
    await sleep(everyMs() * (0.5 + chance()));
  }
  await Promise.all(afterthoughts);
}

async function watchLog({ tenants }: Site, heads: Head[], over: () => boolean): Promise<void> {
  while (!over()) {
    const { head } = parseNote((await tenants[0]?.admin.get("/log/checkpoint"))?.text ?? "") ?? {};
    if (head && head.size > (heads.at(-1)?.size ?? 0)) heads.push({ size: head.size, root: head.root.toString("hex") });
    await sleep(500);
  }
}

async function lookAfter({ lines }: Site, over: () => boolean): Promise<void> {
  while (!over()) {
    await Promise.all(lines.map((line) => line.lookAfter()));
    await sleep(LOOK_MS);
  }
}

type Watching = { made: Made; onLook: ((look: Look) => void) | undefined };
async function watchFigures(site: Site, { made, onLook }: Watching, looks: Look[], over: () => boolean): Promise<void> {
  const began = performance.now();
  while (!over()) {
    await sleep(FIGURES_MS);
    if (looks.length % COLLECTED_EVERY === 0) site.cloud.collect();
    const figures = await site.figures().catch(() => undefined); // it is down now
    if (!figures || over()) continue;
    const states = await Promise.all(site.lines.map((line) => line.state()));
    const look = {
      seconds: Math.round((performance.now() - began) / 1_000),
      figures,
      backlog: states.reduce((sum, state) => sum + (state?.buffer_depth ?? 0), 0),
      issued: made.issued,
      sealed: states.reduce((sum, state) => sum + (state?.ledger.counts["sealed"] ?? 0), 0),
    };
    looks.push(look);
    onLook?.(look);
  }
}

/** Everything comes to its end, however much a slow machine has left of it, or nothing more does: the checker says what hasn't. */
export async function drained(site: Site, byHand: Set<string>): Promise<string[]> {
  let least = Infinity;
  for (let until = Date.now() + DRAIN_MS; Date.now() < until; await sleep(300)) {
    const left = await Promise.all(site.tenants.map((tenant) => leftOf(tenant, byHand)));
    const states = await Promise.all(site.lines.map((line) => line.state()));
    const held = states.map((state) => (state ? state.buffer_depth + state.jobs.length : 1)); // a label may lie there, or come out yet, of a job that is over
    const waiting = [...left, ...held].reduce((sum, count) => sum + count, 0);
    if (waiting === 0) return [];
    if (waiting < least) until = Date.now() + DRAIN_MS;
    least = Math.min(least, waiting);
  }
  return Promise.all(site.lines.map(standing));
}
/** What a line that doesn't come to its end says of itself. */
async function standing({ name, state, floor }: Site["lines"][number]): Promise<string> {
  const { printers = [], jobs = [], online, stopped, log = [] } = (await state()) ?? {};
  const waiting = jobs.map(({ job_ref: ref, state: at, stage, ask }) => `${ref} ${at} ${stage} ${ask ? `${ask.kind}: ${ask.words}` : ""}`);
  const printer = printers.map(({ status, words }) => `${status}: ${words}`).join();
  return [
    `${name}: online ${online}, stopped ${stopped}; printer ${printer}; ${floor.machine?.waiting()} wait in it, ${floor.machine?.stuck()}`,
    ...waiting,
    ...log.slice(-15),
  ].join("\n    ");
}
async function leftOf({ admin, webhook, refused }: Tenant, byHand: Set<string>): Promise<number> {
  let left = await unended(admin);
  for (const id of [webhook, refused])
    for (const { id: delivery, nextTryAt } of await all<{ id: string; nextTryAt: string | null }>(
      admin,
      `/webhooks/${id}/deliveries?status=pending`,
    )) {
      left += 1;
      if (byHand.has(delivery) || nextTryAt === null || Date.parse(nextTryAt) < Date.now() + SOON_MS) continue;
      byHand.add(delivery);
      await admin.post(`/webhooks/${id}/deliveries/${delivery}/redeliver`);
    }
  return left;
}

const MEASURED_LABELS = 6; // of each line
/** How fast the floor is while all is well, in labels a second. */
async function capacity(site: Site, made: Made): Promise<number> {
  const began = performance.now();
  const most = MEASURED_LABELS * site.lines.length;
  let n = 0;
  await Promise.all(
    site.tenants.map((tenant) =>
      integrate(
        tenant,
        AS_ORDERED,
        () => 0,
        () => (n += JOBS_A_CALL) > most,
        made,
      ),
    ),
  );
  while ((await Promise.all(site.tenants.map(({ admin }) => unended(admin)))).some((count) => count > 0)) {
    await Promise.all(site.lines.map((line) => line.lookAfter()));
    await sleep(LOOK_MS);
  }
  return (made.issued * 1_000) / (performance.now() - began);
}
/** State by state, in the order that a job takes them: none slips by, and what a long run has sealed isn't asked for again and again. */
async function unended(admin: Tenant["admin"]): Promise<number> {
  let count = 0;
  for (const state of openStates) {
    const open = await all(admin, `/aidc/jobs?state=${state}`);
    count += open.length;
  }
  return count;
}

export async function ready(site: Site): Promise<void> {
  for (const line of site.lines)
    for (let tries = 0; (await line.state())?.printers[0]?.status !== "ready" && tries < 200; tries += 1) await sleep(50);
}

export async function runChaos(plan: Plan): Promise<Outcome> {
  const { seed, stations = [2, 1], pace, load, postgres, nodes = 1, walMaxBytes = WAL_MAX_BYTES, onLook } = plan;
  const began = performance.now();
  const site = await startSite({ seed, stations, nodes, ...(postgres ? { postgres } : {}) });
  try {
    await ready(site);
    const before = await site.figures();
    site.clients.record(true);
    const chance = random(seed);
    const made: Made = { acknowledged: [], allocated: 0, issued: 0 };
    const heads: Head[] = [];
    const looks: Look[] = [];
    const byHand = new Set<string>();
    let calm = false;
    let quiet = false;
    const isCalm = () => calm;
    const isQuiet = () => quiet;
    const labelsPerSecond = "share" in load ? load.share * (await capacity(site, made)) : load.labelsPerSecond;
    const everyMs = () => (JOBS_A_CALL * 1_000 * site.tenants.length) / labelsPerSecond;
    const meanwhile = [lookAfter(site, isQuiet), watchLog(site, heads, isQuiet), watchFigures(site, { made, onLook }, looks, isQuiet)];
    const work = site.tenants.map((tenant) => integrate(tenant, chance, everyMs, isCalm, made));
    const told = await misfortunes({ site, ...(postgres ? { postgres } : {}) }, seed, pace);
    calm = true;
    heal(site);
    await Promise.all(work);
    const stuck = await drained(site, byHand);
    quiet = true;
    await Promise.all(meanwhile);
    const rest = await atRest(site); // before the evidence is gathered, which is a load of its own
    const walMost = (n: number) => Math.max(...[...looks.map(({ figures }) => figures), rest].map((of) => of[n]?.walBytes ?? 0));
    const after = rest.map((figures, n) => ({ ...figures, walBytes: walMost(n) }));
    const history = await gathered(site, { ...made, heads, before, after, walMaxBytes, byHand });
    const broken = [...site.cloud.fallen(), ...site.ear.odd.map((what) => `I13: ${what}`), ...brokenHistory(history)];
    return { broken, told: [...told, ...stuck], history, looks, seconds: (performance.now() - began) / 1_000 };
  } finally {
    await site.end();
  }
}
