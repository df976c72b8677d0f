// What befalls a printer while its label waits, for a scan or for people: seen, told, and in nobody's way.
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { afterHearing, type Clock, systemClock } from "../../agent/clock.ts";
import { CONNECT_MS } from "../../agent/port.ts";
import { LOOK_MS } from "../../agent/press.ts";
import type { StationOptions } from "../../agent/station.ts";
import { startDeaf } from "../../fixtures/deaf.ts";
import { startDevice } from "../../fixtures/device.ts";
import type { FloorOptions, SimulatedFloor } from "../../fixtures/floor.ts";
import type { Passing } from "../../fixtures/network.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import {
  ask,
  asked,
  begunInVain,
  type Ends,
  floorOf,
  HASTY,
  jobAt,
  type Running,
  say,
  sealed,
  sessionAt,
  stateInCloud,
  stationOn,
  statuses,
  until,
} from "./floor.ts";

const w = await world();
const PATIENCE = { idleMs: 500, muteMs: 300, retryMs: [100_000], drainMs: 2_000 }; // who slept as long after a printer that is off would be seen
const wordsAt = (station: Running) => station.state().printers[0]?.words;
const counterOf = (station: Running) => station.store.meta("odometer:printer");

const isIn = (shop: Shop, ref: string, state: string) => until(async () => (await stateInCloud(shop, ref)) === state);

/** A line to a printer, how often it was asked over it how it is, and what it answers to that held up. */
async function heardLine(t: Ends) {
  let url = "";
  let looks = 0;
  let isOpen = false;
  let gate = Promise.resolve();
  const between = await startDevice((agent) => {
    isOpen = false;
    const { hostname, port } = new URL(url);
    const machine = connect({ host: hostname, port: Number(port), noDelay: true });
    machine.on("error", () => {}); // seen as a closed connection
    machine.on("close", () => agent.destroy());
    machine.on("data", (bytes: Buffer) => {
      void gate.then(() => {
        isOpen = false;
        agent.write(bytes);
      });
    });
    agent.on("data", (bytes: Buffer) => {
      isOpen = true;
      looks += bytes.toString("latin1").split("~HS").length - 1;
    });
    agent.pipe(machine);
  });
  t.onTestFinished(between.end);
  /** From now on; until the function that it gives is called. */
  const holdUp = () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    return resolve;
  };
  return { port: (to: string) => ((url = to), between.url), looks: () => looks, isUnanswered: () => isOpen, holdUp };
}
const isOfPrinter = (line: string) => line.includes('"event":"printer"');
const nonsense = (station: Running) => ask(station, "POST", "/api/scan", { text: `nonsense ${performance.now()}` });

/** Its label has come out, and waits. */
async function waiting(t: Ends, options: FloorOptions = {}, more: Partial<StationOptions> = {}) {
  const shop = await printShop(w);
  const station = await stationOn(t, await floorOf(t, w.url, shop, { eyes: "hand", ...options }), { patience: PATIENCE, ...more });
  const { job_ref: ref, digital_link: text } = await shop.issue();
  if (options.language === "ipp") {
    await until(() => asked(station, ref) === "attest");
    await say(station, ref, "good");
  }
  await isIn(shop, ref, "PRINTED_ATTESTED");
  const rests = () => until(() => statuses(station) === "ready" && wordsAt(station) === `waits for the scan of ${ref}`);
  await rests();
  return { shop, station, ref, text, rests, machine: station.floor.machine };
}

