// A printer at full speed: the next label waits in it while one is moving. Each is still told by its own answer, and what befalls one makes nobody believe in the other.
import { describe, expect, test } from "vitest";
import { agentConfigFrom } from "../../agent/config.ts";
import type { StationOptions } from "../../agent/station.ts";
import { type FloorOptions, linkOn } from "../../fixtures/floor.ts";
import type { FaultName, Machine } from "../../fixtures/printers/machine.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import {
  ask,
  HASTY,
  jobAt,
  lineOf,
  lyingOf,
  type Running,
  running,
  say,
  sealed,
  sessionAt,
  stateInCloud,
  stationOn,
  until,
} from "./floor.ts";

const w = await world();
type Job = { job_ref: string; digital_link: string };
const LABELS = 6;
const FAST = { config: { inFlight: 3 }, printer: { scale: 1, speed: 6 } };

/** The first label moves once the second waits behind it, however long that takes to draw. */
function together(machine: Machine): void {
  const { consume, news } = machine;
  let areTwo = false;
  news.on("queued", () => (areTwo ||= machine.waiting() > 1));
  machine.consume = async (...label) => {
    const mine = machine.generation();
    while (!areTwo && mine === machine.generation())
      await new Promise<void>((resolve) => void news.once("queued", resolve).once("changed", resolve));
    return mine === machine.generation() && consume(...label);
  };
}

const STILL_MS = 60_000;
type State = ReturnType<Running["state"]>;
const shown = ({ jobs }: State) => jobs.map(({ job_ref, attempt, stage, ask: asking }) => [job_ref, attempt, stage, asking?.words]);
const refused = ({ quarantine }: State) => quarantine.map(({ job_ref, code }) => [job_ref, code]);
/** Looks once, at all of it. Throws as soon as the cloud has refused what was said, or once nothing moves any more; a broken rule needn't be waited for. */
function watched(station: Running): () => State {
  let last = "";
  let movedAt = Date.now();
  return () => {
    const state = station.state();
    if (state.quarantine.length > 0) expect(refused(state)).toEqual([]);
    const now = JSON.stringify(shown(state));
    if (now !== last) [last, movedAt] = [now, Date.now()];
    else if (Date.now() - movedAt > STILL_MS) throw new Error(`nothing moves any more: ${now}`);
    return state;
  };
}
/** Where everything goes well nobody is asked. */
function expectNoAsk(state: State): void {
  expect(shown(state).filter(([, , , words]) => words !== undefined)).toEqual([]);
}

/** Two labels are in it. */
async function atWork(t: Parameters<typeof running>[0], options: FloorOptions = {}, more: Partial<StationOptions> = {}) {
  const { shop, station } = await lineOf(t, w, { ...FAST, ...options }, more);
  const { machine } = station.floor;
  if (!machine) throw new Error("this floor has no machine");
  together(machine);
  const items = (await shop.allocate(LABELS)).map((serial) => ({ gtin: shop.gtin, serial, max_attempts: 20 }));
  const jobs = (await shop.admin.post("/aidc/jobs/batch", { items })).body.jobs as Job[];
  const areSealed = async () =>
    (await Promise.all(jobs.map(({ job_ref }) => stateInCloud(shop, job_ref)))).every((state) => state === "SEALED");
  const check = watched(station);
  await until(() => {
    expectNoAsk(check()); // with no second one behind it the first never moves
    return machine.waiting() > 1;
  });
  return { shop, jobs, areSealed, station, machine, check };
}

test("labels follow one another in the printer, each attested by its own answer, printed once and scanned as its own", async (t) => {
  const { shop, jobs, areSealed, station, check } = await atWork(t, {}, { timing: { ...HASTY, completionMs: 15_000 } });
  await until(async () => {
    expectNoAsk(check());
    return areSealed();
  });
  expect((await station.floor.links()).toSorted()).toEqual(jobs.map(({ digital_link }) => digital_link).toSorted());
  for (const { job_ref: ref } of jobs) {
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[2].evidence.completion.grade).toMatch(/^[AB]$/);
  }
  await until(() => station.state().ledger.counts["sealed"] === LABELS);
  expect(station.state().ledger.open).toEqual([]);
});

test("a label without an answer of its own is asked about, though the ones before it had theirs and the counter moved by all of them", async (t) => {
  const { jobs, station, machine, check } = await atWork(t, { eyes: "hand" }, { timing: { ...HASTY, completionMs: 6_000 } });
  machine.news.on("changed", () => {
    if (machine.labels.length === 2 && !machine.has("fence-never")) machine.fault("fence-never"); // from the third on
  });
  await until(() => machine.labels.length > 2);
  const link = await linkOn(machine.labels[2]!.dots);
  const ref = jobs.find(({ digital_link }) => digital_link === link)?.job_ref ?? "";
  const what = () => jobAt(station, ref);
  await until(() => {
    check();
    return what()?.ask !== null || what()?.state === "PRINTED_ATTESTED";
  });
  expect(what()).toMatchObject({ state: "SPOOL_SUBMITTED", ask: { kind: "unknown_outcome" } });
});

