// A label that can't come out is taken out of its printer. That it never came out is told only where the printer, its queue or a person can know it.
import type { Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { asks } from "../../agent/attempt.ts";
import { openBuffer } from "../../agent/buffer.ts";
import { systemClock } from "../../agent/clock.ts";
import { startDevice } from "../../fixtures/device.ts";
import type { FloorOptions } from "../../fixtures/floor.ts";
import type { FaultName } from "../../fixtures/printers/machine.ts";
import { startZplPrinter } from "../../fixtures/printers/zpl.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { explainLeft, lookAfter, lying } from "../../fixtures/person.ts";
import { world } from "../world.ts";
import { ask, asked, floorOf, HASTY, jobAt, lineOf, type Running, running, say, stateInCloud, stationOn, until } from "./floor.ts";

const w = await world();
const IMPATIENT = { patience: { blockedMs: 200, idleMs: 200, muteMs: 200, retryMs: [50], drainMs: 500 } };
const isIn = (shop: Shop, ref: string, state: string) => until(async () => (await stateInCloud(shop, ref)) === state);
const isAsked = (station: Running, ref: string, kind: string) => until(() => asked(station, ref) === kind);
const wordsAt = (station: Running, ref: string) => jobAt(station, ref)?.ask?.words;
const inCloud = async (shop: Shop, ref: string) => (await shop.admin.get(`/aidc/jobs/${ref}`)).body;
const issued = (shop: Shop) => shop.issue() as Promise<{ job_ref: string; serial: string; digital_link: string }>;
const questionAt = (station: Running, ref: string) => {
  const { attempt_id, ask } = jobAt(station, ref) ?? {};
  return { attempt_id, since: ask?.since };
};
const AGAIN = /^it may still come out \(.+\): switch the printer off and on/;
const LOOK = /look (again|once more)$/;
/** And the cloud has heard all that came before. */
const isAskedIn = (station: Running, ref: string, words: RegExp) =>
  until(() => words.test(wordsAt(station, ref) ?? "") && station.state().buffer_depth === 0);
/** Said twice: once as it looks, once after making sure. */
async function saidTwice(shop: Shop, station: Running, ref: string, verdict: string) {
  expect((await say(station, ref, verdict)).status).toBe(200);
  await isAskedIn(station, ref, AGAIN);
  expect(await inCloud(shop, ref)).toMatchObject({ state: "SPOOL_SUBMITTED", attempt: 1 });
  expect((await say(station, ref, verdict)).status).toBe(200);
}

describe.concurrent("a receipt printer has no counter", () => {
  test.for([{}, { knowsGsH: false }])(
    "a label that was out before the cover opened is asked about, not printed again: %o",
    async (printer, t) => {
      const { shop, station } = await lineOf(t, w, { language: "escpos", eyes: "hand", printer }, IMPATIENT);
      const { machine } = station.floor;
      await until(() => station.state().printers[0]?.status === "ready");
      let isOpen = false;
      machine?.news.on("changed", () => {
        if (isOpen || machine.labels.length === 0) return;
        isOpen = true;
        machine.fault("head-open");
      });
      const { job_ref: ref, digital_link: link } = await issued(shop);
      await isAskedIn(station, ref, /whether this label came out before/);
      expect(asked(station, ref)).toBe("unknown_outcome");
      expect(await inCloud(shop, ref)).toMatchObject({ state: "SPOOL_SUBMITTED", attempt: 1 });
      expect(station.state().ledger.counts).toEqual({ unknown: 1 });
      machine?.clear();
      await until(() => station.floor.scanner?.listeners() === 1);
      await station.floor.scanner?.scan(link);
      await isIn(shop, ref, "SEALED");
      expect(await station.floor.links()).toEqual([link]);
    },
  );
});

describe.concurrent("a print queue keeps its jobs", () => {
  /** The label waits in the queue, and the agent begins anew. */
  async function begunAnew(t: Parameters<typeof running>[0]) {
    const shop = await printShop(w);
    const settings = { claim: { ahead: 4, leaseSeconds: 5 } };
    const first = await running(t, w.url, shop, { language: "ipp", eyes: "hand", settings });
    const { queue } = first.floor;
    await until(() => first.state().printers[0]?.status === "ready");
    queue?.set("held");
    const { job_ref: ref, serial, digital_link: link } = await issued(shop);
    await until(() => first.state().printers[0]?.status === "blocked");
    await first.end();
    const station = await stationOn(t, first.floor);
    await isAsked(station, ref, "unknown_outcome");
    return { shop, ref, serial, link, station, queue };
  }

  test("a label that it refuses, in whatever characters, is told of as refused", async (t) => {
    const { shop, station } = await lineOf(t, w, { language: "ipp", eyes: "hand" });
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.queue?.set("document-refused");
    const { job_ref: ref } = await shop.issue({ max_attempts: 1 });
    await until(() => jobAt(station, ref) === undefined && station.state().buffer_depth === 0 && station.store.ofJob(ref).length > 0);
    expect(station.state().quarantine).toEqual([]);
    await isIn(shop, ref, "DEAD_LETTER");
  });

  test("refuses it all, three labels are told of as refused, and the others wait until it takes them", async (t) => {
    const { shop, station } = await lineOf(t, w, { language: "ipp", eyes: "hand" }, { patience: { retryMs: [50] } });
    const { queue } = station.floor;
    await until(() => station.state().printers[0]?.status === "ready");
    queue?.set("document-refused");
    const refs = await Promise.all(Array.from({ length: 5 }, async () => (await shop.issue({ max_attempts: 1 })).job_ref));
    const dead = async () =>
      (await Promise.all(refs.map((ref) => stateInCloud(shop, ref)))).filter((state) => state === "DEAD_LETTER").length;
    await until(async () => (await dead()) === 3 && /Unsupported document-format/.test(station.state().printers[0]?.words ?? ""));
    await sleep(500); // of its patience ten times
    expect([await dead(), station.state().ledger.counts]).toEqual([3, {}]);
    queue?.set("none");
    await until(() => queue?.labels.length === 1); // which a person is asked about before the other one goes
    expect(await dead()).toBe(3);
  });

  test("a label whose job is voided while it waits there is cancelled: it doesn't come out once a person has found none", async (t) => {
    const { shop, ref, serial, station, queue } = await begunAnew(t);
    expect((await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial })).status).toBe(200);
    await isAsked(station, ref, "destroy_earlier");
    expect((await say(station, ref, "not_printed")).status).toBe(200);
    await until(() => station.state().ledger.counts["not_printed"] === 1);
    queue?.set("none"); // it goes on
    await until(() => station.state().buffer_depth === 0);
    expect([queue?.jobs().map(({ state }) => state), await station.floor.links()]).toEqual([["canceled"], []]);
    expect((await shop.admin.get("/aidc/orphans")).body.data).toEqual([]);
  });

  test("a label that waits in it is found by its name after a restart, and cancelled before another is printed", async (t) => {
    const { shop, ref, link, station, queue } = await begunAnew(t);
    expect((await say(station, ref, "not_printed")).status).toBe(200);
    await until(() => queue?.jobs()[0]?.state === "canceled");
    queue?.set("none");
    await until(() => (queue?.labels.length ?? 0) > 0);
    expect(queue?.jobs().map(({ state }) => state)).toEqual(["canceled", "completed"]);
    expect(await station.floor.links()).toEqual([link]);
    expect(await inCloud(shop, ref)).toMatchObject({ attempt: 2, duplicate_risk: false });
  });
});