describe.concurrent("while a label waits for its scan", () => {
  type Floor = Pick<SimulatedFloor, "machine" | "queue">;
  const troubles: [options: FloorOptions, trouble: string, befalls: (floor: Floor) => void, mended: (floor: Floor) => void, seen: RegExp][] = [
    [{}, "is off", ({ machine }) => machine?.fault("power-off"), ({ machine }) => machine?.clear(), /^offline: /],
    [{}, "is open", ({ machine }) => machine?.fault("head-open"), ({ machine }) => machine?.clear(), /^blocked: its head is open$/],
    [{}, "says nothing", ({ machine }) => machine?.fault("dont-answer"), ({ machine }) => machine?.clear(), /^offline: /],
    [{ language: "escpos" }, "is off", ({ machine }) => machine?.fault("power-off"), ({ machine }) => machine?.clear(), /^offline: /],
    [{ language: "escpos" }, "says nothing", ({ machine }) => machine?.fault("dont-answer"), ({ machine }) => machine?.clear(), /^offline: it answered before/],
    [{ language: "escpos", printer: { knowsGsH: false } }, "is open", ({ machine }) => machine?.fault("head-open"), ({ machine }) => machine?.clear(), /^blocked: its cover is open$/],
    [{ language: "ipp" }, "is out of labels", ({ queue }) => queue?.set("media-empty"), ({ queue }) => queue?.set("none"), /^blocked: no labels$/],
    [{ language: "ipp" }, "says nothing", ({ queue }) => queue?.set("silent"), ({ queue }) => queue?.set("none"), /^blocked: .*no answer within/],
  ]; // oxfmt-ignore
  test.for(troubles)(
    "of %o a printer that %s is told of as such, and given no job until it is back",
    async ([options, , befalls, mended, seen], t) => {
      const { shop, station, ref, text, rests } = await waiting(t, options);
      befalls(station.floor);
      await until(() => seen.test(`${statuses(station)}: ${wordsAt(station)}`));
      const inCloud = async () => (await shop.admin.get(`/devices/${shop.device.id}`)).body.printers[0].status as string;
      await until(async () => seen.test(await inCloud()));
      const next = await shop.issue();
      station.wake();
      await sleep(300); // a claim takes some milliseconds
      expect(await stateInCloud(shop, next.job_ref)).toBe("QUEUED");
      mended(station.floor);
      await rests();
      await isIn(shop, next.job_ref, "CLAIMED");
      expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
      await sealed(shop, ref);
      await until(async () => ["SPOOL_SUBMITTED", "PRINTED_ATTESTED"].includes(await stateInCloud(shop, next.job_ref)));
      expect(station.state().ledger.counts["unexplained"]).toBeUndefined();
    },
  );

  test("a printer that was off when the station began is looked at, too", async (t) => {
    const { shop, station, machine } = await waiting(t);
    await station.end();
    machine?.fault("power-off");
    const next = await shop.issue();
    const again = await stationOn(t, station.floor, { patience: PATIENCE });
    await until(() => statuses(again) === "offline");
    expect(await stateInCloud(shop, next.job_ref)).toBe("QUEUED");
    machine?.clear();
    await isIn(shop, next.job_ref, "CLAIMED");
  });

  test("one that hangs at the edge of a peeler is no fault, and none follows it before it is taken", async (t) => {
    const line = await heardLine(t);
    const { shop, station, ref, text, rests, machine } = await waiting(t, { port: line.port });
    machine?.fault("not-taken");
    const before = line.looks();
    await until(() => line.looks() > before + 1);
    await rests();
    const next = await shop.issue();
    await isIn(shop, next.job_ref, "CLAIMED");
    await ask(station, "POST", "/api/scan", { text });
    await sealed(shop, ref);
    await until(() => station.state().printers[0]?.faults[0] === "label-not-taken");
    expect([statuses(station), jobAt(station, next.job_ref)?.stage]).toEqual(["blocked", "waiting"]);
    machine?.clear();
    await isIn(shop, next.job_ref, "PRINTED_ATTESTED");
  });

  test("its scan is sealed at once, and the station ends, whatever the printer doesn't answer", async (t) => {
    const line = await heardLine(t);
    const timing = { ...HASTY, answerMs: 100_000 };
    const { shop, station, ref, text } = await waiting(t, { port: line.port }, { timing });
    line.holdUp();
    await until(line.isUnanswered);
    const began = performance.now();
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
    await sealed(shop, ref);
    await station.end();
    expect(performance.now() - began).toBeLessThan(20_000);
    expect(station.lines.filter(isOfPrinter)).toEqual([]);
  });

  test("nor does the end of a station wait for a printer that doesn't answer its call", async (t) => {
    const deaf = await startDeaf();
    t.onTestFinished(deaf.end);
    const shop = await printShop(w);
    let isCalled = false;
    const after: Clock["after"] = (ms, act) => (ms === CONNECT_MS ? ((isCalled = true), () => {}) : systemClock.after(ms, act));
    const floor = await floorOf(t, w.url, shop, { eyes: "hand", port: () => deaf.url });
    const station = await stationOn(t, floor, { clock: { ...systemClock, after } });
    await until(() => isCalled);
    await station.end();
    expect(station.lines.filter(isOfPrinter)).toEqual([]);
  });

  test("nor does the end of a station wait for what the printer doesn't say when it is opened", async (t) => {
    const line = await heardLine(t);
    const { station } = await waiting(t, { port: line.port });
    await station.end();
    line.holdUp();
    const again = await stationOn(t, station.floor, { patience: PATIENCE, timing: { ...HASTY, answerMs: 100_000 } });
    await until(line.isUnanswered);
    const began = performance.now();
    await again.end();
    expect(performance.now() - began).toBeLessThan(20_000);
    expect(again.lines.filter(isOfPrinter)).toEqual([]);
  });

  test("what is heard while it is looked at is acted upon once that is over", async (t) => {
    let isEndless = false; // a wait for the next look
    const clock: Clock = {
      now: systemClock.now,
      after: (ms, act) => (isEndless && ms > LOOK_MS / 2 && ms <= LOOK_MS ? () => {} : systemClock.after(ms, act)),
    };
    const line = await heardLine(t);
    const { shop, station, ref, text } = await waiting(t, { port: line.port }, { clock, timing: { ...HASTY, answerMs: 60_000 } });
    const next = await shop.issue();
    await until(() => jobAt(station, next.job_ref) !== undefined);
    const release = line.holdUp();
    isEndless = true;
    for (; !line.isUnanswered(); await sleep(50)) await nonsense(station);
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
    await sealed(shop, ref);
    await until(() => station.state().sealing === 0 && station.state().buffer_depth === 0);
    release();
    await until(() => jobAt(station, next.job_ref)?.stage === "printed", 20_000);
  });

  test("looks are as rare as at any other time, however much is heard; what somebody feeds is counted once", async (t) => {
    const line = await heardLine(t);
    const { station, machine } = await waiting(t, { port: line.port });
    const fed = Number(counterOf(station)) + 1;
    if (machine) machine.counters.labels = fed;
    const [before, began] = [line.looks(), performance.now()];
    for (; line.looks() < before + 3; await sleep(5)) await nonsense(station);
    const seconds = (performance.now() - began) / 1_000;
    expect(seconds).toBeGreaterThan(1.5 * (LOOK_MS / 1_000)); // the first of three may be due at once
    expect([counterOf(station), station.state().ledger.counts["unexplained"]]).toEqual([String(fed), 1]);
  });
});

