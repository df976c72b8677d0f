// Whatever goes wrong, in whatever order: nothing is attested that didn't come out, and no serial is on two labels that anybody believes in.
import { type Arbitrary, array, assert, asyncProperty, boolean, check, constantFrom, integer, nat, oneof, record } from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Completion, Driver } from "../../agent/printers/driver.ts";
import { drivers } from "../../agent/printers/index.ts";
import type { FloorOptions, SimulatedFloor } from "../../fixtures/floor.ts";
import { type BadDay, badDays } from "../../fixtures/network.ts";
import { simulations } from "../../fixtures/printers/index.ts";
import type { QueueFault } from "../../fixtures/printers/ipp.ts";
import { type FaultName, faultTable } from "../../fixtures/printers/machine.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { LINE_FAULTS, type LineFault } from "../../fixtures/scanners/line.ts";
import { world } from "../world.ts";
import {
  asked,
  ask,
  type Ends,
  floorOf,
  HASTY,
  jobAt,
  lyingOf,
  netTo,
  type Running,
  say,
  stateInCloud,
  stationOn,
  TOLD_LINES,
  until,
} from "./floor.ts";

const w = await world();

type Step = { printer: string; at: number; times: number; network: BadDay; scan: LineFault; restart: boolean };
/** Every fault that a simulated printer has can be drawn, every way in which a scanner fails, and every bad day of the network. */
const DRAWN = {
  printer: ["none", ...Object.keys(faultTable)],
  network: Object.keys(badDays) as BadDay[],
  scan: [...LINE_FAULTS],
};
const stepOf = (printers: string[]): Arbitrary<Step> =>
  record({
    printer: constantFrom(...printers),
    at: oneof(nat(3_000), nat(15_000)), // within a label of ZPL, or of a receipt printer's, which has three times as many bytes
    times: integer({ min: 1, max: 3 }),
    network: constantFrom(...DRAWN.network),
    scan: constantFrom(...DRAWN.scan),
    restart: boolean(),
  });
const schedule = (printers: string[]) => array(stepOf(printers), { minLength: 2, maxLength: 4 });

/** Of a simulation by its name: what it can suffer without lying. */
const honest = (name: string, more: string[] = []) => [
  "none", ...simulations.filter((one) => one.name === name).flatMap(({ faults }) => faults), ...more,
]; // oxfmt-ignore
type Kind = { floor: FloorOptions; faults: string[]; needs?: string[]; atOnce?: number };
const kinds: Record<string, Kind> = {
  "that writes tags": { floor: { rfid: true }, faults: DRAWN.printer, needs: ["qr", "rfid"] },
  "with two labels in flight": {
    floor: { config: { inFlight: 2 }, settings: { claim: { ahead: 4, leaseSeconds: 15 } } }, // a claim whose answer is lost with a restart waits for its end
    faults: DRAWN.printer.filter((name) => !["rfid-void", "voids-untold", "epc-shift", "neighbour-inlay"].includes(name)),
    atOnce: 3,
  },
  "without a counter": { floor: { printer: { counts: false } }, faults: honest("zpl without a label counter") },
  "of receipts": { floor: { language: "escpos" }, faults: honest("escpos with GS ( H") },
  "of receipts that knows GS r": { floor: { language: "escpos", printer: { knowsGsH: false } }, faults: honest("escpos with GS r") },
  "of receipts that answers nothing": {
    floor: { language: "escpos", printer: { knowsGsH: false, knowsGsR: false } },
    faults: honest("escpos that answers nothing in order"),
  },
  "behind a queue": { floor: { language: "ipp" }, faults: honest("ipp", ["retries"]) },
};