describe.concurrent("a person says that there is no label, and the printer doesn't say that it has dropped it", () => {
  /** Not all of the label got to its printer, which answers nothing from then on. */
  async function fallenSilent(t: Parameters<typeof running>[0]) {
    const { shop, station } = await lineOf(t, w, { eyes: "hand" });
    await until(() => station.state().printers[0]?.ceiling === "A");
    station.floor.machine?.fault("reset-at", { at: 100 });
    const { job_ref: ref } = await issued(shop);
    await isAsked(station, ref, "unknown_outcome");
    station.floor.machine?.fault("dont-answer");
    return { shop, station, ref };
  }

  test.for(["not_printed", "destroyed"])("%s holds once nothing can come out any more", async (verdict, t) => {
    const { shop, station, ref } = await fallenSilent(t);
    expect((await say(station, ref, verdict)).status).toBe(200);
    await isAskedIn(station, ref, AGAIN);
    expect(await inCloud(shop, ref)).toMatchObject({ state: "SPOOL_SUBMITTED", attempt: 1 });
    station.floor.machine?.clear(); // it was switched off and on
    expect((await say(station, ref, verdict)).status).toBe(200);
    await until(() => jobAt(station, ref)?.attempt === 2);
    expect(await inCloud(shop, ref)).toMatchObject({ duplicate_risk: false });
    const { data } = (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body;
    expect(data.find(({ to }: { to: string }) => to === "FAILED")).toMatchObject({ actor: { kind: "operator", id: "op-7" } });
  });

  test("where the next attempt is another station's, this one's ledger says what is to be done about the label, until a person explains it", async (t) => {
    const { shop, station, ref } = await fallenSilent(t);
    await ask(station, "POST", "/api/pause");
    await saidTwice(shop, station, ref, "not_printed");
    const other = await running(t, w.url, { ...shop, device: await shop.newDevice("line 2") });
    await isAsked(other, ref, "destroy_earlier");
    const words = expect.stringMatching(/^an operator found no label, but .+: look for it, and explain it here$/);
    expect(station.state()).toMatchObject({ jobs: [], ledger: { open: [{ state: "unknown", words }] } });
    expect((await say(other, ref, "not_printed")).status).toBe(200);
    await isIn(shop, ref, "SEALED");
    await explainLeft({ station, floor: station.floor, destroyed: new Set(), asked: 0 });
    expect(station.state().ledger.counts).toEqual({ explained: 1 });
  });

  test("a queue that can't be asked: the next attempt is told that a label may exist", async (t) => {
    const { shop, station } = await lineOf(t, w, { language: "ipp", eyes: "hand" });
    const { queue } = station.floor;
    await until(() => station.state().printers[0]?.status === "ready");
    queue?.set("held");
    const { job_ref: ref, digital_link: link } = await issued(shop);
    await until(() => jobAt(station, ref)?.stage === "sent");
    queue?.set("http-500");
    await isAsked(station, ref, "attest");
    await saidTwice(shop, station, ref, "not_printed");
    await until(async () =>
      (await shop.admin.get(`/aidc/jobs/${ref}/history`)).body.data.some(({ to }: { to: string }) => to === "FAILED"),
    );
    queue?.set("none"); // it is back, and prints what it held
    await isAsked(station, ref, "destroy_earlier");
    expect(await inCloud(shop, ref)).toMatchObject({ attempt: 2, duplicate_risk: true });
    expect(await station.floor.links()).toEqual([link]); // and no second one before somebody has destroyed it
  });

  /** Its job is voided while the printer is off, and a label of it may lie there. */
  async function voidedWhileOff(t: Parameters<typeof running>[0]) {
    const shop = await printShop(w);
    const settings = { claim: { ahead: 4, leaseSeconds: 5 } };
    const patience = { ...IMPATIENT.patience, retryMs: [4_000] };
    const station = await running(t, w.url, shop, { eyes: "hand", settings }, { patience });
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref, serial } = await issued(shop);
    await isAsked(station, ref, "unknown_outcome");
    station.floor.machine?.fault("power-off"); // it can't be told to drop anything
    expect((await say(station, ref, "not_printed")).status).toBe(200);
    expect((await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial })).status).toBe(200);
    await isAsked(station, ref, "destroy_earlier");
    return { station, ref };
  }

  test("a job that was voided meanwhile: its label is an orphan, once, and stays one", async (t) => {
    const { station, ref } = await voidedWhileOff(t);
    station.floor.machine?.clear();
    await until(() => station.store.orphans()[0]?.work.held === undefined); // what it held is dropped
    expect([asked(station, ref), station.state().ledger.counts]).toEqual(["destroy_earlier", { orphan: 1 }]);
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await until(() => station.state().ledger.counts["destroyed"] === 1);
  });

  test("nor has anybody made sure of an orphan that may still come out", async (t) => {
    const { station, ref } = await voidedWhileOff(t);
    expect((await say(station, ref, "not_printed")).status).toBe(200);
    await isAskedIn(station, ref, AGAIN);
    expect([asked(station, ref), station.state().ledger.counts]).toEqual(["destroy_earlier", { orphan: 1 }]);
    station.floor.machine?.clear();
    await until(() => wordsAt(station, ref)?.endsWith("look again") ?? false); // its label lies there
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await until(() => station.state().ledger.counts["destroyed"] === 1);
  });

  test("a printer that only listens never stalls its lane: the next attempt is told that a label may exist", async (t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
    floor.machine?.fault("dont-answer");
    const station = await stationOn(t, floor);
    const { job_ref: ref } = await issued(shop);
    await isAsked(station, ref, "attest");
    await saidTwice(shop, station, ref, "not_printed");
    await isAsked(station, ref, "destroy_earlier");
    expect(await inCloud(shop, ref)).toMatchObject({ attempt: 2, duplicate_risk: true });
    expect(station.state().ledger.counts).toEqual({ unknown: 1 });
  });
});

