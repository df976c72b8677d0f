// A clock that is hours off, and one that is set back while the station works: said, not suffered.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { steady, systemClock } from "../../agent/clock.ts";
import { spanOf } from "../../agent/cloud-time.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import { ask, floorOf, jobAt, lineBehindNet, lineOf, netTo, running, sealed, stateInCloud, stationOn, until } from "./floor.ts";

const w = await world();
const H = 3_600_000;
const LEASE_S = 600; // by itself no lease is renewed while a test waits, nor over on the slowest machine

/** The machine's clock, as wrong as wanted: set by `turn`, while by `pass` time goes by. */
function wrongBy(ms: number) {
  let off = ms;
  let passed = 0;
  const clock = { ...systemClock, now: () => Date.now() + off + passed, uptime: () => performance.now() + passed };
  return { clock, turn: (by: number) => void (off += by), pass: (by: number) => void (passed += by) };
}

describe.concurrent("a clock that is off", () => {
  test.for([
    ["two hours ahead", 2 * H, "2 h ahead of"],
    ["two hours behind", -2 * H, "2 h behind"],
    ["two days ahead, which is past every envelope's end", 48 * H, "48 h ahead of"],
  ] as const)("by %s seals its labels all the same, and says so", async ([, off, says], t) => {
    const { shop, station } = await lineOf(t, w, {}, { clock: wrongBy(off).clock });
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    const words = `this station's clock is ${says} the cloud's: set it`;
    expect((await ask(station, "GET", "/healthz")).body).toEqual({ status: "degraded", notices: [{ code: "clock_off", words }] });
    expect(station.lines.filter((line) => line.includes('"event":"clock"') && line.includes(words))).toHaveLength(1);
    expect((await ask(station, "GET", "/metrics")).body).toMatch(/^imprimatur_agent_notices 1$/m);
    expect(await station.floor.links()).toHaveLength(1);
  });
});

test.concurrent("a proxy that dates what passes two days ahead makes no envelope old: labels are sealed, and it is said", async (t) => {
  const { shop, net, station } = await lineBehindNet(t, w);
  net.ahead(48 * H);
  await until(() => station.state().notices.some(({ code }) => code === "clock_off"));
  const { job_ref: ref } = await shop.issue();
  await until(() => station.state().recent.length + station.state().quarantine.length > 0);
  expect(station.state().quarantine).toEqual([]);
  await sealed(shop, ref);
});

test.concurrent("a clock that is set back while labels are under way keeps the leases alive and delays nothing", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const { clock, turn, pass } = wrongBy(0);
  const station = await running(t, net.url, shop, { eyes: "hand", settings: { claim: { ahead: 2, leaseSeconds: LEASE_S } } }, { clock });
  const first = await shop.issue({ priority: 2 });
  const second = await shop.issue({ priority: 1 });
  await until(() => jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED");
  turn(-2 * H);
  await until(() => station.lines.some((line) => line.includes("the clock was set back by 2 h")));
  const beats = () => net.passed.filter(({ path, status }) => path.endsWith("/heartbeat") && status === 200).length;
  for (let n = 0; n < 2; n += 1) {
    const before = beats();
    pass(LEASE_S * 600); // more than half of it is over
    await until(() => beats() > before);
  }
  expect(
    station
      .state()
      .notices.map(({ code }) => code)
      .toSorted(),
  ).toEqual(["clock_off", "clock_went_back"]);
  await ask(station, "POST", "/api/scan", { text: first.digital_link });
  await sealed(shop, first.job_ref);
  await until(() => jobAt(station, second.job_ref)?.state === "PRINTED_ATTESTED");
  turn(2 * H);
  await ask(station, "POST", "/api/scan", { text: second.digital_link });
  await sealed(shop, second.job_ref);
  expect(await station.floor.links()).toEqual([first.digital_link, second.digital_link]);
});