/** Its printer is asked how the counter stands, on a line that carries no answer before `release`. */
async function askedInVain(t: Ends) {
  const shop = await printShop(w);
  const { port, holdUp } = await heardLine(t);
  let release = () => {};
  const hush = () => void (release = holdUp());
  return { shop, ...(await begunInVain(t, w.url, shop, 60_000, { port, hush })), release: () => release() };
}

test("a job that is cancelled while its printer is asked how it stands, as on a slow line, isn't printed any more", async (t) => {
  const { shop, station, net, before, job, release } = await askedInVain(t);
  expect((await shop.admin.post(`/aidc/jobs/${job.job_ref}/cancel`, {})).status).toBe(200);
  net.rule(() => "pass");
  await until(() => jobAt(station, job.job_ref)?.stage === "orphan");
  release();
  await until(() => jobAt(station, job.job_ref) === undefined && station.state().buffer_depth === 0);
  expect(await station.floor.links()).toEqual([before.digital_link]);
  expect(station.state().ledger.counts).toEqual({ sealed: 1, not_printed: 1 });
});

test("nor one whose drawing the cloud refuses meanwhile: none came out, as the ledger says", async (t) => {
  const { station, net, before, job, release } = await askedInVain(t);
  const isOfIt = ({ path, body }: Passing) => /\/results?$/.test(path) && `${path} ${body}`.includes(job.job_ref);
  net.rule((passing) => (isOfIt(passing) ? { status: 422, code: "EVIDENCE_INVALID" } : "pass"));
  await until(() => station.state().quarantine.length === 1 && station.state().ledger.counts["sealed"] === 1);
  expect(station.state().ledger.counts).toEqual({ sealed: 1, unknown: 1 });
  release();
  await until(() => station.state().ledger.counts["not_printed"] === 1);
  expect([await station.floor.links(), station.state().ledger.counts]).toEqual([[before.digital_link], { sealed: 1, not_printed: 1 }]);
});