describe.concurrent("a label that comes out after a person has looked", () => {
  type Kind = { options?: FloorOptions; fault?: FaultName };
  const kinds: Record<string, Kind> = {
    "with a counter": {},
    "whose counter didn't say how it stood": { fault: "no-counter" },
    "whose counter was set back": { fault: "odometer-reset" },
    "without a counter": { options: { printer: { counts: false } } },
    "of receipts": { options: { language: "escpos" } },
  };
  /** It waits in a printer that is open, the station begins anew, a person looks, and only then it comes out. */
  async function lookedTooEarly(t: Parameters<typeof floorOf>[0], { options, fault }: Kind) {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand", ...options });
    const { machine } = floor;
    if (fault === "no-counter") machine?.fault(fault);
    const first = await stationOn(t, floor);
    await until(() => first.state().printers[0]?.status === "ready");
    machine?.fault("slow-reader", { bytes: 16, ms: 5 }); // time to open it
    const { job_ref: ref, digital_link: link } = await issued(shop);
    await until(() => jobAt(first, ref)?.state === "SPOOL_SUBMITTED");
    machine?.fault("head-open");
    machine?.clear("slow-reader");
    await until(() => first.state().printers[0]?.status === "blocked" && jobAt(first, ref)?.stage === "sent");
    await first.end();
    machine?.clear("no-counter");
    const station = await stationOn(t, floor, IMPATIENT);
    await isAsked(station, ref, "unknown_outcome");
    const { attempt_id: id = "" } = jobAt(station, ref) ?? {};
    if (!options) await until(() => station.store.must(id).work.counter !== undefined); // a person takes longer to get there
    if (fault === "odometer-reset") machine?.fault(fault);
    machine?.clear("head-open");
    await machine?.printed(1);
    const question = questionAt(station, ref);
    expect((await say(station, ref, "not_printed", question)).status).toBe(200);
    await isAskedIn(station, ref, LOOK);
    return { shop, station, ref, link, question };
  }

  test.for(Object.keys(kinds))("is asked about again, by a printer %s", async (name, t) => {
    const { shop, station, ref, link, question } = await lookedTooEarly(t, kinds[name] as Kind);
    const another = await say(station, ref, "not_printed", question); // another person looked with the first, and says so now
    expect([another.status, another.body.error.details]).toEqual([409, { ask: "unknown_outcome", allowed: asks.unknown_outcome.allowed }]);
    expect(await inCloud(shop, ref)).toMatchObject({ state: "SPOOL_SUBMITTED", attempt: 1 });
    await until(() => station.floor.scanner?.listeners() === 1);
    await station.floor.scanner?.scan(link);
    await isIn(shop, ref, "SEALED");
    expect(await station.floor.links()).toEqual([link]);
  });

  test("is asked about again where a person destroyed the scrap of it", async (t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
    const first = await stationOn(t, floor);
    await until(() => first.state().printers[0]?.status === "ready");
    floor.machine?.fault("paper-out", { after: 1, mid: 1 });
    const { job_ref: ref, digital_link: link } = await issued(shop);
    await until(() => first.state().printers[0]?.status === "blocked");
    await first.end();
    const station = await stationOn(t, floor, IMPATIENT);
    await until(() => station.store.inHand()[0]?.work.stood !== undefined);
    floor.machine?.clear(); // new paper: it prints the whole label again
    await floor.machine?.printed(1);
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await isAskedIn(station, ref, LOOK);
    expect((await say(station, ref, "good")).status).toBe(200);
    await until(() => station.floor.scanner?.listeners() === 1);
    await station.floor.scanner?.scan(link);
    await isIn(shop, ref, "SEALED");
    expect(await floor.links()).toEqual([link]);
  });

  /** Its job ends while the printer stands still in the middle of it and doesn't answer; a person is asked before the printer is told to drop it. */
  async function askedInFlight(t: Parameters<typeof floorOf>[0]) {
    const shop = await printShop(w);
    const settings = { claim: { ahead: 4, leaseSeconds: 5 } };
    const station = await running(t, w.url, shop, { eyes: "hand", settings }, { timing: { ...HASTY, completionMs: 60_000 } });
    const { machine } = station.floor;
    await until(() => station.state().printers[0]?.status === "ready");
    machine?.news.once("queued", () => {
      machine.fault("paper-out", { after: 1, mid: 1 });
      machine.fault("dont-answer");
    });
    const { job_ref: ref, serial } = await issued(shop);
    await isIn(shop, ref, "SPOOL_SUBMITTED");
    expect((await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial })).status).toBe(200);
    await isAsked(station, ref, "destroy_earlier");
    expect([machine?.scraps.length, machine?.labels.length]).toEqual([1, 0]);
    const comesOut = async () => {
      machine?.clear("paper-out"); // new paper: it prints the whole label again
      await machine?.printed(1);
      machine?.fault("power-off");
      machine?.clear();
    };
    return { station, ref, comesOut };
  }

  test("is asked about again where its job went on, and a person destroyed the scrap of it", async (t) => {
    const { station, ref, comesOut } = await askedInFlight(t);
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await comesOut();
    await isAskedIn(station, ref, LOOK);
    expect([asked(station, ref), station.state().ledger.counts]).toEqual(["destroy_earlier", { orphan: 1 }]);
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await until(() => station.state().ledger.counts["destroyed"] === 1 && station.state().jobs.length === 0);
  });

  test("is asked about anew where its job went on: who looked before that, and says so late, looks again", async (t) => {
    const { station, ref, comesOut } = await askedInFlight(t);
    const question = questionAt(station, ref);
    await comesOut();
    await isAskedIn(station, ref, LOOK);
    const late = await say(station, ref, "not_printed", question);
    expect([late.status, late.body.error?.details]).toEqual([409, { ask: "destroy_earlier", allowed: asks.destroy_earlier.allowed }]);
    expect(station.state().ledger.counts).toEqual({ orphan: 1 });
    expect((await say(station, ref, "destroyed", questionAt(station, ref))).status).toBe(200);
    await until(() => station.state().ledger.counts["destroyed"] === 1 && station.state().jobs.length === 0);
  });

  test("is asked about again where its job went on: the simulated person found nothing and says so, and destroys it then", async (t) => {
    const { station, ref, comesOut } = await askedInFlight(t);
    const line = { station, floor: station.floor, destroyed: new Set<number>(), asked: 0 };
    await lookAfter(line);
    await comesOut();
    await until(async () => {
      await lookAfter(line);
      return station.state().jobs.length === 0;
    });
    expect(await lying(line)).toEqual([]);
    const said = station.lines.flatMap((text) => new RegExp(`says of ${ref}: (\\w+)`).exec(text)?.[1] ?? []);
    expect(said).toEqual(["not_printed", "destroyed"]);
    expect(station.state().ledger.counts).toEqual({ destroyed: 1 });
  });

  test("doesn't come out any more where the simulated person was told to switch the printer off and on", async (t) => {
    const shop = await printShop(w);
    const settings = { claim: { ahead: 4, leaseSeconds: 5 } };
    const station = await running(t, w.url, shop, { eyes: "hand", settings }, IMPATIENT);
    const line = { station, floor: station.floor, destroyed: new Set<number>(), asked: 0 };
    const { machine } = station.floor;
    await until(() => station.state().printers[0]?.status === "ready");
    machine?.news.once("queued", () => {
      machine.fault("head-open");
      machine.fault("half-open");
    });
    const { job_ref: ref, serial } = await issued(shop);
    await isIn(shop, ref, "SPOOL_SUBMITTED");
    expect((await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial })).status).toBe(200);
    await until(() => AGAIN.test(wordsAt(station, ref) ?? ""));
    await until(async () => {
      await lookAfter(line);
      return station.state().jobs.length === 0;
    });
    machine?.clear();
    await machine?.idle();
    expect(await lying(line)).toEqual([]);
  });

  test.for(Object.keys(kinds))("and who looked again is believed, by a printer %s", async (name, t) => {
    const { shop, station, ref } = await lookedTooEarly(t, kinds[name] as Kind);
    const question = questionAt(station, ref);
    expect((await say(station, ref, "not_printed", question)).status).toBe(200);
    await until(() => jobAt(station, ref)?.attempt === 2);
    expect(await inCloud(shop, ref)).toMatchObject({ duplicate_risk: false });
    expect((await say(station, ref, "destroyed", question)).status).toBe(409); // of the attempt that is over
  });
});