test.concurrent("a clock that is set right by days ends no label: what is printed keeps its lease, what waits is printed", async (t) => {
  const own = await world({}, t.onTestFinished);
  const shop = await printShop(own);
  const net = await netTo(t, own);
  const { clock, turn } = wrongBy(-60 * H);
  const station = await running(t, net.url, shop, { eyes: "hand", settings: { claim: { ahead: 2, leaseSeconds: LEASE_S } } }, { clock });
  const first = await shop.issue({ priority: 2 });
  const second = await shop.issue({ priority: 1 });
  await until(() => jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED" && jobAt(station, second.job_ref) !== undefined);
  await until(() => station.state().buffer_depth === 0); // what is reported renews leases, too
  turn(60 * H);
  const beats = () => net.passed.filter(({ path, status }) => path.endsWith("/heartbeat") && status === 200).length;
  await until(() => beats() > 1);
  own.later(LEASE_S * 900);
  turn(LEASE_S * 900);
  const before = beats();
  await until(() => beats() > before + 1);
  await ask(station, "POST", "/api/scan", { text: first.digital_link });
  await sealed(shop, first.job_ref);
  await until(() => jobAt(station, second.job_ref)?.state === "PRINTED_ATTESTED");
  expect(jobAt(station, second.job_ref)?.attempt).toBe(1);
  expect(await station.floor.links()).toEqual([first.digital_link, second.digital_link]);
});

test.concurrent("a clock that is set forward takes no label back sooner out of a printer that waits for paper", async (t) => {
  const shop = await printShop(w);
  const { clock, turn } = wrongBy(0);
  const station = await running(t, w.url, shop, { eyes: "hand" }, { clock });
  const { machine } = station.floor;
  await until(() => station.state().printers[0]?.status === "ready");
  machine?.fault("paper-out", { after: 1 });
  const { job_ref: ref } = await shop.issue({ max_attempts: 1 });
  await until(() => jobAt(station, ref)?.state === "SPOOL_SUBMITTED" && station.state().printers[0]?.status === "blocked");
  turn(H);
  await new Promise((resolve) => setTimeout(resolve, 2_500)); // it has looked by then
  machine?.clear();
  await until(() => jobAt(station, ref)?.state !== "SPOOL_SUBMITTED");
  expect(jobAt(station, ref)).toMatchObject({ state: "PRINTED_ATTESTED", attempt: 1 });
});

test.concurrent("a start after the clock was set back goes on from what is written down: a label printed before it can be scanned", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
  const ahead = await stationOn(t, floor, { clock: wrongBy(2 * H).clock });
  const { job_ref: ref, digital_link: text } = await shop.issue();
  await until(() => jobAt(ahead, ref)?.state === "PRINTED_ATTESTED");
  await ahead.end();
  const station = await stationOn(t, floor);
  expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
  await sealed(shop, ref);
});

test.concurrent("no lease is believed after a start before the cloud has confirmed it", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const floor = await floorOf(t, net.url, shop, { eyes: "hand", settings: { claim: { ahead: 2, leaseSeconds: 600 } } });
  const first = await stationOn(t, floor);
  const label = await shop.issue({ priority: 2 });
  const next = await shop.issue({ priority: 1 });
  await until(() => jobAt(first, label.job_ref)?.state === "PRINTED_ATTESTED" && jobAt(first, next.job_ref) !== undefined);
  await first.end();
  net.rule(({ path }) => (path.endsWith("/heartbeat") ? "cut" : "pass"));
  const second = await stationOn(t, floor);
  await ask(second, "POST", "/api/scan", { text: label.digital_link });
  await until(() => second.state().printers[0]?.words.includes("still ours") ?? false);
  expect(await floor.links()).toEqual([label.digital_link]);
  net.rule(() => "pass");
  await until(() => jobAt(second, next.job_ref)?.state === "PRINTED_ATTESTED");
});