test("a print queue that was there and answers nothing when it is opened anew is told of in its own words", async (t) => {
  const shop = await printShop(w);
  const station = await stationOn(t, await floorOf(t, w.url, shop, { eyes: "hand", language: "ipp" }), {
    patience: { ...PATIENCE, idleMs: 100_000, probeAgainMs: 100, retryMs: [100] },
  });
  t.onTestFinished(station.end);
  await until(() => statuses(station) === "ready");
  await station.floor.queue?.end();
  await shop.issue();
  station.wake();
  await until(() => statuses(station) !== "ready" && statuses(station) !== "printing");
  for (let looks = 0; looks < 20; looks += 1) {
    await sleep(150);
    expect(wordsAt(station)).not.toContain("it answered before");
  }
  await until(() => wordsAt(station)?.includes("ECONNREFUSED") ?? false);
});

describe.concurrent("a printer that hangs up on a line that is quiet for long isn't taken for one that is off", () => {
  const QUIET_MS = 1_000;
  async function hangingUp(t: Ends, idleMs: number, quietMs = QUIET_MS) {
    const shop = await printShop(w);
    let url = "";
    let calls = 0;
    let hungUp = 0;
    let isEndedAtNext = false;
    let endedBeforeLabel = 0;
    const between = await startDevice((agent) => {
      calls += 1;
      const { hostname, port } = new URL(url);
      const machine = connect({ host: hostname, port: Number(port), noDelay: true });
      machine.on("error", () => {});
      machine.pipe(agent).pipe(machine); // both ends go when either does
      let counts = 0; // since it was last looked at: the second is asked just before a label
      agent.on("data", (bytes: Buffer) => {
        const text = bytes.toString("latin1");
        if (isEndedAtNext) agent.end();
        isEndedAtNext = false;
        if (text.includes("~HS")) counts = 0;
        if (text.includes("odometer")) counts += 1;
        if (counts < 2 || endedBeforeLabel === 0) return;
        endedBeforeLabel -= 1;
        agent.end();
      });
      let cancel = () => {};
      const stirred = () => {
        cancel();
        cancel = afterHearing(systemClock, quietMs, () => {
          hungUp += 1;
          machine.end();
        });
      };
      stirred();
      for (const side of [agent, machine]) side.on("data", stirred);
      agent.on("close", () => cancel());
    });
    t.onTestFinished(between.end);
    const station = await stationOn(t, await floorOf(t, w.url, shop, { eyes: "hand", port: (to) => ((url = to), between.url) }), {
      patience: { ...PATIENCE, idleMs, retryMs: [100] },
    });
    t.onTestFinished(station.end);
    await until(() => statuses(station) === "ready");
    return {
      shop,
      station,
      calls: () => calls,
      hungUp: () => hungUp,
      endAtNext: () => (isEndedAtNext = true),
      endBeforeLabel: (times: number) => (endedBeforeLabel = times),
    };
  }

  test("when it is looked at", async (t) => {
    const { shop, station, calls } = await hangingUp(t, 2.5 * QUIET_MS);
    await until(() => calls() >= 3);
    const { job_ref: ref } = await shop.issue();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect(station.lines.filter(isOfPrinter)).toEqual([]);
  });

  test("when a label is sent", async (t) => {
    const { shop, station, hungUp } = await hangingUp(t, 100_000);
    await until(() => hungUp() > 0);
    const { job_ref: ref } = await shop.issue();
    station.wake();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect(station.lines.filter(isOfPrinter)).toEqual([]);
  });

  test("while a label is drawn", async (t) => {
    const { shop, station, endAtNext } = await hangingUp(t, 100_000, 100_000);
    endAtNext();
    const { job_ref: ref } = await shop.issue();
    station.wake();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    expect(station.lines.filter(isOfPrinter)).toEqual([]);
  });

  test("but from the second time in a row that nothing of a label could be sent it is", async (t) => {
    const { shop, station, endBeforeLabel } = await hangingUp(t, 100_000, 100_000);
    endBeforeLabel(3);
    const { job_ref: ref } = await shop.issue();
    station.wake();
    await isIn(shop, ref, "PRINTED_ATTESTED");
    const told = station.lines.filter(isOfPrinter).map((line) => (JSON.parse(line) as { status: string }).status);
    expect(told).toEqual(["offline", "ready", "offline", "ready"]);
  });

  test("while a test label is asked for", async (t) => {
    const { station, endAtNext } = await hangingUp(t, 100_000, 100_000);
    const session = await sessionAt(station);
    endAtNext();
    const { status, body } = await ask(station, "POST", "/api/printers/printer/test", { session });
    expect([status, body]).toEqual([200, { words: expect.stringMatching(/^confirmed: /) }]);
    expect(station.lines.filter(isOfPrinter)).toEqual([]);
  });

  test("when a test label is asked for", async (t) => {
    const { station, hungUp } = await hangingUp(t, 100_000);
    const session = await sessionAt(station);
    for (let presses = 0; presses < 2; presses += 1) {
      const before = hungUp();
      await until(() => hungUp() > before);
      await sleep(100); // for the station to hear of it
      const { status, body } = await ask(station, "POST", "/api/printers/printer/test", { session });
      expect([status, body]).toEqual([200, { words: expect.stringMatching(/^confirmed: /) }]);
    }
    expect(station.lines.filter(isOfPrinter)).toEqual([]);
  });
});

