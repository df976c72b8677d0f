// A printer at full speed: the next label waits in it while one is moving. Each is still told by its own answer, and what befalls one makes nobody believe in the other.
import { afterAll, describe, expect, test } from "vitest";
import { agentConfigFrom } from "../../agent/config.ts";
import type { StationOptions } from "../../agent/station.ts";
import type { FloorOptions } from "../../fixtures/floor.ts";
import type { FaultName, Machine } from "../../fixtures/printers/machine.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startWorld } from "../../fixtures/world.ts";
import { ask, HASTY, lyingOf, running, say, sealed, stateInCloud, until } from "./floor.ts";

const w = await startWorld();
afterAll(() => w.end());
type Job = { job_ref: string; digital_link: string };
const LABELS = 6;
const FAST = { config: { inFlight: 3 }, printer: { scale: 1, speed: 6 } };

/** The first label moves once the second waits behind it, however long that takes to draw; says when it does. */
function second(machine: Machine | undefined): Promise<Machine> {
  if (!machine) throw new Error("this floor has no machine");
  const { consume } = machine;
  const waits = new Promise<Machine>((resolve) => machine.news.on("queued", () => machine.waiting() > 1 && resolve(machine)));
  machine.consume = async (...label) => {
    const mine = machine.generation();
    await waits;
    return mine === machine.generation() && consume(...label);
  };
  return waits;
}

/** Two labels are in it. */
async function atWork(t: Parameters<typeof running>[0], options: FloorOptions = {}, more: Partial<StationOptions> = {}) {
  const shop = await printShop(w);
  const station = await running(t, w.url, shop, { ...FAST, ...options }, more);
  const both = second(station.floor.machine);
  const items = (await shop.allocate(LABELS)).map((serial) => ({ gtin: shop.gtin, serial, max_attempts: 20 }));
  const jobs = (await shop.admin.post("/aidc/jobs/batch", { items })).body.jobs as Job[];
  return { shop, jobs, station, machine: await both };
}

test("labels follow one another in the printer, each attested by its own answer, printed once and scanned as its own", async (t) => {
  const { shop, jobs, station } = await atWork(t);
  for (const { job_ref: ref } of jobs) await sealed(shop, ref);
  expect((await station.floor.links()).toSorted()).toEqual(jobs.map(({ digital_link }) => digital_link).toSorted());
  for (const { job_ref: ref } of jobs) {
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[2].evidence.completion.grade).toMatch(/^[AB]$/);
  }
  await until(() => station.state().ledger.counts["sealed"] === LABELS);
  expect(station.state().ledger.open).toEqual([]);
});

describe.concurrent("where something breaks while two are in it", () => {
  const faults = ["power-off", "reset-at", "half-open", "fence-never", "fence-early", "foreign-writer", "paper-out", "odometer-reset", "dont-answer"] as const satisfies FaultName[]; // oxfmt-ignore
  test.for(faults)("%s: nothing is attested that didn't come out, and every serial ends on one label", { timeout: 240_000 }, async (fault, t) => {
    const patience = { blockedMs: 10_000, idleMs: 200, muteMs: 2_000, retryMs: [30], drainMs: 2_000 };
    const timing = { ...HASTY, answerMs: 2_000, completionMs: 6_000 }; // so that an honest printer on a busy machine isn't taken for a mute one
    const { shop, jobs, station, machine } = await atWork(t, { eyes: "hand" }, { timing, patience });
    machine.fault(fault, { at: 300 });
    /** The station has seen it, or it was one moment's. */
    const isSeen = () =>
      ["blocked", "offline"].includes(station.state().printers[0]?.status ?? "") ||
      station.state().jobs.some(({ ask: asked }) => asked !== null) ||
      machine.labels.some(({ isForeign }) => isForeign) ||
      !machine.has(fault);
    let seenAt = Infinity;
    const destroyed = new Set<number>();
    const lying = async (link: string) => (await lyingOf(machine, link)).filter((n) => !destroyed.has(n));
    await until(async () => {
      if (seenAt === Infinity && isSeen()) seenAt = Date.now();
      if (Date.now() - seenAt > 1_500) machine.clear(); // it has met it more than once by then
      const { jobs: now } = station.state();
      for (const { job_ref: ref, ask: asked, state, digital_link: link } of now) {
        if (asked === null && state !== "PRINTED_ATTESTED") continue;
        const paper = await lying(link);
        if (asked === null) {
          if (paper.length !== 1) throw new Error(`${ref} is attested, and ${paper.length} labels lie there`);
          await ask(station, "POST", "/api/scan", { text: link });
        } else {
          const told = await say(station, ref, paper.length > 0 ? "destroyed" : "not_printed");
          if (told.status < 300) for (const n of paper) destroyed.add(n); // what was asked a moment ago may have answered itself
        }
      }
      return now.length === 0 && (await Promise.all(jobs.map(({ job_ref }) => stateInCloud(shop, job_ref)))).every((state) => state === "SEALED");
    }, 200_000);
    expect(seenAt).toBeLessThan(Infinity);
    for (const { digital_link: link } of jobs) expect(await lying(link)).toHaveLength(1);
    expect(station.state().quarantine).toEqual([]);
  }); // oxfmt-ignore
});

test("only zpl can have more than one: the settings say so", () => {
  const printer = { name: "p", driver: "escpos", port: "tcp://127.0.0.1:9100", label: { widthMm: 50, heightMm: 25 }, inFlight: 2 };
  expect(() => agentConfigFrom({ key: "k", printers: [printer] })).toThrow("printers.0.inFlight is 1 for escpos");
});