const PATIENCE = { blockedMs: 300, idleMs: 200, muteMs: 200, retryMs: [30], drainMs: 500 };
/** IMPRIMATUR_SCHEDULES=200 searches for longer; IMPRIMATUR_SEED repeats a search. */
const RUNS = Number(process.env["IMPRIMATUR_SCHEDULES"] ?? 5);
const SEED = Number(process.env["IMPRIMATUR_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

describe.concurrent("no schedule of faults attests a label that didn't come out, and every label is sealed or explained", () => {
  test.for(Object.entries(kinds))("by a printer %s", { timeout: RUNS * 60_000 }, async ([name, kind], t) => {
    const numRuns = kind.needs ? RUNS : Math.ceil(RUNS / 4);
    process.stderr.write(`schedules of faults, a printer ${name}: ${numRuns}, seed ${SEED}\n`);
    await assert(asyncProperty(schedule(kind.faults), (steps) => holds(steps, kind)), { numRuns, seed: SEED, endOnFailure: true });
    t.expect(numRuns).toBeGreaterThan(0);
  }); // oxfmt-ignore
});

test("the search finds a driver that takes bytes handed over for a label printed", { timeout: 300_000 }, async () => {
  drivers["gullible"] = gullible(drivers["zpl"] as Driver);
  onTestFinished(() => void delete drivers["gullible"]);
  const kind = kinds["that writes tags"] as Kind;
  const found = await check(
    asyncProperty(schedule(DRAWN.printer), (steps) => holds(steps, kind, "gullible")),
    {
      numRuns: 30,
      seed: SEED,
      endOnFailure: true,
    },
  );
  expect(found.failed).toBe(true);
  // It attests, or seals once scanned, what isn't there; or what it left in the printer, called done, stops the line, where an honest one would have asked.
  expect(String(found.errorInstance)).toMatch(/attested, and 0 labels lie there|that nobody destroyed|not so after/);
});

/** As most print servers are: what was sent is done. */
function gullible(honest: Driver): Driver {
  const open: Driver["open"] = async (...given) => {
    const printer = await honest.open(...given);
    const done: Pick<Completion, "outcome" | "faults" | "toDestroy" | "reason"> = {
      outcome: "confirmed", faults: [], toDestroy: 0, reason: "the printer took it",
    }; // oxfmt-ignore
    return {
      ...printer,
      awaitCompletion: async ({ epc }) => ({
        ...done,
        evidence: { basis: "faith", grade: "A", ...(epc === undefined ? {} : { epc }), simulated: true },
      }),
    };
  };
  return { ...honest, open };
}

async function holds(steps: Step[], kind: Kind, driver?: string): Promise<void> {
  const shop = await printShop(w);
  const ends: (() => unknown)[] = [];
  const run: Ends = { onTestFinished: (end) => void ends.unshift(end) };
  const net = await netTo(run, w);
  const floor = await floorOf(run, net.url, shop, {
    eyes: "hand",
    settings: { claim: { ahead: 1, leaseSeconds: 600 } },
    ...kind.floor,
  });
  for (const printer of floor.config.printers) printer.driver = driver ?? printer.driver;
  const start = () => stationOn(run, floor, { timing: { ...HASTY, completionMs: 1_500 }, patience: PATIENCE });
  let station: Running = await start();
  const believed = new Map<string, number>();
  try {
    for (const { printer, at, times, network, scan, restart } of steps) {
      const jobs: Job[] = [];
      for (let i = 0; i < (kind.atOnce ?? 1); i += 1) jobs.push(await shop.issue({ needs: kind.needs ?? ["qr"], max_attempts: 20 }));
      const isTaken = ({ job_ref: ref }: Job) => jobAt(station, ref) !== undefined;
      await until(() => jobs.some(isTaken) || station.state().printers[0]?.status === "blocked");
      if (printer !== "none") suffer(floor, printer, { at, times, ...(printer === "paper-out" ? { after: 1, mid: 1 } : {}) });
      let n = 0;
      net.rule(() => badDays[network]((n += 1)));
      await new Promise((resolve) => setTimeout(resolve, 400));
      if (restart) {
        await station.end();
        station = await start();
      }
      await new Promise((resolve) => setTimeout(resolve, 400));
      getWell(floor);
      net.rule(() => "pass");
      for (const { job_ref: ref, digital_link: link } of jobs)
        if (jobAt(station, ref)?.state === "PRINTED_ATTESTED") await floor.scanner?.scan(link, { fault: scan });
      await Promise.all(jobs.map((job) => mended(station, job, floor, shop, believed)));
    }
    await until(() => station.state().buffer_depth === 0);
    for (const [ref, labels] of believed) await judge(shop, ref, labels);
    expect(station.state().quarantine).toEqual([]);
  } catch (error) {
    if (driver === undefined) process.stderr.write([...station.lines.slice(-TOLD_LINES), JSON.stringify(station.state()), ""].join("\n"));
    throw error;
  } finally {
    for (const end of ends) await end();
  }
}

type Job = { job_ref: string; digital_link: string };
type How = Record<string, number>;
function suffer({ machine, queue }: SimulatedFloor, fault: string, how: How): void {
  machine?.fault(fault as FaultName, how);
  queue?.set(fault as QueueFault);
}
function getWell({ machine, queue }: SimulatedFloor): void {
  if (machine?.has("no-counter")) machine.fault("power-off"); // a counter comes with other firmware
  machine?.clear();
  queue?.set("none");
}

/** A truthful person: looks at what lies there, destroys what is asked, scans what is good. */
async function mended(
  station: Running,
  { job_ref: ref, digital_link: link }: Job,
  floor: SimulatedFloor,
  shop: Shop,
  believed: Map<string, number>,
): Promise<void> {
  const destroyed = new Set<number>();
  const { machine } = floor;
  const all = () => (machine ? lyingOf(machine, link) : queued(floor, link));
  const lying = async () => (await all()).filter((n) => !destroyed.has(n));
  const counts = machine !== undefined && station.state().printers[0]?.driver === "zpl";
  await until(async () => {
    if (station.state().recent.some(({ job_ref, ended }) => job_ref === ref && ended === "sealed")) return true;
    if (jobAt(station, ref) === undefined && (await stateInCloud(shop, ref)) === "DEAD_LETTER") return true; // refused so often that nobody tries again
    const kind = asked(station, ref);
    if (kind !== null && !counts) await still(floor); // what comes out between a look and a word no counter tells of
    const paper = await lying();
    if (kind === "destroy_earlier" || kind === "destroy_void") {
      for (const n of paper)
        if (kind === "destroy_earlier" || station.state().jobs.some(({ job_ref, stage }) => job_ref === ref && stage === "sent"))
          destroyed.add(n);
      await say(station, ref, "destroyed");
    }
    if (kind === "unknown_outcome" || (kind === "attest" && paper.length === 0)) {
      for (const n of paper) destroyed.add(n);
      await say(station, ref, paper.length > 0 ? "destroyed" : "not_printed");
    } else if (kind === "attest") {
      for (const n of paper.slice(1)) destroyed.add(n);
      await say(station, ref, "good");
    }
    if (kind === null && jobAt(station, ref)?.state === "PRINTED_ATTESTED") {
      if (paper.length !== 1) throw new Error(`attested, and ${paper.length} labels lie there`);
      const { why } = (await ask(station, "POST", "/api/scan", { text: link })).body as { why: string | null };
      if (why === "tag" && (await say(station, ref, "destroyed")).status === 200) destroyed.add(paper[0] as number); // of a printer that didn't answer, nobody has read it
    }
    return false;
  }, 120_000);
  if ((await stateInCloud(shop, ref)) !== "DEAD_LETTER") believed.set(ref, (await lying()).length);
}
/** Nothing moves in it any more. */
async function still({ machine, queue }: SimulatedFloor): Promise<void> {
  await machine?.idle();
  await until(() => queue === undefined || queue.jobs().every(({ state }) => state !== "processing"));
}
async function queued({ links }: SimulatedFloor, link: string): Promise<number[]> {
  return (await links()).flatMap((text, n) => (text === link ? [n] : []));
}

async function judge(shop: Shop, ref: string, labels: number): Promise<void> {
  const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body as { data: { to: string; attempt: number }[] };
  expect(labels, `labels of ${ref} that nobody destroyed`).toBe(1);
  expect(data.filter(({ to }) => to === "SEALED")).toHaveLength(1);
  for (const { to, attempt } of data)
    if (to === "PRINTED_ATTESTED")
      expect(data.filter((other) => other.to === "SPOOL_SUBMITTED" && other.attempt === attempt)).toHaveLength(1);
}