describe.concurrent("another printer in the place of the one that was sent the label", () => {
  /** Its counter stands where the first one's stood before the label, which came out of that one and of which nobody was told. */
  type Spare = NonNullable<Parameters<typeof startZplPrinter>[0]>;
  async function exchanged(t: Parameters<typeof floorOf>[0], fault?: FaultName, spare: Spare = { dpi: 300 }) {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand", settings: { claim: { ahead: 4, leaseSeconds: 5 } } });
    const { machine } = floor;
    if (!machine) throw new Error("this floor has no machine");
    if (fault) machine.fault(fault);
    const first = await stationOn(t, floor);
    await until(() => first.state().printers[0]?.status === "ready");
    const before = machine.counters.labels;
    machine.fault("fence-never");
    const { job_ref: ref, serial } = await issued(shop);
    await isAsked(first, ref, "unknown_outcome");
    if (fault) await first.end();
    await machine.stop();
    const other = await startZplPrinter({ scale: 0, ...spare, port: machine.port });
    t.onTestFinished(other.stop);
    other.counters.labels = before;
    const station = fault ? await stationOn(t, floor) : first;
    t.onTestFinished(station.end);
    return { shop, station, ref, serial, other };
  }
  const OTHER = /^it may still come out \(another printer answers in its place/;
  const isDone = (station: Running, ref: string) =>
    until(() => station.state().buffer_depth === 0 && jobAt(station, ref)?.stage !== "closing");

  test.for(["not_printed", "destroyed"])(
    "proves nothing by its counter: who says %s makes sure, and the next attempt warns",
    async (verdict, t) => {
      const { shop, station, ref, other } = await exchanged(t);
      expect((await say(station, ref, verdict)).status).toBe(200);
      await isDone(station, ref);
      expect(wordsAt(station, ref)).toMatch(OTHER);
      expect(await inCloud(shop, ref)).toMatchObject({ state: "SPOOL_SUBMITTED", attempt: 1 });
      expect((await say(station, ref, verdict)).status).toBe(200);
      await until(() => jobAt(station, ref)?.attempt === 2);
      expect([asked(station, ref), (await inCloud(shop, ref)).duplicate_risk]).toEqual(["destroy_earlier", true]);
      expect(other.labels).toHaveLength(0);
    },
  );

  test("nor does that of a spare of the same model and firmware, which tells its own number", async (t) => {
    const { station, ref } = await exchanged(t, undefined, { unit: "SIM0000002" });
    expect((await say(station, ref, "not_printed")).status).toBe(200);
    await isDone(station, ref);
    expect(wordsAt(station, ref)).toMatch(OTHER);
  });

  test("nor is its counter kept for a label of which nobody knew how the counter stood before it", async (t) => {
    const { station, ref } = await exchanged(t, "no-counter");
    await until(() => station.state().printers[0]?.words.startsWith("waits for an answer") ?? false); // it was looked at by then
    expect(station.store.inHand()[0]?.work.counter).toBeUndefined();
    expect((await say(station, ref, "not_printed")).status).toBe(200);
    await isDone(station, ref);
    expect(wordsAt(station, ref)).toMatch(OTHER);
  });

  test("nor does it drop an orphan that another one holds", async (t) => {
    const { shop, station, ref, serial } = await exchanged(t);
    expect((await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial })).status).toBe(200);
    await isAsked(station, ref, "destroy_earlier");
    await until(() => station.store.orphans()[0]?.work.held === undefined);
    expect(wordsAt(station, ref)).toMatch(OTHER);
    expect((await say(station, ref, "not_printed")).status).toBe(200);
    await until(() => station.state().jobs.length === 0);
  });
});