test("a label with a tag is alone in the printer, so that what comes out void is known to be its own", async (t) => {
  const shop = await printShop(w);
  const station = await running(t, w.url, shop, { ...FAST, rfid: true, printer: { scale: 1, speed: 1 } }); // slow enough for another behind it
  const { machine } = station.floor;
  let most = 0;
  machine?.news.on("queued", () => (most = Math.max(most, machine.waiting())));
  await until(() => station.state().printers[0]?.status === "ready");
  const serials = await shop.allocate(4);
  const items = serials.map((serial, i) => ({ gtin: shop.gtin, serial, needs: i % 2 === 0 ? ["qr", "rfid"] : ["qr"], priority: 4 - i }));
  const jobs = (await shop.admin.post("/aidc/jobs/batch", { items })).body.jobs as Job[];
  for (const { job_ref: ref } of jobs) await sealed(shop, ref);
  expect([most, machine?.labels.length]).toEqual([1, 4]);
});

test("what came out behind a label that nobody heard out is no stranger after a restart", async (t) => {
  const { jobs, station, machine } = await atWork(t, { eyes: "hand", config: { inFlight: 2 } }, { timing: HASTY });
  machine.fault("dont-answer"); // nor tells how its counter stands while a person is asked
  const links = jobs.map(({ digital_link }) => digital_link);
  const asking = () => station.state().jobs.filter(({ ask: asked }) => asked?.kind === "unknown_outcome");
  await until(() => asking().length === 2 && machine.labels.length === 2);
  const behind = asking().find(({ digital_link: link }) => link === links[1]);
  await until(() => station.state().printers[0]?.status === "offline"); // it was looked at in vain
  expect(await ask(station, "POST", "/api/scan", { text: links[1], session: await sessionAt(station) })).toMatchObject({
    body: { moved: true },
  });
  await until(() => jobAt(station, behind?.job_ref ?? "") === undefined);
  await station.end();
  machine.clear();
  const again = await stationOn(t, station.floor);
  await until(() => again.store.inHand().some(({ work }) => work.stood !== undefined));
  expect(again.state().ledger.counts).toEqual({ unknown: 1, sealed: 1 });
});

describe.concurrent("where something breaks while two are in it", () => {
  const faults = ["power-off", "reset-at", "half-open", "fence-never", "fence-early", "foreign-writer", "paper-out", "odometer-reset", "dont-answer"] as const satisfies FaultName[]; // oxfmt-ignore
  test.for(faults)("%s: nothing is attested that didn't come out, and every serial ends on one label", { timeout: 240_000 }, async (fault, t) => {
    const blockedMs = fault === "paper-out" ? 500 : 10_000;
    const patience = { blockedMs, idleMs: 200, muteMs: 2_000, retryMs: [30], drainMs: 2_000 };
    const timing = { ...HASTY, answerMs: 2_000, completionMs: 6_000 }; // so that an honest printer on a busy machine isn't taken for a mute one
    const { jobs, areSealed, station, machine, check } = await atWork(t, { eyes: "hand" }, { timing, patience });
    machine.fault(fault, { at: 300 });
    /** The station has seen it, or it was one moment's. */
    const isSeen = ({ printers, jobs: now }: State) =>
      ["blocked", "offline"].includes(printers[0]?.status ?? "") ||
      now.some(({ ask: asked }) => asked !== null) ||
      machine.labels.some(({ isForeign }) => isForeign) ||
      !machine.has(fault);
    const areGiven = () => station.lines.filter((line) => line.includes('"event":"failed"')).length > 1;
    const isMet = fault === "paper-out" ? areGiven : isSeen; // there is paper again once both are given back: neither may come out then
    let seenAt = Infinity;
    const destroyed = new Set<number>();
    const lying = async (link: string) => (await lyingOf(machine, link)).filter((n) => !destroyed.has(n));
    await until(async () => {
      const state = check();
      if (seenAt === Infinity && isMet(state)) seenAt = Date.now();
      if (Date.now() - seenAt > 1_500) machine.clear(); // it has met it more than once by then
      for (const { job_ref: ref, ask: asked, state: came, digital_link: link } of state.jobs) {
        if (asked === null && came !== "PRINTED_ATTESTED") continue;
        const paper = await lying(link);
        if (asked === null) {
          if (paper.length !== 1) throw new Error(`${ref} is attested, and ${paper.length} labels lie there`);
          await ask(station, "POST", "/api/scan", { text: link });
        } else {
          const told = await say(station, ref, paper.length > 0 ? "destroyed" : "not_printed");
          if (told.status < 300) for (const n of paper) destroyed.add(n); // what was asked a moment ago may have answered itself
        }
      }
      return state.jobs.length === 0 && areSealed();
    }, 200_000);
    expect(seenAt).toBeLessThan(Infinity);
    for (const { digital_link: link } of jobs) expect(await lying(link)).toHaveLength(1);
    check();
  }); // oxfmt-ignore
});

test("only zpl can have more than one: the settings say so", () => {
  const printer = { name: "p", driver: "escpos", port: "tcp://127.0.0.1:9100", label: { widthMm: 50, heightMm: 25 }, inFlight: 2 };
  expect(() => agentConfigFrom({ key: "k", printers: [printer] })).toThrow("printers.0.inFlight is 1 for escpos");
});