test.concurrent("a claim that nobody heard answered before the clock was set right brings no lease: the job may be another's by now", async (t) => {
  const own = await world({}, t.onTestFinished);
  const shop = await printShop(own);
  const net = await netTo(t, own);
  const floor = await floorOf(t, net.url, shop);
  net.rule(({ path }) => (path.endsWith("/claim/batch") ? "lose" : "pass"));
  const claims = () => net.passed.filter(({ path }) => path.endsWith("/claim/batch"));
  const ahead = await stationOn(t, floor, { clock: wrongBy(2 * H).clock });
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await stateInCloud(shop, ref)) === "CLAIMED");
  const asked = claims().length;
  await until(() => claims().length > asked); // it has seen that nobody answered, and asked again
  await ahead.end();
  own.later(2 * LEASE_S * 1_000);
  const other = await shop.newDevice("line 2");
  await other.claim({ station: "line-1" });
  net.rule(() => "pass");
  const before = claims().length;
  const station = await stationOn(t, floor);
  await until(() => claims().length > before + 1 || station.state().jobs.length > 0);
  expect(station.state().jobs).toEqual([]);
  expect(await floor.links()).toEqual([]);
});

test.concurrent("nor does one that is answered after a start whose clock doesn't know how long the station was off", async (t) => {
  const own = await world({}, t.onTestFinished);
  const shop = await printShop(own);
  const net = await netTo(t, own);
  const floor = await floorOf(t, net.url, shop, { eyes: "hand" });
  net.rule(({ path }) => (path.endsWith("/claim/batch") ? "lose" : "pass"));
  const first = await stationOn(t, floor);
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await stateInCloud(shop, ref)) === "CLAIMED");
  const claims = () => net.passed.filter(({ path }) => path.endsWith("/claim/batch")).length;
  const asked = claims();
  await until(() => claims() > asked); // it has seen that nobody answered, and asked again
  await first.end();
  own.later(2 * LEASE_S * 1_000); // by its own clock no time has passed
  const other = await shop.newDevice("line 2");
  await until(async () => (await other.api.post("/aidc/jobs/claim", { station: "line-1" })).status === 200);
  net.rule(() => "pass");
  const station = await stationOn(t, floor);
  const { store } = station;
  t.onTestFinished(station.end);
  await until(() => store.ofJob(ref).some(({ ended, stage }) => ended === "stale" || stage === "orphan"));
  expect(await floor.links()).toEqual([]);
});

test.concurrent("what waits is let go once the station has stood still for four of its leases, however long it waited for its turn before", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const { clock, turn } = wrongBy(0);
  const station = await running(t, net.url, shop, { eyes: "hand", settings: { claim: { ahead: 2, leaseSeconds: LEASE_S } } }, { clock });
  const first = await shop.issue({ priority: 2 });
  const { job_ref: ref } = await shop.issue({ priority: 1 });
  await until(() => jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED" && jobAt(station, ref) !== undefined);
  const waiting = () => station.store.ofJob(ref)[0];
  const rounds = () => net.passed.filter(({ path }) => path.endsWith("/aidc/station")).length; // each begins so where minutes have passed
  const twoLeases = async () => {
    for (let n = 0; n < 3; n += 1) {
      const before = { round: rounds(), leaseUntil: waiting()?.leaseUntil ?? 0 };
      turn((2 * LEASE_S * 1_000) / 3);
      station.wake();
      await until(() => rounds() > before.round && ((waiting()?.leaseUntil ?? 0) > before.leaseUntil || waiting()?.ended !== null));
    }
  };
  for (let n = 0; n < 3; n += 1) await twoLeases();
  await ask(station, "POST", "/api/pause");
  await twoLeases();
  expect(waiting()?.ended).toBeNull();
  turn(3 * LEASE_S * 1_000);
  await until(() => waiting()?.ended === "let go");
});

test.concurrent("a clock that is months behind makes nothing old: what was sealed a moment ago is still known after the next start", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop);
  const { clock } = wrongBy(-60 * 24 * H);
  const first = await stationOn(t, floor, { clock });
  const { job_ref: ref } = await shop.issue();
  const known = (station: { state: typeof first.state }) => station.state().recent.map(({ job_ref }) => job_ref);
  await until(() => known(first).includes(ref));
  await first.end();
  const station = await stationOn(t, floor, { clock });
  await until(() => station.state().notices.some(({ code }) => code === "clock_off")); // what time it is in the cloud is known
  await new Promise((resolve) => setTimeout(resolve, 1_500)); // more than a look for what is over
  expect(known(station)).toEqual([ref]);
});

