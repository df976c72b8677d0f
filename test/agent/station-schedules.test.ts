// Whatever goes wrong, in whatever order: nothing is attested that didn't come out, and no serial is on two labels that anybody believes in.
import { type Arbitrary, array, assert, asyncProperty, boolean, check, constantFrom, integer, nat, record } from "fast-check";
import { afterAll, expect, onTestFinished, test } from "vitest";
import type { Completion, Driver } from "../../agent/printers/driver.ts";
import { drivers } from "../../agent/printers/index.ts";
import { type BadDay, badDays, startNetwork } from "../../fixtures/network.ts";
import { type FaultName, faultTable } from "../../fixtures/printers/machine.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { LINE_FAULTS, type LineFault } from "../../fixtures/scanners/line.ts";
import { startWorld } from "../../fixtures/world.ts";
import { asked, ask, floorOf, HASTY, jobAt, lyingOf, type Running, say, stationOn, until } from "./floor.ts";

const w = await startWorld();
afterAll(() => w.end());

type Printed = FaultName | "none";
type Step = { printer: Printed; at: number; times: number; network: BadDay; scan: LineFault; restart: boolean };
/** Every fault that a simulated printer has can be drawn, every way in which a scanner fails, and every bad day of the network. */
const DRAWN = {
  printer: ["none", ...Object.keys(faultTable)] as Printed[],
  network: Object.keys(badDays) as BadDay[],
  scan: [...LINE_FAULTS],
};
const stepOf = (printers: Printed[]): Arbitrary<Step> =>
  record({
    printer: constantFrom(...printers),
    at: nat(15_000),
    times: integer({ min: 1, max: 3 }),
    network: constantFrom(...DRAWN.network),
    scan: constantFrom(...DRAWN.scan),
    restart: boolean(),
  });
const schedule = (printers: Printed[]) => array(stepOf(printers), { minLength: 2, maxLength: 4 });

const PATIENCE = { blockedMs: 300, idleMs: 200, muteMs: 200, retryMs: [30], drainMs: 500 };
/** IMPRIMATUR_SCHEDULES=200 searches for longer; IMPRIMATUR_SEED repeats a search. */
const RUNS = Number(process.env["IMPRIMATUR_SCHEDULES"] ?? 5);
const SEED = Number(process.env["IMPRIMATUR_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

test("no schedule of faults attests a label that didn't come out, and every label is sealed or explained", { timeout: RUNS * 60_000 }, async () => {
  process.stderr.write(`schedules of faults: ${RUNS}, seed ${SEED}\n`);
  await assert(asyncProperty(schedule(DRAWN.printer), (steps) => holds(steps, "zpl")), { numRuns: RUNS, seed: SEED, endOnFailure: true });
}); // oxfmt-ignore

test("the search finds a driver that takes bytes handed over for a label printed", { timeout: 300_000 }, async () => {
  drivers["gullible"] = gullible(drivers["zpl"] as Driver);
  onTestFinished(() => void delete drivers["gullible"]);
  const found = await check(
    asyncProperty(schedule(DRAWN.printer), (steps) => holds(steps, "gullible")),
    {
      numRuns: 30,
      seed: SEED,
      endOnFailure: true,
    },
  );
  expect(found.failed).toBe(true);
  // It attests what isn't there; or what it left in the printer, called done, stops the line, where an honest one would have asked.
  expect(String(found.errorInstance)).toMatch(/attested, and 0 labels lie there|not so after/);
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

async function holds(steps: Step[], driver: string): Promise<void> {
  const shop = await printShop(w);
  const net = await startNetwork(() => w.url);
  const floor = await floorOf({ onTestFinished }, net.url, shop, {
    rfid: true,
    eyes: "hand",
    settings: { claim: { ahead: 1, leaseSeconds: 600 } },
  });
  const { machine, scanner } = floor;
  if (!machine || !scanner) throw new Error("no machine");
  for (const printer of floor.config.printers) printer.driver = driver;
  const start = () => stationOn(floor, { timing: { ...HASTY, completionMs: 1_500 }, patience: PATIENCE });
  let station: Running = await start();
  const believed = new Map<string, number>();
  try {
    for (const { printer, at, times, network, scan, restart } of steps) {
      const job = await shop.issue({ needs: ["qr", "rfid"], max_attempts: 20 });
      await until(() => jobAt(station, job.job_ref) !== undefined || station.state().printers[0]?.status === "blocked");
      if (printer !== "none") machine.fault(printer, { at, times, ...(printer === "paper-out" ? { after: 1, mid: 1 } : {}) });
      let n = 0;
      net.rule(() => badDays[network]((n += 1)));
      await new Promise((resolve) => setTimeout(resolve, 400));
      if (restart) {
        await station.end();
        station = await start();
      }
      await new Promise((resolve) => setTimeout(resolve, 400));
      machine.clear();
      net.rule(() => "pass");
      if (jobAt(station, job.job_ref)?.state === "PRINTED_ATTESTED") await scanner.scan(job.digital_link, { fault: scan });
      await mended(station, job, machine, believed);
    }
    await until(() => station.state().buffer_depth === 0, 60_000);
    for (const [ref, labels] of believed) await judge(shop, ref, labels);
    expect(station.state().quarantine).toEqual([]);
  } finally {
    await station.end();
    await net.end();
  }
}

type Machine = NonNullable<Awaited<ReturnType<typeof floorOf>>["machine"]>;
type Job = { job_ref: string; digital_link: string };

/** A truthful person: looks at what lies there, destroys what is asked, scans what is good. */
async function mended(
  station: Running,
  { job_ref: ref, digital_link: link }: Job,
  machine: Machine,
  believed: Map<string, number>,
): Promise<void> {
  const destroyed = new Set<number>();
  const lying = async () => (await lyingOf(machine, link)).filter((n) => !destroyed.has(n));
  await until(async () => {
    if (station.state().recent.some(({ job_ref, ended }) => job_ref === ref && ended === "sealed")) return true;
    const kind = asked(station, ref);
    const paper = await lying();
    if (kind === "destroy_earlier" || kind === "destroy_void") {
      for (const n of paper)
        if (kind === "destroy_earlier" || station.state().jobs.some(({ job_ref, stage }) => job_ref === ref && stage === "sent"))
          destroyed.add(n);
      await say(station, ref, "destroyed");
    }
    if (kind === "unknown_outcome" || kind === "attest") {
      const last = machine.labels.at(-1);
      if (paper.length > 0 && last?.tag?.epc) for (const n of paper) destroyed.add(n);
      await say(station, ref, paper.length > 0 ? "destroyed" : "not_printed");
    }
    if (kind === null && jobAt(station, ref)?.state === "PRINTED_ATTESTED") {
      if (paper.length !== 1) throw new Error(`attested, and ${paper.length} labels lie there`);
      await ask(station, "POST", "/api/scan", { text: link });
    }
    return false;
  }, 60_000);
  believed.set(ref, (await lying()).length);
}

async function judge(shop: Awaited<ReturnType<typeof printShop>>, ref: string, labels: number): Promise<void> {
  const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body as { data: { to: string; attempt: number }[] };
  expect(labels, `labels of ${ref} that nobody destroyed`).toBe(1);
  expect(data.filter(({ to }) => to === "SEALED")).toHaveLength(1);
  for (const { to, attempt } of data)
    if (to === "PRINTED_ATTESTED")
      expect(data.filter((other) => other.to === "SPOOL_SUBMITTED" && other.attempt === attempt)).toHaveLength(1);
}