describe.concurrent("a printer that was renamed in the settings", () => {
  type Before = (station: Running, shop: Shop) => Promise<string>;
  const renamed = async (t: Parameters<typeof floorOf>[0], before: Before, changes: object = { name: "zd621r" }) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand", settings: { claim: { ahead: 4, leaseSeconds: 5 } } });
    const first = await stationOn(t, floor);
    const ref = await before(first, shop);
    await first.end();
    floor.machine?.clear();
    const printers = floor.config.printers.map((printer) => ({ ...printer, ...changes }));
    const station = await stationOn(t, { ...floor, config: { ...floor.config, printers } });
    return { shop, station, ref };
  };
  const whoseOutcomeNobodyKnows = async (station: Running, shop: Shop) => {
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref } = await issued(shop);
    await isAsked(station, ref, "unknown_outcome");
    return ref;
  };

  test("what is said of the label that it printed is told all the same, and the next attempt warns", async (t) => {
    const { shop, station, ref } = await renamed(t, whoseOutcomeNobodyKnows);
    await saidTwice(shop, station, ref, "not_printed");
    await isAsked(station, ref, "destroy_earlier");
    expect(await inCloud(shop, ref)).toMatchObject({ attempt: 2, duplicate_risk: true });
  });

  test("what was said of it before the station ended is told too", async (t) => {
    const { shop, station, ref } = await renamed(t, async (first, its) => {
      const name = await whoseOutcomeNobodyKnows(first, its);
      first.store.change(jobAt(first, name)?.attempt_id ?? "", {
        stage: "closing",
        work: { closing: { verdict: "misprint", operator: "op-7", reason: "an operator found a misprint" } },
      });
      return name;
    });
    await isAsked(station, ref, "destroy_earlier");
    expect(await inCloud(shop, ref)).toMatchObject({ attempt: 2, duplicate_risk: true });
  });

  /** Its lane was busy, or couldn't reach its printer, when that was said. */
  const saidOfOrphan = (first: Running, name: string, verdict: "destroyed" | "not_printed", more: object = {}) => {
    const store = openBuffer(first.floor.config.dataDir, systemClock);
    const { attemptId: id = "" } = store.ofJob(name)[0] ?? {};
    store.change(id, { ...more, work: { held: true, answered: { verdict, operator: "op-7" } } });
    store.close();
  };

  test("what was said of an orphan before the station ended is asked once more, and told then", async (t) => {
    const { shop, station, ref } = await renamed(t, async (first, its) => {
      const name = await whoseOutcomeNobodyKnows(first, its);
      const { serial } = jobAt(first, name) ?? {};
      expect((await its.admin.post(`/products/${its.product.id}/void`, { reason: "recalled", serial })).status).toBe(200);
      await isAsked(first, name, "destroy_earlier");
      await first.end();
      saidOfOrphan(first, name, "destroyed");
      return name;
    });
    await isAskedIn(station, ref, AGAIN);
    expect((await say(station, ref, "destroyed")).status).toBe(200);
    await until(() => station.state().jobs.length === 0);
    expect(station.state().recent).toMatchObject([{ job_ref: ref, ended: "orphan, destroyed" }]);
    expect(station.state().ledger).toMatchObject({ counts: { destroyed: 1 }, open: [] });
    await until(() => station.state().buffer_depth === 0);
    expect((await shop.admin.get("/aidc/orphans")).body.data).toEqual([]); // labels that are still to be destroyed
  });

  test("an orphan of which nobody had found anything may lie in it still: it comes out, and is asked about", async (t) => {
    const { station, ref } = await renamed(t, async (first, its) => {
      await until(() => first.state().printers[0]?.status === "ready");
      const { machine } = first.floor;
      machine?.news.once("queued", () => machine.fault("paper-out"));
      const { job_ref: name } = await issued(its);
      await until(() => first.state().printers[0]?.status === "blocked" && jobAt(first, name)?.stage === "sent");
      await first.end();
      saidOfOrphan(first, name, "not_printed", { stage: "orphan" });
      return name;
    });
    await until(() => station.floor.machine?.labels.length === 1);
    expect([asked(station, ref), station.state().ledger.open.length]).toEqual(["destroy_earlier", 1]);
  });

  const drawnAndNotSent: Before = async (first, shop) => {
    await until(() => first.state().printers[0]?.status === "ready");
    const { noteBegun } = first.store;
    first.store.noteBegun = (begun) => {
      first.floor.machine?.fault("dont-answer"); // before it is asked where its counter stands
      noteBegun(begun);
    };
    const { job_ref: ref } = await issued(shop);
    await until(() => first.state().printers[0]?.status === "offline");
    return ref;
  };

  test("a label that it had drawn and not sent goes to whom it fits", async (t) => {
    const { shop, ref } = await renamed(t, drawnAndNotSent);
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect(await inCloud(shop, ref)).toMatchObject({ attempt: 2, duplicate_risk: false });
  });

  test("one that would be drawn otherwise now isn't printed under what was said of it before", async (t) => {
    const { shop, ref } = await renamed(t, drawnAndNotSent, { dpi: 300 });
    await isIn(shop, ref, "PRINTED_ATTESTED");
    const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
    expect(items[0].evidence.render_manifest).toMatchObject({ dpi: 300 });
  });
});