test("the station's own time never goes back, passes as fast as the clock's, and closes up", () => {
  let wall = 1_000_000;
  const told: number[] = [];
  const clock = steady({ now: () => wall, after: systemClock.after }, (ms) => told.push(ms));
  let last = clock.now();
  const to = (ms: number) => {
    wall = ms;
    const now = clock.now();
    expect(now).toBeGreaterThanOrEqual(last);
    expect(Number.isInteger(now)).toBe(true);
    last = now;
    return now;
  };
  expect(to(1_010_000)).toBe(1_010_000);
  expect(to(410_000)).toBe(1_010_000);
  expect(to(420_000)).toBe(1_019_500);
  expect(clock.ahead()).toBe(599_500);
  expect(told).toEqual([600_000]);
  for (let i = 1; i <= 1_000; i += 1) to(420_000 + i * 60_000);
  expect(clock.ahead()).toBe(0);
  expect(to(wall)).toBe(wall);
  clock.atLeast(wall + 5_000);
  expect(to(wall)).toBe(wall + 5_000);
  clock.atLeast(0);
  expect(to(wall)).toBe(wall + 5_000);
});

test("a clock that began where the machine was switched off and is then set right dates nothing in the future", () => {
  const M = 60_000;
  let [wall, up] = [1_000 * M, 5 * M];
  const clock = steady({ ...systemClock, now: () => wall, uptime: () => up }, () => {});
  const both = (ms: number) => void ([wall, up] = [wall + ms, up + ms]);
  const pass = (ms: number) => {
    const before = clock.now();
    both(ms);
    return clock.now() - before;
  };
  clock.atLeast(1_050 * M); // written before it was switched off
  expect(pass(20_000)).toBe(19_000);
  wall += 55 * M; // it was off for five minutes
  expect(pass(0)).toBeGreaterThanOrEqual(0);
  expect([clock.now(), clock.ahead()]).toEqual([wall, 0]);
  wall -= 120 * M;
  const told = clock.now();
  expect(told).toBe(wall + 120 * M);
  wall += 10 * M;
  expect([clock.now(), clock.ahead()]).toEqual([told, 110 * M]);
  expect(pass(10 * M)).toBe(9.5 * M); // asleep or awake
  for (let i = 0; i < 200; i += 1) expect(pass(i % 7)).toBeGreaterThanOrEqual(0);
});

test.each([
  [90_000, "1 min 30 s"],
  [-2 * H, "2 h"],
  [2 * H - 900, "2 h"],
  [H + 60_000, "1 h 1 min"],
  [0, "0 s"],
])("%i ms is said as %s", (ms, words) => {
  expect(spanOf(ms)).toBe(words);
});

test.concurrent("of jobs whose envelopes aren't to be trusted one is claimed every five minutes, so that all others keep their attempts", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  let isFalse = true;
  const asked: number[] = [];
  net.alter(({ path, body }, answer) => {
    if (!path.endsWith("/claim/batch")) return answer;
    asked.push((JSON.parse(body) as { max: number }).max);
    return isFalse ? answer.replaceAll(/"envelope":"[^"]+"/g, '"envelope":"please print this"') : answer;
  });
  const jobs = await Promise.all(Array.from({ length: 9 }, () => shop.issue()));
  const { clock, pass } = wrongBy(0);
  const station = await running(t, net.url, shop, { settings: { claim: { ahead: 4, leaseSeconds: LEASE_S } } }, { clock });
  const notices = () => station.state().notices.map(({ code }) => code);
  const refused = () => station.state().quarantine.length;
  await until(() => notices().includes("envelopes_refused"));
  expect([refused(), asked]).toEqual([4, [4]]);
  await shop.issue(); // it hears of it, and asks for nothing
  pass(100_000);
  await sleep(3_000);
  expect(asked).toEqual([4]);
  pass(201_000);
  await until(() => refused() === 5);
  expect(asked).toEqual([4, 1]);
  isFalse = false;
  pass(301_000);
  await until(
    async () =>
      (await Promise.all(jobs.map(({ job_ref: ref }) => stateInCloud(shop, ref)))).filter((state) => state === "SEALED").length > 1,
  );
  expect(notices()).not.toContain("envelopes_refused");
});