describe.concurrent("while a person is asked for a label", () => {
  async function unknown(t: Ends, idleMs = PATIENCE.idleMs) {
    const line = await heardLine(t);
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand", port: line.port });
    floor.machine?.fault("fence-never");
    const station = await stationOn(t, floor, { patience: { ...PATIENCE, idleMs } });
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => asked(station, ref) === "unknown_outcome");
    const rests = () => until(() => statuses(station) === "ready" && wordsAt(station) === `waits for an answer about ${ref}`);
    await rests();
    return { line, shop, station, ref, text, rests, machine: floor.machine };
  }

  test("its printer that is open, or off, is told of as such, until it is back", async (t) => {
    const { shop, station, ref, text, rests, machine } = await unknown(t);
    machine?.clear();
    machine?.fault("head-open");
    await until(() => statuses(station) === "blocked" && wordsAt(station) === "its head is open");
    machine?.clear();
    await rests();
    machine?.fault("power-off");
    await until(() => statuses(station) === "offline");
    machine?.clear();
    await rests();
    await say(station, ref, "good");
    expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
    await sealed(shop, ref);
  });

  test("looks leave the counter to the question", async (t) => {
    const { line, station, ref, machine } = await unknown(t);
    const { counter, stood } = station.store.inHand()[0]?.work ?? {};
    const isLookedAt = async (times: number) => {
      const before = line.looks();
      await until(() => line.looks() >= before + times);
    };
    await isLookedAt(2);
    if (machine) machine.counters.labels += 1;
    await isLookedAt(2);
    expect([counterOf(station), station.state().ledger.counts]).toEqual(["null", { unknown: 1 }]);
    expect(station.store.inHand()[0]?.work).toMatchObject({ counter, stood });
    await say(station, ref, "not_printed"); // it has come out since
    await until(() => jobAt(station, ref)?.ask?.words.startsWith("the printer's counter has moved") ?? false);
  });

  test("nobody knows how the counter stands, and it isn't asked for that again and again", async (t) => {
    const { line, station } = await unknown(t, 100_000);
    const before = line.looks();
    for (const end = performance.now() + 5_000; performance.now() < end; await sleep(5)) await nonsense(station);
    expect(line.looks() - before).toBeLessThanOrEqual(2); // when it was opened anew
  });
});