test.concurrent.for([4, 1])(
  "a long label that a person said isn't there is asked about again where it was on its way out as the printer was told to drop it, at %i inches a second",
  async (speed, t) => {
    const shop = await printShop(w);
    const printer = { scale: 1, speed, heightMm: 150 };
    const config = { label: { widthMm: 50, heightMm: 150 } };
    const options = { ...IMPATIENT, timing: { ...HASTY, completionMs: 200 } };
    const station = await running(t, w.url, shop, { eyes: "hand", printer, config }, options);
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault("fence-never");
    const { job_ref: ref } = await issued(shop);
    await isAsked(station, ref, "unknown_outcome");
    expect((await say(station, ref, "not_printed")).status).toBe(200);
    await isAskedIn(station, ref, LOOK);
    expect(station.floor.machine?.labels).toHaveLength(1);
    expect(await inCloud(shop, ref)).toMatchObject({ state: "SPOOL_SUBMITTED", attempt: 1 });
  },
);

test.concurrent("the line over which a label left is dropped once a person said that it isn't there: nothing of it may come out of the network later", async (t) => {
  const shop = await printShop(w);
  const lines: { socket: Socket; heard: string }[] = [];
  const printer = await startDevice((socket) => {
    const line = { socket, heard: "" };
    lines.push(line);
    socket.on("data", (bytes: Buffer) => {
      line.heard += bytes.toString("latin1");
      if (line.heard.includes("\u001dv0")) socket.pause(); // its paper ends in the label
    });
  });
  t.onTestFinished(printer.end);
  const station = await running(t, w.url, shop, { language: "escpos", eyes: "hand", port: () => printer.url }, IMPATIENT);
  const { job_ref: ref } = await issued(shop);
  await isAsked(station, ref, "attest");
  const line = lines.find(({ heard }) => heard.includes("\u001dv0"));
  let fault: unknown;
  line?.socket.on("error", (error) => (fault = error));
  const isDropped = () => (line?.socket.write("?"), fault !== undefined);
  await sleep(6_000); // it had its time to say goodbye
  expect(isDropped()).toBe(false);
  expect((await say(station, ref, "not_printed")).status).toBe(200);
  await isAskedIn(station, ref, AGAIN);
  await t.expect.poll(isDropped, { timeout: 5_000 }).toBe(true);
});
