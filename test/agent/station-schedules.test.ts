// Whatever goes wrong, in whatever order: nothing is attested that didn't come out, and no serial is on two labels that anybody believes in.
import { type Arbitrary, array, assert, asyncProperty, boolean, constantFrom, integer, nat, record } from "fast-check";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { startNetwork } from "../../fixtures/network.ts";
import type { FaultName } from "../../fixtures/printers/machine.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startWorld } from "../../fixtures/world.ts";
import { asked, ask, floorOf, HASTY, jobAt, type Running, say, stationOn, until } from "./floor.ts";

const w = await startWorld();
afterAll(() => w.end());

type Step = { printer: FaultName | "none"; at: number; times: number; network: "well" | "lossy" | "cut"; restart: boolean };
const PRINTER_FAULTS = [
  "none", "reset-at", "end-at", "stop-reading-at", "half-open", "power-off", "dont-answer", "fence-never", "fence-twice", "fence-older", "fence-early",
  "foreign-writer", "paper-out", "head-open", "paused", "rfid-void", "epc-shift", "odometer-reset",
] as const satisfies (FaultName | "none")[]; // oxfmt-ignore
const step: Arbitrary<Step> = record({
  printer: constantFrom(...PRINTER_FAULTS),
  at: nat(15_000),
  times: integer({ min: 1, max: 3 }),
  network: constantFrom("well", "well", "lossy", "cut"),
  restart: boolean(),
});

const PATIENCE = { blockedMs: 300, idleMs: 200, muteMs: 200, retryMs: [30], drainMs: 500 };
const RUNS = 5;

test(
  "no schedule of faults attests a label that didn't come out, and every label is sealed or explained",
  { timeout: 300_000 },
  async () => {
    await assert(asyncProperty(array(step, { minLength: 2, maxLength: 4 }), holds), { numRuns: RUNS, endOnFailure: true });
  },
);

async function holds(steps: Step[]): Promise<void> {
  const shop = await printShop(w);
  const net = await startNetwork(() => w.url);
  const floor = await floorOf({ onTestFinished }, net.url, shop, {
    rfid: true,
    eyes: "hand",
    settings: { claim: { ahead: 1, leaseSeconds: 600 } },
  });
  const { machine } = floor;
  if (!machine) throw new Error("no machine");
  const start = () => stationOn(floor, { timing: { ...HASTY, completionMs: 1_500 }, patience: PATIENCE });
  let station: Running = await start();
  const believed = new Map<string, number>();
  try {
    for (const { printer, at, times, network, restart } of steps) {
      const job = await shop.issue({ needs: ["qr", "rfid"], max_attempts: 20 });
      await until(() => jobAt(station, job.job_ref) !== undefined || station.state().printers[0]?.status === "blocked");
      if (printer !== "none") machine.fault(printer, { at, times, ...(printer === "paper-out" ? { after: 1, mid: 1 } : {}) });
      if (network === "cut") net.cut();
      let n = 0;
      net.rule(() => (network === "lossy" && (n += 1) % 3 === 0 ? "lose" : "pass"));
      await new Promise((resolve) => setTimeout(resolve, 400));
      if (restart) {
        await station.end();
        station = await start();
      }
      await new Promise((resolve) => setTimeout(resolve, 400));
      machine.clear();
      net.rule(() => "pass");
      net.mend();
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
  const { decode } = await import("../../agent/decode.ts");
  const { pictureOf } = await import("../../agent/bitmap.ts");
  const destroyed = new Set<number>();
  const lying = async (): Promise<number[]> => {
    const found: number[] = [];
    for (const { n, dots, isVoid, isForeign } of machine.labels)
      if (!isVoid && !isForeign && !destroyed.has(n) && (await decode(pictureOf(dots)))[0]?.text === link) found.push(n);
    return found;
  };
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
      expect(paper.length, `attested, and ${paper.length} labels lie there`).toBe(1);
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
