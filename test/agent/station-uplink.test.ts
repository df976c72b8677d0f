// A station and a cloud that is away, late, refusing or forgetful: nothing is lost, nothing is doubled, and no label is printed because a report failed.
import { createServer } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import Database from "better-sqlite3";
import { describe, expect, test } from "vitest";
import { errors } from "#shared/errors.ts";
import { systemClock } from "../../agent/clock.ts";
import { cloudClient } from "../../agent/cloud.ts";
import { fateOf } from "../../agent/fates.ts";
import type { StationOptions } from "../../agent/station.ts";
import { startWake } from "../../agent/wake.ts";
import { routes } from "../../cloud/routes/index.ts";
import { freePort } from "../../fixtures/free-port.ts";
import { closed, listening } from "../../fixtures/listening.ts";
import { type Fate, type Network, type Passing } from "../../fixtures/network.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { startRegistry } from "../../fixtures/registry.ts";
import { startProxy } from "../../fixtures/tcp-proxy.ts";
import { type FloorOptions, type SimulatedFloor, startFloor } from "../../fixtures/floor.ts";
import { world } from "../world.ts";
import {
  ask,
  asked,
  begunInVain,
  type Ends,
  jobAt,
  lineBehindNet,
  movesOf,
  netTo,
  quietLog,
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
type Setting = { shop: Shop; net: Network; station: Running };
async function behind(t: Ends, options: FloorOptions = {}, cloud = w, more: Partial<StationOptions> = {}): Promise<Setting> {
  const shop = await printShop(cloud);
  const net = await netTo(t, cloud);
  return { shop, net, station: await running(t, net.url, shop, options, more) };
}
const statusOf = ({ path, body }: Passing): string | undefined =>
  path.endsWith("/result") ? (JSON.parse(body) as { status: string }).status : undefined;
const resultOf = (ref: string) => ({ job_ref: ref, attempt_id: ref, status: "FAILED" as const, occurred_at: new Date().toISOString() });
const WHOLE = ["QUEUED", "CLAIMED", "RENDERED", "SPOOL_SUBMITTED", "PRINTED_ATTESTED", "SCAN_VERIFIED", "SEALED"];

/** So it has the keys by which it judges a claim. */
const hasClaimed = ({ passed }: Network) => until(() => passed.some(({ path }) => path.endsWith("/claim/batch")));

/** Eight labels that were claimed, and printed and sealed without the cloud: it has yet to hear of all that. */
async function eightSealedAway(t: Ends, cloud = w, more: Partial<StationOptions> = {}) {
  const { shop, net, station } = await behind(t, { settings: { claim: { ahead: 8, leaseSeconds: 600 } } }, cloud, more);
  await hasClaimed(net);
  await ask(station, "POST", "/api/pause");
  const jobs = await Promise.all(Array.from({ length: 8 }, () => shop.issue()));
  net.rule(({ path }) => (path.endsWith("/claim/batch") || path.endsWith("/aidc/station") ? "pass" : "cut"));
  await ask(station, "POST", "/api/resume");
  await until(() => jobs.every(({ job_ref: ref }) => station.state().jobs.some(({ job_ref }) => job_ref === ref)));
  net.cut();
  await until(() => station.state().sealing === 8 && !station.state().online);
  return { shop, net, station, jobs };
}

/** A cloud of one's own whose clock is turned. */
async function onBorrowedTime(t: Ends, leaseSeconds = 60, more: Partial<StationOptions> = {}) {
  const own = await world({}, t.onTestFinished);
  const found = await behind(t, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds } } }, own, more);
  await found.shop.admin.patch("/tenant", { offlineGraceSeconds: 60 });
  return { own, ...found };
}

/** A label came out, and its job failed while the line was cut. */
async function goneOnWithoutUs(t: Ends) {
  const found = await onBorrowedTime(t);
  const { own, shop, net, station } = found;
  const { job_ref: ref } = await shop.issue();
  await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
  net.cut();
  own.later(1_000_000);
  await until(async () => (await stateInCloud(shop, ref)) === "FAILED");
  return { ...found, ref };
}

/** In the buffer of a station that isn't running. */
function forget({ config }: SimulatedFloor, attemptId: string, what: string): void {
  const db = new Database(join(config.dataDir, "station.db"));
  db.prepare("UPDATE attempts SET work = json_remove(work, ?) WHERE attempt_id = ?").run(`$.${what}`, attemptId);
  db.close();
}

test("a job whose claim was answered to nobody is there after the station's next start, long before its lease ends", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const floor = await startFloor(net.url, shop.device.secret, { settings: { claim: { ahead: 1, leaseSeconds: 600 } } });
  t.onTestFinished(floor.end);
  let lost = 0;
  net.rule(({ path }) => (path.endsWith("/claim/batch") ? ((lost += 1), "lose") : "pass"));
  const first = await stationOn(t, floor);
  const { job_ref: ref } = await shop.issue();
  await until(async () => (await stateInCloud(shop, ref)) === "CLAIMED");
  const before = lost;
  await until(() => lost > before); // it has seen that nobody answered, and asked again
  await first.end();
  net.rule(() => "pass");
  await stationOn(t, floor);
  await sealed(shop, ref);
  expect(await movesOf(shop, ref)).toEqual(WHOLE);
});

test("claims that are done and answered to nobody, again and again, use up no job's attempts; once an answer comes through all are printed", async (t) => {
  const own = await world({}, t.onTestFinished);
  const shop = await printShop(own);
  const net = await netTo(t, own);
  const floor = await startFloor(net.url, shop.device.secret, { settings: { claim: { ahead: 4, leaseSeconds: 60 } } });
  t.onTestFinished(floor.end);
  let [lost, skewMs] = [0, 0];
  net.rule(({ path }) => (path.endsWith("/claim/batch") ? ((lost += 1), "lose") : "pass"));
  const jobs = [await shop.issue(), await shop.issue(), await shop.issue(), await shop.issue(), await shop.issue()];
  await stationOn(t, floor, { clock: { ...systemClock, now: () => Date.now() + skewMs } });
  for (let leases = 0; leases < 4; leases += 1) {
    const before = lost;
    await until(() => lost > before + 1);
    own.later(61_000);
    skewMs += 61_000;
    net.ahead(skewMs);
  }
  const attempts = async () => (await shop.admin.get("/aidc/jobs")).body.data.map(({ attempt }: { attempt: number }) => attempt);
  expect(Math.max(...(await attempts()))).toBeLessThan(3);
  net.rule(() => "pass");
  await Promise.all(jobs.map(({ job_ref: ref }) => sealed(shop, ref)));
});

test("after an outage as many jobs lie ahead as before it, also while no printer is free to begin one of them", async (t) => {
  const own = await world({}, t.onTestFinished);
  const [shop, net] = [await printShop(own), await netTo(t, own)];
  net.alter((_passing, answer) => answer.replace(/"poll_interval_ms":\d+/, '"poll_interval_ms":3600000')); // no later poll brings them either
  let [cut, skewMs] = [0, 0];
  const options = { eyes: "hand", settings: { claim: { ahead: 6, leaseSeconds: 60 } } } as const;
  const station = await running(t, net.url, shop, options, { clock: { ...systemClock, now: () => Date.now() + skewMs } });
  await hasClaimed(net);
  net.rule(({ path }) => (path.endsWith("/claim/batch") ? ((cut += 1), "cut") : "pass"));
  station.wake();
  await until(() => cut > 0);
  skewMs += 31_000;
  own.later(31_000);
  net.ahead(skewMs);
  const jobs = await Promise.all(Array.from({ length: 6 }, () => shop.issue()));
  net.rule(() => "pass");
  station.wake();
  await until(() => station.state().jobs.length === jobs.length);
  expect(new Set(station.state().jobs.map(({ job_ref }) => job_ref))).toEqual(new Set(jobs.map(({ job_ref }) => job_ref)));
});

test("where answers with one job come through and longer ones don't, answers with none widen nothing: each job costs one attempt, however long the line was idle", async (t) => {
  const own = await world({}, t.onTestFinished);
  const [shop, net] = [await printShop(own), await netTo(t, own)];
  let [claims, lost, skewMs] = [0, 0, 0];
  net.alter(({ path }, answer) => {
    if (!path.endsWith("/claim/batch")) return answer.replace(/"poll_interval_ms":\d+/, '"poll_interval_ms":20');
    claims += 1;
    if ((JSON.parse(answer) as { claims: unknown[] }).claims.length < 2) return answer;
    lost += 1;
    throw new Error("too much for this line");
  });
  const jobs = await Promise.all(Array.from({ length: 4 }, () => shop.issue()));
  const options = { settings: { claim: { ahead: 4, leaseSeconds: 60 } } } as const;
  await running(t, net.url, shop, options, { clock: { ...systemClock, now: () => Date.now() + skewMs } });
  const pass = (ms: number) => {
    skewMs += ms;
    own.later(ms);
    net.ahead(skewMs);
  };
  await until(() => lost > 0);
  pass(31_000);
  const before = claims;
  await until(() => claims > before + 40);
  pass(31_000);
  await Promise.all(jobs.map(({ job_ref: ref }) => sealed(shop, ref)));
  const attempts = (await shop.admin.get("/aidc/jobs")).body.data.map(({ attempt }: { attempt: number }) => attempt);
  expect(attempts).toEqual([2, 2, 2, 2]);
});

describe.concurrent("an answer stalls behind its head", () => {
  const stalls = async (t: Ends, isSo: (n: number) => boolean, callMs: number) => {
    const shop = await printShop(w);
    const net = await netTo(t, w);
    let calls = 0;
    net.rule(() => (isSo((calls += 1)) ? "stall" : "pass"));
    return { shop, station: await running(t, net.url, shop, {}, { callMs }), calls: () => calls };
  };

  test("and holds claims and reports up for no longer than a call may take", async (t) => {
    const { shop, calls } = await stalls(t, (n) => n <= 4 || n % 5 === 0, 800);
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    expect(calls()).toBeGreaterThan(5);
  });

  test("and is given up when the station ends", async (t) => {
    const { station, calls } = await stalls(t, () => true, 60_000);
    await until(() => calls() > 0);
    const endedAt = performance.now();
    expect(await Promise.race([station.end().then(() => "ended"), sleep(40_000, "still there")])).toBe("ended");
    expect(performance.now() - endedAt).toBeLessThan(30_000);
  });
});

describe.concurrent("the cloud is away", () => {
  test("what was claimed is printed and sealed here; the burst afterwards is heard in order, once", async (t) => {
    const { shop, net, station, jobs } = await eightSealedAway(t);
    expect(station.state()).toMatchObject({ online: false, status: "offline", recent: [] });
    expect(station.state().jobs.map(({ state, stage }) => [state, stage])).toEqual(jobs.map(() => ["SCAN_VERIFIED", "sealing"])); // the cloud seals
    expect(station.state().buffer_depth).toBe(8 * 5);
    expect(station.state().buffer.oldest_age_ms).toBeGreaterThan(0);
    expect(await movesOf(shop, jobs[0].job_ref)).toEqual(["QUEUED", "CLAIMED"]);
    net.rule(() => "pass");
    net.mend();
    for (const { job_ref: ref } of jobs) await sealed(shop, ref);
    for (const { job_ref: ref } of jobs) expect(await movesOf(shop, ref)).toEqual(WHOLE);
    expect(net.passed.filter(({ path }) => path.endsWith("/aidc/results")).length).toBeGreaterThan(0);
    expect((await station.floor.links()).length).toBe(8);
    await until(() => station.state().buffer_depth === 0);
  });

  test("though its leases ran out it is told before more is claimed: no job is given out anew while its good label lies here", async (t) => {
    const own = await world({}, t.onTestFinished);
    const { shop, net, station, jobs } = await eightSealedAway(t, own, { pauses: { firstMs: 120_000, mostMs: 120_000 } });
    own.later(1_000_000);
    net.rule(() => "pass");
    net.mend();
    const inCloud = (ref: string) => shop.admin.get(`/aidc/jobs/${ref}`).then(({ body }) => body as { state: string; attempt: number });
    const isJudged = async (ref: string) => ((job) => job.state === "SEALED" || job.attempt > 1)(await inCloud(ref));
    for (const { job_ref: ref } of jobs) await until(() => isJudged(ref));
    for (const { job_ref: ref } of jobs) expect(await inCloud(ref)).toMatchObject({ state: "SEALED", attempt: 1 });
    expect(station.store.orphans()).toEqual([]);
    const next = await shop.issue(); // and claims go on
    await sealed(shop, next.job_ref);
  });

  test("nor where the cloud is back, and takes no reports for a while: however often it is heard of meanwhile, they go first", async (t) => {
    const own = await world({}, t.onTestFinished);
    const { shop, net, station, jobs } = await eightSealedAway(t, own, { pauses: { firstMs: 2_000, mostMs: 2_000 } });
    own.later(1_000_000);
    let tries = 0;
    net.rule(({ path }) => (/\/results?$/.test(path) ? ((tries += 1), { status: 503, code: "OVERLOADED" }) : "pass"));
    net.mend();
    for (let n = 0; n < 15; n += 1) {
      station.wake(); // as hints do
      await sleep(100);
    }
    expect(tries).toBeGreaterThan(0);
    net.rule(() => "pass");
    for (const { job_ref: ref } of jobs) await sealed(shop, ref);
    for (const { job_ref: ref } of jobs) expect(await movesOf(shop, ref)).toEqual(WHOLE);
    expect(station.store.orphans()).toEqual([]);
  });

  test("nor where it took none of them, then was away, and is back", async (t) => {
    const own = await world({}, t.onTestFinished);
    const { shop, net, station, jobs } = await eightSealedAway(t, own, { pauses: { firstMs: 100, mostMs: 2_000 } });
    const claims = () => net.passed.filter(({ path }) => path.endsWith("/claim/batch")).length;
    const before = claims();
    net.rule(({ path }) => (/\/results?$/.test(path) ? { status: 503, code: "OVERLOADED" } : "pass"));
    net.mend();
    await until(() => claims() > before); // it has tried often enough
    net.cut();
    station.wake();
    await until(() => !station.state().online);
    own.later(1_000_000);
    net.rule(() => "pass");
    net.mend();
    station.wake();
    for (const { job_ref: ref } of jobs) await sealed(shop, ref);
    for (const { job_ref: ref } of jobs) expect(await movesOf(shop, ref)).toEqual(WHOLE);
  });

  test("a burst that is too much for a loaded cloud goes in smaller ones, until all of it is heard", async (t) => {
    const { shop, net, station, jobs } = await eightSealedAway(t);
    const MOST = 3;
    const sizes: number[] = [];
    net.rule(({ path, body }) => {
      if (!path.endsWith("/aidc/results")) return "pass";
      const size = (JSON.parse(body) as { results: unknown[] }).results.length;
      sizes.push(size);
      return size > MOST ? { status: 503, code: "OVERLOADED" } : "pass";
    });
    net.mend();
    for (const { job_ref: ref } of jobs) await sealed(shop, ref);
    for (const { job_ref: ref } of jobs) expect(await movesOf(shop, ref)).toEqual(WHOLE);
    expect(Math.max(...sizes)).toBeGreaterThan(MOST);
    await until(() => station.state().buffer_depth === 0);
  });

  test("one that is too large for a proxy goes in smaller ones as well, and not report by report", async (t) => {
    const { shop, net, station, jobs } = await eightSealedAway(t);
    const reports = station.state().buffer_depth;
    const alone = new Set<string>(); // those that went by themselves before any batch was taken
    let isTaken = false;
    net.rule(({ path, body }) => {
      if (path.endsWith("/result") && !isTaken) alone.add(body);
      if (!path.endsWith("/aidc/results")) return "pass";
      if ((JSON.parse(body) as { results: unknown[] }).results.length > 3)
        return { status: 413, page: "<html>413 Request Entity Too Large</html>" };
      isTaken = true;
      return "pass";
    });
    net.mend();
    for (const { job_ref: ref } of jobs) await sealed(shop, ref);
    for (const { job_ref: ref } of jobs) expect(await movesOf(shop, ref)).toEqual(WHOLE);
    await until(() => station.state().buffer_depth === 0);
    expect(station.state()).toMatchObject({ quarantine: [] });
    expect(isTaken).toBe(true);
    expect(alone.size).toBeLessThan(reports / 3);
  });

  test("no label is begun on a lease that may be over", async (t) => {
    const LEASE_S = 100; // of the cloud's clock, which nobody turns: the second job is still this station's when it is back
    let off = 0;
    const clock = { ...systemClock, now: () => Date.now() + off };
    const { shop, net, station } = await behind(t, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: LEASE_S } } }, w, {
      clock,
    });
    const first = await shop.issue({ priority: 2 });
    const second = await shop.issue({ priority: 1 });
    await until(() => jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED" && jobAt(station, second.job_ref) !== undefined);
    net.cut();
    off = LEASE_S * 900; // what is left may not be enough for a label
    await ask(station, "POST", "/api/scan", { text: first.digital_link });
    const { machine } = station.floor;
    const isBegun = () => (jobAt(station, second.job_ref)?.stage ?? "waiting") !== "waiting" || (machine?.labels.length ?? 0) > 1;
    await until(() => isBegun() || (station.state().printers[0]?.words.includes("waits for word from the cloud") ?? false));
    expect([isBegun(), await station.floor.links()]).toEqual([false, [first.digital_link]]);
    net.mend();
    await until(() => jobAt(station, second.job_ref)?.state === "PRINTED_ATTESTED");
    expect(await station.floor.links()).toEqual([first.digital_link, second.digital_link]);
  });

  test.for([
    ["the label was drawn", "rendered"],
    ["its printer was asked how it stands", "sending"],
  ])("nor on one that ran out while %s, as on a machine that stood still", async ([, at], t) => {
    const LEASE_S = 100; // of the cloud's clock, which nobody turns
    let off = 0;
    let isDrawn = () => false;
    const clock = { ...systemClock, now: () => ((off ||= isDrawn() ? LEASE_S * 2_000 : 0), Date.now() + off) };
    const { shop, net, station } = await behind(t, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: LEASE_S } } }, w, {
      clock,
    });
    await until(() => station.state().printers[0]?.status === "ready");
    isDrawn = () => {
      const is = station.store.inHand().some(({ stage }) => stage === at);
      if (is) net.cut();
      return is;
    };
    const { job_ref: ref, digital_link: link } = await shop.issue();
    const { machine } = station.floor;
    const isBegun = () => !["waiting", "rendered", at, undefined].includes(jobAt(station, ref)?.stage) || (machine?.labels.length ?? 0) > 0;
    await until(() => isBegun() || (station.state().printers[0]?.words.includes("waits for word from the cloud") ?? false));
    expect([off > 0, isBegun(), await station.floor.links()]).toEqual([true, false, []]);
    net.mend();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    expect(await station.floor.links()).toEqual([link]);
  });

  test("a job that comes back while its label lies here unheard of is asked about, and not printed beside it", async (t) => {
    const { own, shop, net, station } = await onBorrowedTime(t, 600);
    net.rule(({ path }) => (/\/(results?|heartbeat)$/.test(path) ? "cut" : "pass"));
    const { job_ref: ref, digital_link: link } = await shop.issue();
    const attempts = () => station.state().jobs.filter(({ job_ref }) => job_ref === ref);
    await until(() => attempts().some(({ stage }) => stage === "printed"));
    const again = () => attempts().find(({ attempt }) => attempt > 1);
    own.later(1_000_000);
    await until(() => again() !== undefined); // the cloud has heard of no label: it gives the job again
    expect(again()).toMatchObject({ attempt: 2, duplicate_risk: true, ask: { kind: "destroy_earlier" } });
    await sleep(500);
    expect(await station.floor.links()).toEqual([link]);
    net.rule(() => "pass");
    await until(() => attempts().some(({ stage }) => stage === "orphan"));
    await until(async () => {
      for (const { ask: open } of attempts()) if (open?.kind === "destroy_earlier") await say(station, ref, "destroyed");
      return again()?.stage === "printed";
    });
    await ask(station, "POST", "/api/scan", { text: link });
    await sealed(shop, ref);
  });

  test("a cloud that restarts in the middle hears the rest", async (t) => {
    const own = await world({ settings: {} }, t.onTestFinished);
    const { shop, station } = await lineBehindNet(t, own, { eyes: "hand" });
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    await own.restart();
    await ask(station, "POST", "/api/scan", { text });
    await sealed(shop, ref);
    expect(await movesOf(shop, ref)).toEqual(WHOLE);
  });
});

describe.concurrent("answers get lost", () => {
  test("every answer is lost once, and every report is on record once", async (t) => {
    const { shop, net, station } = await behind(t);
    const lost = new Set<string>();
    net.rule((passing) => {
      const status =
        statusOf(passing) ?? (passing.path.endsWith("/claim/batch") ? "claim" : passing.path.endsWith("/results") ? "results" : undefined);
      if (status === undefined || lost.has(status)) return "pass";
      lost.add(status);
      return "lose";
    });
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    expect(await movesOf(shop, ref)).toEqual(WHOLE);
    expect(lost.size).toBeGreaterThan(2);
    expect((await station.floor.links()).length).toBe(1);
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body.attempt).toBe(1);
  });
});

test("an answer that was given before renews no lease: what was drawn then isn't printed for a job that is another's by now", async (t) => {
  const own = await world({}, t.onTestFinished);
  const shop = await printShop(own);
  const net = await netTo(t, own);
  const floor = await startFloor(net.url, shop.device.secret, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 60 } } });
  t.onTestFinished(floor.end);
  const first = await stationOn(t, floor);
  await until(() => first.state().printers[0]?.status === "ready");
  net.rule(({ body }) => (body.includes('"RENDERED"') ? "lose" : "pass"));
  const { job_ref: ref } = await shop.issue();
  const isBegun = () => first.store.inHand().some(({ stage }) => stage === "sending");
  for (const end = Date.now() + 50_000; !isBegun() && Date.now() < end;) await new Promise((resolve) => setImmediate(resolve));
  floor.machine?.fault("dont-answer"); // before it is asked where its counter stands: nothing leaves
  await until(async () => first.state().printers[0]?.status === "offline" && (await stateInCloud(shop, ref)) === "RENDERED");
  await first.end();
  floor.machine?.clear();
  own.later(120_000);
  const other = await shop.newDevice("line 2");
  await until(async () => (await other.api.post("/aidc/jobs/claim", { station: "line-1" })).status === 200);
  const late = Promise.withResolvers<"pass">();
  net.rule(({ path }) => (path.endsWith("/heartbeat") ? late.promise : "pass"));
  const station = await stationOn(t, floor);
  await until(() => station.state().buffer_depth === 0 && station.state().printers[0]?.status === "ready");
  await sleep(1_000);
  late.resolve("pass");
  await until(() => station.state().jobs.length === 0);
  expect(await floor.links()).toEqual([]);
  expect((await shop.admin.get("/aidc/orphans")).body.data).toEqual([]);
});

describe.concurrent("answers overtake each other", () => {
  /** A printed label whose heartbeat is on its way while this word is said; the word's answer is lost until the heartbeat's is here. */
  async function overtaken(
    t: Ends,
    word: "SEALED" | "FAILED",
    saying: (station: Running, job: { ref: string; text: string }) => Promise<unknown>,
  ) {
    const { shop, net, station } = await behind(t, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 10 } } });
    const late = Promise.withResolvers<"pass">();
    let [held, isHeard] = [false, false];
    const isPrinted = () => station.state().jobs.some(({ state }) => state === "PRINTED_ATTESTED");
    net.rule(({ path, body }) => {
      if (path.endsWith("/heartbeat") && !held && isPrinted()) {
        held = true;
        return late.promise;
      }
      return body.includes(`"${word}"`) && !isHeard ? "lose" : "pass";
    });
    const { job_ref: ref, digital_link: text } = await shop.issue({ max_attempts: 1 });
    await until(() => held);
    await saying(station, { ref, text });
    await until(async () => ["SEALED", "DEAD_LETTER"].includes(await stateInCloud(shop, ref)));
    late.resolve("pass");
    await until(() => net.passed.some(({ path, status }) => path.endsWith("/heartbeat") && status === 409));
    await sleep(200);
    isHeard = true;
    await until(() => station.state().buffer_depth === 0 && station.state().sealing === 0);
    expect(station.state().jobs).toEqual([]);
    expect((await shop.admin.get("/aidc/orphans")).body.data).toEqual([]);
    return station.state().ledger.counts;
  }

  test("a heartbeat that comes after the seal, and is answered before it, makes no orphan of a sealed label", async (t) => {
    const scan = (station: Running, { text }: { text: string }) => ask(station, "POST", "/api/scan", { text });
    expect(await overtaken(t, "SEALED", scan)).toEqual({ sealed: 1 });
  });
  test("nor of one that was given up meanwhile", async (t) => {
    expect(await overtaken(t, "FAILED", (station, { ref }) => say(station, ref, "misprint"))).toEqual({ printed: 1 });
  });
  test("for a sealed label no lease is asked for again and again, while the answers to its seal get lost", async (t) => {
    const { shop, net } = await behind(t, { settings: { claim: { ahead: 1, leaseSeconds: 5 } } });
    net.rule(({ body }) => (body.includes('"SEALED"') ? "lose" : "pass"));
    const { job_ref: ref } = await shop.issue();
    const refused = () => net.passed.filter(({ path, status }) => path.endsWith("/heartbeat") && status === 409).length;
    await until(() => refused() > 0);
    await sleep(1_200); // two rounds
    expect(refused()).toBe(1);
    net.rule(() => "pass");
    await sealed(shop, ref);
  });
});

describe.concurrent("the cloud refuses", () => {
  test.for([
    { status: 429, code: "RATE_LIMITED", retryAfter: 1 },
    { status: 503, code: "OVERLOADED" },
    { status: 500, code: "INTERNAL_ERROR" },
    { status: 404, code: "HTTP_404" },
  ])("$status $code is only a delay", async (refusal, t) => {
    const { shop, net, station } = await behind(t);
    let left = 3;
    net.rule((passing): Fate => (statusOf(passing) && (left -= 1) >= 0 ? refusal : "pass"));
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    expect(await movesOf(shop, ref)).toEqual(WHOLE);
    expect((await station.floor.links()).length).toBe(1);
    expect(station.state().quarantine).toEqual([]);
  });

  test("a label's drawing while it is on its way to the printer: what comes out is in the ledger", async (t) => {
    let queue = 0;
    const line = await startProxy(() => ({ port: queue }), {
      onRequest: ({ bytes }) => void (bytes.includes(Buffer.from("89504e47", "hex")) && line.afflict({ kind: "black-hole" }, "down")),
    });
    t.onTestFinished(line.end);
    const port = (url: string) => ((queue = Number(new URL(url).port)), url.replace(String(queue), String(line.port)));
    const { shop, net, station } = await behind(t, { eyes: "hand", language: "ipp", port });
    const begun = Promise.withResolvers<Fate>();
    net.rule((passing) => (statusOf(passing) === "RENDERED" ? begun.promise : "pass"));
    const { job_ref: ref } = await shop.issue();
    await until(() => station.floor.queue?.jobs().length === 1);
    begun.resolve({ status: 422, code: "EVIDENCE_INVALID" });
    const open = [{ job_ref: ref, state: "unknown", words: expect.stringMatching(/: look for it, and explain it here$/) }];
    await until(() => station.state().quarantine.length === 1);
    expect([station.store.ofJob(ref)[0]?.stage, station.state().ledger.open]).toMatchObject(["sending", open]);
    line.heal(); // what it had answered is lost
    await until(() => station.floor.queue?.labels.length === 1 && station.state().printers[0]?.status === "ready");
    expect(station.state().ledger.open).toMatchObject(open);
  });

  test("a label's drawing once all of it has left: the ledger says what to do about it", async (t) => {
    const { shop, net, station } = await behind(t, { eyes: "hand" });
    await until(() => station.state().printers[0]?.status === "ready");
    station.floor.machine?.fault("slow-reader", { bytes: 256, ms: 100 });
    const sent = Promise.withResolvers<Fate>();
    net.rule((passing) => (statusOf(passing) === "RENDERED" ? sent.promise : "pass"));
    const { job_ref: ref } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "sent");
    sent.resolve({ status: 422, code: "EVIDENCE_INVALID" });
    await until(() => station.state().quarantine.length === 1);
    const words = expect.stringMatching(/: look for it, and explain it here$/);
    expect(station.state().ledger.open).toMatchObject([{ job_ref: ref, state: "unknown", words }]);
  });

  test("a job while its label is on its way to a printer that takes nothing: it is told of, and that it never came out", async (t) => {
    const shop = await printShop(w);
    const { station, net, job } = await begunInVain(t, w.url, shop, 15_000);
    const { job_ref: ref, serial } = job;
    expect((await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial })).status).toBeLessThan(300);
    net.rule(() => "pass");
    await until(() => jobAt(station, ref)?.stage === "orphan" && station.state().ledger.counts["sealed"] === 1); // its drawing is refused
    expect(station.state().ledger.counts).toEqual({ sealed: 1, orphan: 1 });
    station.floor.machine?.fault("power-off"); // nothing will leave any more, and it is known at once
    await until(() => jobAt(station, ref) === undefined && station.state().buffer_depth === 0);
    station.floor.machine?.clear(); // or the station would wait for it once more as it ends
    expect(station.state().ledger.counts).toEqual({ sealed: 1, not_printed: 1 });
    const told = net.passed.filter(({ path }) => path.endsWith("/aidc/orphans")).map(({ body }) => JSON.parse(body) as object);
    expect(told).toMatchObject([
      { job_ref: ref, disposition: "found", evidence: { stage: "sending" } },
      { job_ref: ref, disposition: "destroyed", evidence: { outcome: "not_printed" }, actor: { kind: "device" } },
    ]);
    expect(station.floor.machine?.labels).toHaveLength(1);
  });

  test("401 stops the claiming, says so, and keeps every report", async (t) => {
    const { shop, net, station } = await behind(t, { eyes: "hand" });
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
    net.rule(() => ({ status: 401, code: "UNAUTHORIZED" }));
    await ask(station, "POST", "/api/scan", { text });
    await until(() => station.state().stopped?.startsWith("UNAUTHORIZED") ?? false);
    const claims = net.passed.filter(({ path }) => path.endsWith("/claim/batch")).length;
    const other = await shop.issue();
    station.wake();
    await until(() => station.lines.some((line) => line.includes("no more jobs are claimed")));
    expect(net.passed.filter(({ path }) => path.endsWith("/claim/batch")).length - claims).toBeLessThanOrEqual(1);
    expect(station.state()).toMatchObject({ buffer_depth: 2, status: "degraded" });
    net.rule(() => "pass");
    await sealed(shop, ref);
    station.floor.machine?.clear();
    await until(() => jobAt(station, other.job_ref)?.state === "PRINTED_ATTESTED");
  });

  test("a device that was removed begins no label any more, whatever is left of its leases: others have its jobs at once", async (t) => {
    const { shop, station } = await behind(t, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 600 } } });
    const first = await shop.issue({ priority: 2 });
    const second = await shop.issue({ priority: 1 });
    await until(() => jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED" && jobAt(station, second.job_ref) !== undefined);
    const other = await shop.newDevice("line 2");
    await shop.admin.delete(`/devices/${shop.device.id}`);
    expect((await other.claim()).job.job_ref).toBe(second.job_ref);
    await until(() => station.state().stopped !== null);
    await ask(station, "POST", "/api/scan", { text: first.digital_link });
    const { machine } = station.floor;
    const isBegun = () => (jobAt(station, second.job_ref)?.stage ?? "waiting") !== "waiting" || (machine?.labels.length ?? 0) > 1;
    await until(() => isBegun() || (station.state().printers[0]?.words.includes("waits for word from the cloud") ?? false));
    expect([isBegun(), await station.floor.links()]).toEqual([false, [first.digital_link]]);
  });

  test("a key that can't be one, such as the documented example's, is named as the fault, and not the network", async (t) => {
    const floor = await startFloor(w.url, "imp_…");
    t.onTestFinished(floor.end);
    const station = await stationOn(t, floor);
    await until(() => station.state().stopped !== null);
    await until(() => station.state().online);
    expect(station.state()).toMatchObject({ stopped: expect.stringContaining("the key in the settings has characters"), online: true });
  });

  test("and with it a cloud that isn't there isn't taken for one that answers", async (t) => {
    const floor = await startFloor(`http://127.0.0.1:${await freePort()}`, "imp_…");
    t.onTestFinished(floor.end);
    const station = await stationOn(t, floor);
    await until(() => station.state().stopped !== null && station.lines.some((line) => line.includes("keys can't be had")));
    const { online, stopped, broker } = station.state();
    const itsKey = expect.stringContaining("the key in the settings has characters");
    expect([online, stopped, broker.words]).toEqual([false, itsKey, itsKey]);
    expect(station.lines.filter((line) => line.includes("the cloud answers"))).toEqual([]);
  });

  test("a key that nobody knows isn't taken for ours because the cloud's public keys can be had", async (t) => {
    const floor = await startFloor(w.url, "imp_nobodys");
    t.onTestFinished(floor.end);
    const station = await stationOn(t, floor);
    await until(() => station.state().stopped !== null);
    await sleep(3_000); // it asks every second or so
    expect(station.state()).toMatchObject({ stopped: expect.stringContaining("UNAUTHORIZED"), status: "degraded", online: true });
    expect(station.lines.filter((line) => line.includes("takes our key again"))).toEqual([]);
    expect((await ask(station, "GET", "/healthz")).body).toMatchObject({
      status: "degraded",
      stopped: expect.stringContaining("UNAUTHORIZED"),
    });
  });

  test("a job that went on without us leaves an orphan: told, listed, and destroyed by a person", async (t) => {
    const { shop, net, station, ref } = await goneOnWithoutUs(t);
    net.mend();
    await until(() => asked(station, ref) === "destroy_earlier");
    await until(async () => (await shop.admin.get("/aidc/orphans")).body.data.length === 1);
    expect(station.state().ledger.counts).toMatchObject({ orphan: 1 });
    expect(await station.floor.links()).toHaveLength(1);
    await until(() => station.state().jobs.some(({ attempt }) => attempt === 2));
    await say(station, ref, "destroyed");
    await until(() => station.state().jobs.some(({ attempt, state }) => attempt === 2 && state === "PRINTED_ATTESTED"));
    expect((await say(station, ref, "destroyed")).status).toBe(409); // a second person's word about the first label, too late
    await until(async () => (await shop.admin.get("/aidc/orphans")).body.data.length === 0);
    expect(await station.floor.links()).toHaveLength(2);
    expect(station.state().ledger.counts).toMatchObject({ destroyed: 1, printed: 1 });
  });

  test.for([
    ["misprint", "found", 1, { kind: "device" }, { stage: "printed" }],
    ["destroyed", "destroyed", 0, { kind: "operator", id: "op-7" }, { outcome: "destroyed" }],
  ] as const)(
    "a label that a person called %s, of which the cloud hears too late, is told as %s",
    async ([verdict, disposition, lying, actor, evidence], t) => {
      const { own, shop, net, station } = await onBorrowedTime(t);
      const { job_ref: ref } = await shop.issue();
      await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
      net.cut();
      expect((await say(station, ref, verdict)).status).toBe(200);
      await until(() => station.state().buffer_depth === 1);
      own.later(1_000_000);
      await until(async () => (await stateInCloud(shop, ref)) === "FAILED");
      const other = await shop.newDevice("line 2");
      expect((await other.claim({ station: "line-1" })).job).toMatchObject({ job_ref: ref, attempt: 2 });
      net.mend();
      const told = () => net.passed.filter(({ path }) => path.endsWith("/aidc/orphans")).map(({ body }) => JSON.parse(body) as object);
      await until(() => told().length > 0 && station.state().buffer_depth === 0);
      expect(told()).toMatchObject([{ job_ref: ref, disposition, actor, evidence }]);
      expect((await shop.admin.get("/aidc/orphans")).body.data).toHaveLength(lying);
      expect(station.state().ledger.counts["orphan"] ?? 0).toBe(lying);
      if (lying === 0) return;
      expect(asked(station, ref)).toBe("destroy_earlier");
      await say(station, ref, "destroyed");
      await until(async () => (await shop.admin.get("/aidc/orphans")).body.data.length === 0);
    },
  );

  test("what a person explained of a label, of which the cloud hears too late, is told in those words, and not that none came out", async (t) => {
    const { own, shop, net, station } = await onBorrowedTime(t);
    const { job_ref: ref } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
    net.cut();
    expect((await say(station, ref, "misprint")).status).toBe(200);
    const session = await sessionAt(station);
    const [label] = station.state().ledger.open;
    expect((await ask(station, "POST", `/api/labels/${label?.n}/explain`, { words: "found and destroyed", session })).status).toBe(200);
    own.later(1_000_000);
    await until(async () => (await stateInCloud(shop, ref)) === "FAILED");
    await (await shop.newDevice("line 2")).claim({ station: "line-1" });
    net.mend();
    const told = () => net.passed.filter(({ path }) => path.endsWith("/aidc/orphans")).map(({ body }) => JSON.parse(body) as object);
    await until(() => told().length > 0 && station.state().buffer_depth === 0);
    expect(told()).toMatchObject([
      {
        job_ref: ref, disposition: "destroyed", evidence: { outcome: "explained", words: "op-7: found and destroyed" },
        actor: { kind: "device" }, // who said that it failed said nothing of where it is
      }, // oxfmt-ignore
    ]);
    expect(station.state().quarantine).toEqual([]);
  });

  test("an orphan waits until it is told, though another answer says meanwhile that its job went on", async (t) => {
    const { own, shop, net, station } = await onBorrowedTime(t, 5, { callMs: 90_000 }); // it hears the late answer
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
    const [isAsked, late] = [Promise.withResolvers<void>(), Promise.withResolvers<"pass">()];
    let tries = 0;
    net.rule(({ path }) => {
      if (path.endsWith(`${ref}/heartbeat`)) return (isAsked.resolve(), late.promise);
      return path.endsWith("/aidc/orphans") ? ((tries += 1), "cut") : "pass";
    });
    await isAsked.promise;
    own.later(1_000_000);
    await until(async () => (await movesOf(shop, ref)).includes("FAILED")); // and it may be claimed again at once
    await ask(station, "POST", "/api/scan", { text });
    await until(() => station.store.orphans().length === 1 && tries > 0);
    late.resolve("pass");
    await until(() => net.passed.some(({ path, status }) => path.endsWith("/heartbeat") && status === 409));
    const before = tries;
    await until(() => tries > before + 1); // it goes on being said
    net.rule(() => "pass");
    await until(async () => (await shop.admin.get("/aidc/orphans")).body.data.length === 1);
    expect(station.state().ledger.counts).toMatchObject({ orphan: 1 });
  });

  test("an orphan that it won't hear of is shown to people, and its label is still asked for", async (t) => {
    const { net, station, ref } = await goneOnWithoutUs(t);
    net.rule(({ path }) => (path.endsWith("/aidc/orphans") ? { status: 404, code: "NOT_FOUND" } : "pass"));
    net.mend();
    await until(() => station.state().quarantine.length > 0);
    expect(station.state().quarantine).toMatchObject([{ job_ref: ref, code: "NOT_FOUND" }]);
    expect([asked(station, ref), station.state().ledger.counts["orphan"]]).toEqual(["destroy_earlier", 1]);
  });

  test("a picture that it won't have is shown to people, and its label is sealed", async (t) => {
    const { shop, net, station } = await behind(t);
    net.rule(({ path }) => (path.includes("/aidc/evidence/") ? { status: 422, code: "VALIDATION_ERROR" } : "pass"));
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    await until(() => station.state().buffer.pictures === 0);
    expect(station.state().quarantine).toMatchObject([{ job_ref: null, code: "VALIDATION_ERROR" }]);
    expect(net.passed.filter(({ path }) => path.includes("/aidc/evidence/"))).toHaveLength(1);
  });

  test("an earlier label that was destroyed before it was an orphan isn't asked for again: the next attempt's would be found", async (t) => {
    const { own, shop, net, station } = await onBorrowedTime(t);
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
    const first = jobAt(station, ref)?.attempt_id ?? "";
    let heard = false; // of the first attempt
    net.rule(({ body }) => (body.includes(first) && !heard ? "cut" : "pass"));
    await ask(station, "POST", "/api/scan", { text });
    await until(() => station.state().sealing === 1);
    own.later(1_000_000);
    await until(() => asked(station, ref) === "destroy_earlier"); // by the second attempt
    await say(station, ref, "destroyed");
    await until(() => station.state().jobs.some(({ attempt, state }) => attempt === 2 && state === "PRINTED_ATTESTED"));
    heard = true;
    const orphans = () => net.passed.filter(({ path }) => path.endsWith("/aidc/orphans"));
    await until(() => orphans().length === 2 && station.state().buffer_depth === 0);
    expect(orphans().map(({ body }) => JSON.parse(body) as object)).toMatchObject([
      { attempt_id: first, disposition: "found" },
      { attempt_id: first, disposition: "destroyed", actor: { kind: "operator" } },
    ]);
    expect(station.state().jobs).toMatchObject([{ attempt: 2, ask: null }]);
    expect(station.state().ledger.counts).toEqual({ destroyed: 1, printed: 1 });
    await ask(station, "POST", "/api/scan", { text });
    await sealed(shop, ref);
    await until(() => station.state().ledger.counts["sealed"] === 1);
  });

  test("what a person says of a found orphan isn't said of the next attempt's label, which lies there by then", async (t) => {
    const { own, shop, net, station: before } = await onBorrowedTime(t);
    const { floor } = before;
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(before, ref)?.state === "PRINTED_ATTESTED" && before.state().buffer_depth === 0);
    const first = jobAt(before, ref)?.attempt_id ?? "";
    let heard = false; // of the first attempt
    net.rule(({ body }) => (body.includes(first) && !heard ? "cut" : "pass"));
    await ask(before, "POST", "/api/scan", { text });
    await until(() => before.state().sealing === 1);
    own.later(1_000_000);
    await until(() => asked(before, ref) === "destroy_earlier"); // by the second attempt
    await say(before, ref, "destroyed");
    const jobOf = (station: Running, nth: number) =>
      station.state().jobs.find(({ job_ref, attempt }) => job_ref === ref && attempt === nth);
    await until(() => jobOf(before, 2)?.state === "PRINTED_ATTESTED" && before.store.items(jobOf(before, 2)?.attempt_id ?? "").length > 2);
    await before.end();
    forget(floor, first, "answered"); // as a station of the version before has left it
    heard = true;
    const station = await stationOn(t, floor);
    await until(() => jobOf(station, 1)?.ask?.kind === "destroy_earlier");
    expect(jobOf(station, 2)?.ask).toBeNull();
    expect((await say(station, ref, "destroyed", { attempt_id: first })).status).toBe(200);
    await until(async () => (await stateInCloud(shop, ref)) === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
    net.cut();
    own.later(1_000_000);
    await until(async () => (await stateInCloud(shop, ref)) === "FAILED");
    const other = await shop.newDevice("line 2");
    expect((await other.claim({ station: "line-1" })).job).toMatchObject({ job_ref: ref, attempt: 3 });
    net.mend();
    await until(() => jobOf(station, 2)?.stage === "orphan");
    expect(jobOf(station, 2)?.ask?.kind).toBe("destroy_earlier");
    expect(station.state().ledger.counts).toEqual({ destroyed: 1, orphan: 1 });
  });

  test("as long as a person may be asked to look for a label again, no other of its serial is printed, and other labels are", async (t) => {
    const own = await world({}, t.onTestFinished);
    const { shop, net, station } = await behind(t, { eyes: "hand", settings: { claim: { ahead: 3, leaseSeconds: 100 } } }, own);
    const { machine } = station.floor;
    await until(() => station.state().printers[0]?.status === "ready");
    machine?.fault("fence-never");
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => asked(station, ref) === "unknown_outcome" && station.state().buffer_depth === 0);
    const first = jobAt(station, ref)?.attempt_id ?? "";
    const jobOf = (nth: number) => station.state().jobs.find(({ job_ref, attempt }) => job_ref === ref && attempt === nth);
    let heard = false; // of the first attempt
    net.rule(({ body }) => (body.includes(first) && !heard ? "cut" : "pass"));
    await shop.admin.patch("/tenant", { offlineGraceSeconds: 60 });
    own.later(1_000_000);
    await until(() => jobOf(2)?.ask?.kind === "destroy_earlier");
    machine?.fault("power-off"); // it can't be told to drop anything
    expect((await say(station, ref, "destroyed", { attempt_id: jobOf(2)?.attempt_id })).status).toBe(200);
    heard = true;
    await until(() => jobOf(1)?.ask?.kind === "destroy_earlier");
    expect((await say(station, ref, "destroyed", { attempt_id: first })).status).toBe(200);
    await until(() => (jobOf(1)?.ask?.words ?? "").startsWith("it may still come out"));
    machine?.clear();
    const { job_ref: other } = await shop.issue();
    await until(() => jobAt(station, other)?.state === "PRINTED_ATTESTED");
    expect([jobOf(2)?.stage, jobOf(2)?.ask]).toEqual(["waiting", null]);
    expect((await say(station, ref, "destroyed", { attempt_id: first })).status).toBe(200);
    await ask(station, "POST", "/api/scan", { text: (await shop.admin.get(`/aidc/jobs/${other}`)).body.digital_link });
    await until(() => jobOf(2)?.state === "PRINTED_ATTESTED");
    await ask(station, "POST", "/api/scan", { text });
    await sealed(shop, ref);
  });

  test("in a burst one attempt's refusal drops what follows on it, and holds up nobody else", async (t) => {
    const { shop, net, station } = await behind(t, { settings: { claim: { ahead: 3, leaseSeconds: 600 } } });
    await hasClaimed(net);
    await ask(station, "POST", "/api/pause");
    const jobs = await Promise.all([1, 2, 3].map(() => shop.issue()));
    net.rule(({ path }) => (path.endsWith("/claim/batch") || path.endsWith("/aidc/station") ? "pass" : "cut"));
    await ask(station, "POST", "/api/resume");
    await until(() => station.state().sealing === 3);
    const voided = await shop.admin.post(`/products/${shop.product.id}/void`, { reason: "recalled", serial: jobs[1].serial });
    expect(voided.status).toBeLessThan(300);
    net.rule(() => "pass");
    await sealed(shop, jobs[0].job_ref);
    await sealed(shop, jobs[2].job_ref);
    await until(() => asked(station, jobs[1].job_ref) === "destroy_earlier");
    await until(async () => (await shop.admin.get("/aidc/orphans")).body.data.length === 1);
    await until(() => station.state().buffer_depth === 0); // the cloud knows before its answer is here
    expect(station.state()).toMatchObject({ buffer_depth: 0, quarantine: [], ledger: { counts: { orphan: 1, sealed: 2 } } });
  });

  test("in a burst what follows on a report that has to be said again is said again with it, whatever was answered to that", async (t) => {
    const { shop, net, station, jobs } = await eightSealedAway(t);
    let bad: string | undefined;
    net.alter(({ path, body }, answer) => {
      if (bad !== undefined || !path.endsWith("/aidc/results")) return answer;
      const refs = (JSON.parse(body) as { results: { job_ref: string }[] }).results.map(({ job_ref }) => job_ref);
      bad = refs.find((ref, i) => refs.indexOf(ref) < i); // at first there is one report to a call: it was away for long
      const late = { status: 503, error: { code: "STORE_UNAVAILABLE", message: "later" } };
      const skipped = { status: 409, error: { code: "ILLEGAL_TRANSITION", message: "what comes before it is missing" } };
      const { results } = JSON.parse(answer) as { results: { index: number }[] };
      const told = (said: { index: number }, i: number) =>
        refs[i] === bad ? { index: said.index, ...(refs.indexOf(refs[i] ?? "") === i ? late : skipped) } : said;
      return JSON.stringify({ results: results.map(told) });
    });
    net.mend();
    net.rule(() => "pass");
    for (const { job_ref: ref } of jobs) await sealed(shop, ref);
    await until(() => station.state().buffer_depth === 0);
    expect([bad !== undefined, station.state().quarantine, station.state().ledger.counts]).toEqual([true, [], { sealed: 8 }]);
  });

  describe.concurrent("a report over which the cloud stumbles each time holds up nobody else, and is heard once it doesn't", () => {
    const stumbleOver = (net: Network, ref: string) =>
      net.rule(({ path, body }) => (`${path} ${body}`.includes(ref) ? { status: 500, code: "INTERNAL_ERROR" } : "pass"));

    test("in a burst", async (t) => {
      const { shop, net, station, jobs } = await eightSealedAway(t);
      const [bad, ...others] = jobs;
      stumbleOver(net, bad.job_ref);
      net.mend();
      for (const { job_ref: ref } of others) await sealed(shop, ref);
      await until(() => station.state().buffer_depth === 5);
      net.rule(() => "pass");
      await sealed(shop, bad.job_ref);
      expect(await movesOf(shop, bad.job_ref)).toEqual(WHOLE);
    });

    test("by a person's click", async (t) => {
      const { shop, net, station } = await behind(t, { config: { attest: "operator" } });
      const jobs = [await shop.issue({ priority: 2 }), await shop.issue({ priority: 1 })];
      const [{ job_ref: bad }, { job_ref: good }] = jobs;
      await until(() => asked(station, bad) === "attest");
      await until(async () => (await stateInCloud(shop, bad)) === "SPOOL_SUBMITTED");
      stumbleOver(net, bad);
      await say(station, bad, "good");
      await until(() => asked(station, good) === "attest");
      await say(station, good, "good");
      await sealed(shop, good);
      expect(await stateInCloud(shop, bad)).toBe("SPOOL_SUBMITTED");
      net.rule(() => "pass");
      await sealed(shop, bad);
      expect(await movesOf(shop, bad)).toEqual(WHOLE);
    });
  });

  test("evidence that the cloud won't have is shown to people, and nothing after it is sent", async (t) => {
    const shop = await printShop(w, { sandbox: false });
    const station = await running(t, w.url, shop);
    const { job_ref: ref } = await shop.issue();
    await until(() => station.state().quarantine.length > 0);
    expect(station.state().quarantine[0]).toMatchObject({ job_ref: ref, code: "SIMULATED_EVIDENCE" });
    expect(await stateInCloud(shop, ref)).toBe("SCAN_VERIFIED");
    expect((await station.floor.links()).length).toBe(1);
    const n = station.state().quarantine[0]?.n;
    const seen = async (session?: string) => (await ask(station, "POST", `/api/quarantine/${n}/seen`, { session })).status;
    expect(await seen()).toBe(401);
    expect(station.state().quarantine).toHaveLength(1);
    expect(await seen(await sessionAt(station))).toBe(200);
    expect(station.state().quarantine).toEqual([]);
    expect(await seen(await sessionAt(station))).toBe(404);
  });
});

test("of labels of which the cloud won't hear no more are printed after three in a row, but for one every five minutes, until somebody has seen to it", async (t) => {
  const shop = await printShop(w, { sandbox: false });
  await Promise.all(Array.from({ length: 20 }, () => shop.issue()));
  let off = 0;
  const clock = { ...systemClock, now: () => Date.now() + off };
  const station = await running(t, w.url, shop, { settings: { claim: { ahead: 4, leaseSeconds: 600 } } }, { clock });
  const { machine } = station.floor;
  const printed = () => machine?.labels.length ?? 0;
  station.store.quarantine({ jobRef: null, attemptId: null, code: "VALIDATION_ERROR", message: "of long ago", what: "a picture" });
  const refused = () => station.state().quarantine.filter(({ job_ref }) => job_ref !== null);
  const isIdle = () => station.state().jobs.length === 0 && station.state().notices.some(({ code }) => code === "evidence_refused");
  await until(() => printed() === 20 || (isIdle() && refused().length === printed()));
  const first = printed();
  expect(first).toBeLessThan(12); // what was claimed by then
  off = 301_000;
  station.wake();
  await until(() => isIdle() && refused().length > first);
  station.wake();
  await sleep(500);
  expect([printed(), refused().length]).toEqual([first + 1, first + 1]);
  const session = await sessionAt(station);
  for (const { n } of refused()) await ask(station, "POST", `/api/quarantine/${n}/seen`, { session });
  station.wake();
  await until(() => printed() > first + 1);
});

test.concurrent("a label whose lease is still asked for when the station is paused isn't begun before it is resumed", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const floor = await startFloor(net.url, shop.device.secret, { eyes: "hand", settings: { claim: { ahead: 2, leaseSeconds: 600 } } });
  t.onTestFinished(floor.end);
  const first = await stationOn(t, floor);
  const label = await shop.issue({ priority: 2 });
  const next = await shop.issue({ priority: 1 });
  await until(() => jobAt(first, label.job_ref)?.state === "PRINTED_ATTESTED" && jobAt(first, next.job_ref) !== undefined);
  await first.end(); // from now on no lease is believed before the cloud has said so
  let held = 0;
  const answered = Promise.withResolvers<void>();
  net.rule(async ({ path }): Promise<Fate> => {
    if (!path.endsWith(`${next.job_ref}/heartbeat`)) return "pass";
    held += 1;
    await answered.promise;
    return "pass";
  });
  const station = await stationOn(t, floor, { callMs: 200_000 }); // neither is given up and asked again, however slow the machine
  t.onTestFinished(station.end);
  await ask(station, "POST", "/api/scan", { text: label.digital_link });
  await until(() => held >= 2); // one keeps it, the other wants to begin
  await ask(station, "POST", "/api/pause");
  answered.resolve();
  await sleep(1_500);
  expect(await floor.links()).toEqual([label.digital_link]);
  await ask(station, "POST", "/api/resume");
  await until(() => jobAt(station, next.job_ref)?.state === "PRINTED_ATTESTED");
});

test.concurrent.for([502, 403])(
  "a claim in whose answer's place something halfway answered with %i is said again, and its jobs are there long before their lease ends",
  async (status, t) => {
    const shop = await printShop(w);
    const net = await netTo(t, w);
    let lost = 0;
    net.rule(({ path }) =>
      path.endsWith("/claim/batch") && (lost += 1) === 1 ? { status, page: "<html>Not the cloud</html>", isDone: true } : "pass",
    );
    const { job_ref: ref } = await shop.issue();
    const station = await running(t, net.url, shop, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 600 } } });
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
    expect(jobAt(station, ref)?.attempt).toBe(1);
  },
);

test.concurrent("a job that is cancelled while the answer to its claim is lost isn't printed once that claim is said again", async (t) => {
  const { shop, net, station } = await behind(t, { eyes: "hand" });
  await hasClaimed(net);
  await ask(station, "POST", "/api/pause");
  const { job_ref: ref } = await shop.issue();
  net.rule(({ path }) => (path.endsWith("/claim/batch") ? "lose" : "pass"));
  await ask(station, "POST", "/api/resume");
  await until(async () => (await stateInCloud(shop, ref)) === "CLAIMED");
  expect((await shop.admin.post(`/aidc/jobs/${ref}/cancel`, {})).status).toBe(200);
  net.rule(() => "pass");
  await until(() => station.lines.some((line) => line.includes(`claimed ${ref}`)));
  const next = await shop.issue();
  await until(async () => (await station.floor.links()).length > 0);
  expect(await station.floor.links()).toEqual([next.digital_link]);
});

test.concurrent.for([
  [503, "NOT_READY", false],
  [502, "TIMED_OUT", false],
  [504, "TIMED_OUT", false],
  [503, "OVERLOADED", true],
  [500, "INTERNAL_ERROR", true],
] as const)(
  "a cloud in whose place a proxy answers is away, in whatever words: %i %s says that it is there: %s",
  async ([status, code, online], t) => {
    const { net, station } = await behind(t, {});
    await until(() => station.state().status === "online");
    net.rule(() => ({ status, code }));
    const { length } = net.passed;
    await until(() => net.passed.length > length + 1);
    await until(() => station.state().online === online);
    expect(station.state().status).toBe(online ? "online" : "offline");
    net.rule(() => "pass");
    await until(() => station.state().online);
  },
);

test.concurrent.for(['"poll_interval_ms":-1', '"poll_interval_ms":4294967296', '"claims":0'])(
  "what no cloud of ours says of its pace and limits isn't understood, and asked for again after a pause: %s",
  async (odd, { onTestFinished }) => {
    const shop = await printShop(w);
    const net = await netTo({ onTestFinished }, w);
    const [name = ""] = odd.split(":");
    net.alter(({ path }, answer) => (path.endsWith("/aidc/station") ? answer.replace(new RegExp(`${name}:-?\\d+`), odd) : answer));
    const station = await running({ onTestFinished }, net.url, shop);
    await until(() => station.lines.some((line) => line.includes("something else than agreed")));
    expect(net.passed.filter(({ path }) => path.endsWith("/claim/batch"))).toEqual([]);
    net.alter((_, answer) => answer);
    await sealed(shop, (await shop.issue()).job_ref);
  },
);

test("a job that is cancelled while the answer to its claim is on a slow line isn't printed", async (t) => {
  const { shop, net, station } = await behind(t, { eyes: "hand" });
  await until(() => station.lines.some((line) => line.includes('"event":"wake-up"')));
  const late = Promise.withResolvers<void>();
  let ref = "";
  net.alter(async ({ path }, answer) => {
    if (path.endsWith("/claim/batch") && ref !== "" && answer.includes(ref)) await late.promise;
    return answer;
  });
  ({ job_ref: ref } = await shop.issue());
  await until(async () => (await stateInCloud(shop, ref)) === "CLAIMED");
  expect((await shop.admin.post(`/aidc/jobs/${ref}/cancel`, {})).status).toBe(200);
  await sleep(500); // the hint is there by then
  late.resolve();
  await until(() => station.lines.some((line) => line.includes(`claimed ${ref}`)));
  const next = await shop.issue();
  await until(() => jobAt(station, next.job_ref)?.state === "PRINTED_ATTESTED");
  expect(await station.floor.links()).toEqual([next.digital_link]);
  expect(station.state().ledger.counts).toEqual({ printed: 1 });
});

test("a job that is cancelled while the answer to its heartbeat is on a slow line isn't printed", async (t) => {
  const { shop, net, station: first } = await behind(t, { eyes: "hand" });
  const [before, { job_ref: ref }] = [await shop.issue({ priority: 2 }), await shop.issue({ priority: 1 })];
  const isPrinted = async () => (await stateInCloud(shop, before.job_ref)) === "PRINTED_ATTESTED";
  await until(async () => jobAt(first, ref) !== undefined && first.state().buffer_depth === 0 && (await isPrinted()));
  await first.end();
  const late = Promise.withResolvers<void>();
  let beats = 0; // one of the rounds of its leases, one of its lane
  net.alter(async ({ path }, answer) => {
    if (path.endsWith(`${ref}/heartbeat`)) await ((beats += 1) > 2 ? sleep(2_000) : late.promise);
    return answer;
  });
  const station = await stationOn(t, first.floor); // it believes in no lease of the run before
  await until(() => station.lines.some((line) => line.includes('"event":"wake-up"')));
  await ask(station, "POST", "/api/scan", { text: before.digital_link });
  await until(() => beats === 2);
  expect((await shop.admin.post(`/aidc/jobs/${ref}/cancel`, {})).status).toBe(200);
  await sleep(500); // the hint is there by then
  late.resolve();
  const next = await shop.issue();
  await until(() => jobAt(station, next.job_ref)?.state === "PRINTED_ATTESTED");
  expect(await station.floor.links()).toEqual([before.digital_link, next.digital_link]);
});

test("a picture over which the cloud stumbles each time holds up no other", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  let bad: string | undefined;
  const isPicture = ({ method, path }: Passing) => method === "PUT" && path.startsWith("/api/v2/aidc/evidence/");
  net.rule((asked) => (isPicture(asked) && (bad ??= asked.path) === asked.path ? { status: 500, code: "INTERNAL_ERROR" } : "pass"));
  const station = await running(t, net.url, shop, {}, { pauses: { firstMs: 200_000, mostMs: 200_000 }, callMs: 100_000 }); // longer than this test
  await sealed(shop, (await shop.issue()).job_ref);
  await until(() => net.passed.some((said) => isPicture(said) && said.status === 500));
  await sealed(shop, (await shop.issue()).job_ref);
  await until(() => net.passed.some((said) => isPicture(said) && said.status < 300));
  expect(station.state().buffer.pictures).toBeGreaterThan(0); // it is kept, and said again
});

test("pictures that are too much at once for a slow line go fewer at a time, and one that is too large for it holds up no other", async (t) => {
  const { shop, net, station, jobs } = await eightSealedAway(t);
  const isPicture = ({ method, path }: Passing) => method === "PUT" && path.startsWith("/api/v2/aidc/evidence/");
  let [underWay, crowd] = [0, 0];
  let large: string | undefined;
  net.rule(async (asked): Promise<Fate> => {
    if (!isPicture(asked)) return "pass";
    crowd = Math.max(crowd, (underWay += 1));
    await sleep(50);
    const isAlone = crowd === 1;
    if ((underWay -= 1) === 0) crowd = 0;
    return isAlone && (large ??= asked.path) !== asked.path ? "pass" : "cut";
  });
  net.mend();
  await until(() => station.state().buffer.pictures === 1);
  for (const { job_ref: ref } of jobs) await sealed(shop, ref);
  net.rule(() => "pass");
  await until(() => station.state().buffer.pictures === 0);
  expect(station.state().quarantine).toEqual([]);
});

test("a lease over which the cloud stumbles each time holds up no other", async (t) => {
  const settings = { claim: { ahead: 2, leaseSeconds: 5 } };
  const { shop, net, station } = await behind(t, { eyes: "hand", settings });
  const first = await shop.issue({ priority: 2 });
  await until(() => jobAt(station, first.job_ref)?.state === "PRINTED_ATTESTED");
  const stumbles = { status: 500, code: "INTERNAL_ERROR" };
  net.rule(({ path }) => (path.endsWith(`${first.job_ref}/heartbeat`) ? stumbles : "pass"));
  const next = await shop.issue({ priority: 1 });
  await until(() => jobAt(station, next.job_ref) !== undefined);
  const beats = (ref: string) => net.passed.filter(({ path }) => path.endsWith(`${ref}/heartbeat`)).length;
  await until(() => beats(first.job_ref) > 6);
  expect(beats(next.job_ref)).toBeGreaterThan(0);
});

test("on a slow line none of many jobs loses its lease while the others' are asked for", async (t) => {
  const [JOBS, LEASE_S, SLOW_MS] = [60, 15, 400]; // one after another they would take 24 s
  const { shop, net, station } = await behind(t, { eyes: "hand", settings: { claim: { ahead: JOBS, leaseSeconds: LEASE_S } } });
  const other = await shop.newDevice("line 2");
  await hasClaimed(net);
  await ask(station, "POST", "/api/pause");
  const serials = await shop.allocate(JOBS);
  const made = await shop.admin.post("/aidc/jobs/batch", { items: serials.map((serial) => ({ gtin: shop.gtin, serial })) });
  expect(made.body.created).toBe(JOBS);
  net.rule(async ({ path }): Promise<Fate> => {
    if (path.endsWith("/heartbeat")) await sleep(SLOW_MS);
    return "pass";
  });
  await ask(station, "POST", "/api/resume");
  await until(() => station.state().jobs.length === JOBS);
  const beaten = () => new Set(net.passed.flatMap(({ path, status }) => (path.endsWith("/heartbeat") && status === 200 ? path : [])));
  await until(async () => {
    expect((await other.api.post("/aidc/jobs/claim", { station: "line-1" })).status).toBe(204);
    return beaten().size === JOBS;
  });
});

test("a label of whose lease the cloud can't say anything keeps no other of its printer waiting, and is printed once it can", async (t) => {
  const settings = { claim: { ahead: 3, leaseSeconds: 600 } };
  const { shop, net, station: first } = await behind(t, { eyes: "hand", settings });
  const [before, bad, next] = [await shop.issue({ priority: 3 }), await shop.issue({ priority: 2 }), await shop.issue({ priority: 1 })];
  const isClaimed = () => [bad, next].every(({ job_ref: ref }) => jobAt(first, ref) !== undefined);
  await until(() => jobAt(first, before.job_ref)?.state === "PRINTED_ATTESTED" && isClaimed() && first.state().buffer_depth === 0);
  await first.end(); // from now on no lease is believed before the cloud has said so
  net.rule(({ path }) => (path.endsWith(`${bad.job_ref}/heartbeat`) ? { status: 500, code: "INTERNAL_ERROR" } : "pass"));
  const station = await stationOn(t, first.floor);
  await ask(station, "POST", "/api/scan", { text: before.digital_link });
  await until(() => jobAt(station, next.job_ref)?.state === "PRINTED_ATTESTED", 30_000);
  net.rule(() => "pass");
  await ask(station, "POST", "/api/scan", { text: next.digital_link });
  await until(() => jobAt(station, bad.job_ref)?.state === "PRINTED_ATTESTED");
  expect(await station.floor.links()).toEqual([before, next, bad].map(({ digital_link: text }) => text));
});

test("a cloud that can't be reached is told of with the reason, and so is its broker", async (t) => {
  const settings = { cloud: `http://127.0.0.1:${await freePort()}`, key: "imp_any" };
  const message = `${settings.cloud} doesn't answer: connect ECONNREFUSED ${settings.cloud.slice(7)}`;
  const cloud = cloudClient(settings.cloud, settings.key);
  expect(await cloud.station()).toMatchObject({ status: 0, message });
  const wake = startWake({ settings, cloud, onWake: () => {}, onDoubt: () => {}, report: () => ({}), log: quietLog().log.logger });
  t.onTestFinished(wake.stop);
  await expect.poll(wake.link).toEqual({ up: false, why: message });
});

describe.concurrent("something halfway answers in the cloud's place", () => {
  test.for([400, 405, 409, 410, 422])(
    "with %i and a page: that settles nothing, and the label is sealed once it is gone",
    async (status, t) => {
      const { shop, net, station } = await behind(t);
      let answered = 0;
      net.rule(({ path }) => (/\/(results?|heartbeat)$/.test(path) ? ((answered += 1), { status, page: "<html>Blocked</html>" }) : "pass"));
      const { job_ref: ref } = await shop.issue();
      await until(() => answered > 2 && jobAt(station, ref)?.stage === "sealing");
      expect(station.lines.filter((line) => line.includes('"event":"stranger"'))).toHaveLength(1);
      net.rule(() => "pass");
      await sealed(shop, ref);
      expect(station.state()).toMatchObject({ quarantine: [] });
      expect(await movesOf(shop, ref)).toEqual(WHOLE);
    },
  );

  test.for([502, 200])("with %i and a page, to everything: the cloud is said to be away until it answers itself", async (status, t) => {
    const { net, station } = await behind(t);
    await until(() => station.state().online);
    net.rule(() => ({ status, page: "<html>Not the cloud</html>" }));
    await until(() => !station.state().online, 20_000);
    expect(station.state()).toMatchObject({ status: "offline", stopped: null });
    net.rule(() => "pass");
    await until(() => station.state().online);
  });

  const PORTAL = { status: 302, page: "<html>Sign in</html>" };
  const gateways = JSON.stringify({ error: { code: "BadRequest", message: "Bad Request" } });
  test.for([
    { status: 413, page: "<html>Too large</html>" },
    { status: 403, page: "<html>Blocked</html>" },
    { status: 406, page: "<html>Blocked</html>" },
    { status: 400, page: gateways },
  ])("with $status and $page, to one report: others go first, it is kept until it may pass, and nothing is refused", async (answer, t) => {
    const { shop, net, station } = await behind(t);
    const { job_ref: ref } = await shop.issue();
    let isNarrow = true;
    const isDisliked = ({ path, body }: Passing) =>
      /\/results?$/.test(path) && `${path} ${body}`.includes(ref) && body.includes("RENDERED");
    net.rule((passing) => (isNarrow && isDisliked(passing) ? answer : "pass"));
    await until(() => jobAt(station, ref)?.stage === "sealing");
    await sealed(shop, (await shop.issue()).job_ref);
    await until(() => station.state().online); // between its tries, which come soon here, nothing may have been heard of the cloud
    expect(station.state()).toMatchObject({ quarantine: [] });
    isNarrow = false;
    await sealed(shop, ref);
    expect(await movesOf(shop, ref)).toEqual(WHOLE);
  });

  test("with a page, to one report and then to everything: once the cloud is back it doesn't wait for its turn behind all others", async (t) => {
    const { shop, net, station } = await behind(t, {}, w, { pauses: { firstMs: 50, mostMs: 600_000 } });
    net.rule(({ path }) => (/\/results?$/.test(path) ? PORTAL : "pass"));
    const { job_ref: ref } = await shop.issue();
    await until(() => station.lines.some((line) => line.includes('"event":"stumbled"')));
    net.rule(() => PORTAL);
    await until(() => !station.state().online, 20_000);
    net.rule(() => "pass");
    await sealed(shop, ref);
    expect(await movesOf(shop, ref)).toEqual(WHOLE);
  });

  test("with 406 and a page, to the reports of one label for longer than its lease: meanwhile nobody else gets its job", async (t) => {
    const { shop, net, station } = await behind(t, { settings: { claim: { ahead: 1, leaseSeconds: 5 } } });
    const { job_ref: ref } = await shop.issue();
    const isDisliked = ({ path, body }: Passing) => /\/results?$/.test(path) && `${path} ${body}`.includes(ref);
    net.rule((passing) => (isDisliked(passing) ? { status: 406, page: "<html>Blocked</html>" } : "pass"));
    await until(() => jobAt(station, ref)?.stage === "sealing");
    await sleep(7_000);
    await sealed(shop, (await shop.issue()).job_ref);
    net.rule(() => "pass");
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body.attempt).toBe(1);
    await sealed(shop, ref);
    expect(await movesOf(shop, ref)).toEqual(WHOLE);
  });

  test("with 413 and a page, to pictures: a few are kept, the rest is shown to people before it fills the disk", async (t) => {
    const { net, station } = await behind(t);
    const isNarrow = ({ method }: Passing) => method === "PUT";
    net.rule((passing) => (isNarrow(passing) ? { status: 413, page: "<html>Too large</html>" } : "pass"));
    for (let n = 0; n < 12; n += 1) station.store.picture(String(n).padStart(64, "0"), "image/png", new Uint8Array(8));
    await until(() => station.state().quarantine.length === 4 && station.state().buffer.pictures === 8);
    await sleep(500);
    expect(station.state().quarantine.map(({ code }) => code)).toEqual(Array.from({ length: 4 }, () => "HTTP_413"));
  });

  test("and alters the address of each call: the cloud knows no such one, and no job is given up for that", async (t) => {
    const shop = await printShop(w);
    const way = { url: w.url };
    const net = await netTo(t, way);
    const station = await running(t, net.url, shop, { eyes: "hand" });
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
    way.url = `${w.url}/cloud`; // as nginx does for a slash behind its upstream
    await ask(station, "POST", "/api/scan", { text });
    await until(() => net.passed.filter(({ path, status }) => /\/results?$/.test(path) && status === 404).length > 2);
    expect(station.state()).toMatchObject({ online: false, sealing: 1, jobs: [{ job_ref: ref, ask: null }] });
    way.url = w.url;
    await sealed(shop, ref);
    expect([await movesOf(shop, ref), station.state().quarantine]).toEqual([WHOLE, []]);
  });

  test("with 204 and nothing: no report is with the cloud by that, and each is said again", async (t) => {
    const { shop, net, station } = await behind(t);
    let answered = 0;
    net.rule(({ path }) => (/\/results?$/.test(path) && answered < 3 ? ((answered += 1), { status: 204, page: "" }) : "pass"));
    const { job_ref: ref } = await shop.issue();
    await until(() => answered > 2);
    await sealed(shop, ref);
    expect(station.state()).toMatchObject({ quarantine: [] });
    expect(await movesOf(shop, ref)).toEqual(WHOLE);
  });

  test("with a refusal as long as a book, which a terminal would obey: what is kept of it is a line of words", async (t) => {
    const { net, station } = await behind(t);
    const error = { code: "UNAUTHORIZED", message: `\u001b[2Jno\n${"x".repeat(1_000_000)}` };
    net.rule(() => ({ status: 401, page: JSON.stringify({ error }) }));
    await until(() => station.state().stopped !== null);
    expect(station.state().stopped).toMatch(/^UNAUTHORIZED: \P{Cc}{100,3000}$/u);
    expect(Math.max(...station.lines.map(({ length }) => length))).toBeLessThan(10_000);
  });

  test("with a way elsewhere: it is told where to, and nobody there is asked, or would have our key", async (t) => {
    let asked = 0;
    const elsewhere = createServer((_request, response) => void response.end(String((asked += 1))));
    const there = `http://127.0.0.1:${await listening(elsewhere)}/login`;
    const net = createServer(
      (request, response) => void response.writeHead(Number(request.headers["idempotency-key"] ?? 302), { location: there }).end(),
    );
    const url = `http://127.0.0.1:${await listening(net)}`;
    t.onTestFinished(() => Promise.all([closed(elsewhere), closed(net)]).then(() => {}));
    const cloud = cloudClient(url, "imp_any");
    for (const status of [301, 302, 303, 307, 308])
      expect(await cloud.result(resultOf("pj"), String(status))).toEqual({
        ok: false, status, code: `HTTP_${status}`, leadsTo: there, message: `the cloud answered ${status}, which leads to ${there}`,
      }); // oxfmt-ignore
    expect(asked).toBe(0);
  });

  test("with an answer that comes byte by byte and never ends: once it is given up its connection is, too", async (t) => {
    let open = 0;
    const dripping = createServer((_request, response) => {
      open += 1;
      const drips = setInterval(() => response.write(" "), 20);
      response.writeHead(200).once("close", () => {
        clearInterval(drips);
        open -= 1;
      });
    });
    const url = `http://127.0.0.1:${await listening(dripping)}`;
    t.onTestFinished(() => closed(dripping));
    const said = cloudClient(url, "imp_any", { timeoutMs: 1_000 }).station();
    await until(() => open === 1);
    await sleep(200); // the head is read
    setFlagsFromString("--expose-gc");
    for (let i = 0; i < 3; i += 1) await sleep(50).then(() => runInNewContext("gc")() as void); // with the request goes what its signal would end
    expect(await said).toMatchObject({ ok: false, message: expect.stringContaining("no whole answer within 1000 ms") });
    await t.expect.poll(() => open, { timeout: 10_000 }).toBe(0);
  });

  test("with a refusal in the shape of ours, and a code that none of ours has: it is a page", async (t) => {
    const gateway = createServer(
      (_request, response) => void response.writeHead(400).end('{"error":{"code":"BadRequest","message":"no"}}'),
    );
    const url = `http://127.0.0.1:${await listening(gateway)}`;
    t.onTestFinished(() => closed(gateway));
    expect(await cloudClient(url, "imp_any").result(resultOf("pj"), "a key")).toMatchObject({ ok: false, status: 400, code: "HTTP_400" });
  });

  test("with what it answered to another call: that is no answer, and an id that it makes up itself is no sign of it", async (t) => {
    const earlier: string[] = [];
    let idFor = (own: string) => own;
    const between = createServer(({ headers: { "x-correlation-id": own = "" } }, response) => {
      earlier.push(String(own));
      response.writeHead(200, { "x-correlation-id": idFor(String(own)) }).end('{"keys":[]}');
    });
    const url = `http://127.0.0.1:${await listening(between)}`;
    t.onTestFinished(() => closed(between));
    const said = () => cloudClient(url, "imp_any").jwks();
    expect(await said()).toMatchObject({ ok: true });
    idFor = () => earlier[0] ?? "";
    expect(await said()).toMatchObject({ ok: false, status: 0, message: expect.stringContaining("the answer to another call") });
    for (const id of ["6f1c2c1e-7c0b-4f5e-8a37-2f3f8f0f1a11", "0199d1c2-8e3a-7aa0-8f00-000000000001", "8".repeat(32), "gw-1"]) {
      idFor = () => id;
      expect(await said()).toMatchObject({ ok: true });
    }
    for (const added of [(own: string) => `${own}, ${own}`, (own: string) => `gw-1, ${own}`, (own: string) => `${own};hop=1`]) {
      idFor = added; // its own header beside the cloud's
      expect(await said()).toMatchObject({ ok: true });
    }
  });

  test.for([
    ["to each report", false],
    ["in the same click", true],
  ] as const)("with what it answered before %s: no report is with the cloud by that, and it is said again", async ([, isClick], t) => {
    const { shop, net, station } = await behind(t, { eyes: "hand" });
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED" && station.state().buffer_depth === 0);
    let [taken, answered] = [0, 0];
    net.rule((passing) => {
      if (!/\/results?$/.test(passing.path)) return "pass";
      if (statusOf(passing) === "SCAN_VERIFIED" && isClick) return ((taken += 1), "pass"); // and what is kept then has the id of the click
      return ((answered += 1), "kept");
    });
    await ask(station, "POST", "/api/scan", { text });
    await until(() => answered > 3);
    expect([taken, station.state()]).toMatchObject([isClick ? 1 : 0, { sealing: 1, buffer_depth: isClick ? 1 : 2 }]);
    net.rule(() => "pass");
    await sealed(shop, ref);
    expect(await movesOf(shop, ref)).toEqual(WHOLE);
  });

  test("without an end: it isn't heard out", async (t) => {
    const endless = await startRegistry();
    t.onTestFinished(endless.end);
    await endless.behave("giant");
    const why = expect.stringMatching(/answers more than \d+ bytes/);
    expect(await cloudClient(endless.url, "imp_any").station()).toMatchObject({ ok: false, status: 0, message: why });
  });

  test("with 503 and a month to wait: the cloud is asked again within minutes, and not without a pause", async (t) => {
    const { shop, net, station } = await behind(t);
    let answered = 0;
    net.rule(({ path }) =>
      /\/results?$/.test(path) ? ((answered += 1), { status: 503, code: "NOT_READY", retryAfter: 30 * 86_400 }) : "pass",
    );
    const { job_ref: ref } = await shop.issue();
    await until(() => jobAt(station, ref)?.stage === "sealing");
    await sleep(500);
    expect(answered).toBeLessThan(3);
    const said = await cloudClient(net.url, shop.device.secret).result(resultOf(ref), "a key");
    expect(said).toMatchObject({ ok: false, retryAfterMs: 300_000 });
  });

  test("with 429 and a while to wait for pictures: none is sent again before that", async (t) => {
    const { shop, net } = await behind(t);
    let refused = 0;
    net.rule(({ method }) => (method === "PUT" ? ((refused += 1), { status: 429, code: "RATE_LIMITED", retryAfter: 60 }) : "pass"));
    await sealed(shop, (await shop.issue()).job_ref);
    await until(() => refused > 0);
    const before = refused;
    await sleep(1_500);
    expect(refused).toBe(before);
  });

  test.for([
    ["7", 7_000],
    ["Fri, 02 Jan 2026 00:00:07 GMT", 7_000],
    ["Thu, 01 Jan 2026 23:59:59 GMT", undefined],
    ["Fri, 31 Dec 2999 00:00:00 GMT", 300_000],
    ["-7", undefined],
    ["soon", undefined],
  ] as const)("and Retry-After: %s: by the clock of who says it that is %i ms", async ([said, retryAfterMs], t) => {
    const headers = { "retry-after": said, date: "Fri, 02 Jan 2026 00:00:00 GMT" };
    const busy = createServer((_request, response) => void response.writeHead(503, headers).end());
    const url = `http://127.0.0.1:${await listening(busy)}`;
    t.onTestFinished(() => closed(busy));
    expect(((await cloudClient(url, "imp_any").station()) as { retryAfterMs?: number }).retryAfterMs).toBe(retryAfterMs);
  });

  test("with 200 and a page: a picture isn't with the cloud by that, and is sent again", async (t) => {
    const { shop, net } = await behind(t);
    let answered = 0;
    net.rule(({ method }) => (method === "PUT" ? ((answered += 1), { status: 200, page: "<html>Sign in</html>" }) : "pass"));
    const { job_ref: ref } = await shop.issue();
    await sealed(shop, ref);
    await until(() => answered > 0);
    net.rule(() => "pass");
    const [item] = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body.items;
    const path = `/aidc/evidence/${item.evidence.render_manifest.preview_sha256}`;
    await until(async () => (await shop.admin.get(path)).status === 200);
    expect((await shop.admin.get(path)).status).toBe(200);
  });
});

const REPORTS = ["POST /aidc/jobs/{ref}/result", "POST /aidc/orphans", "PUT /aidc/evidence/{sha256}"];
test("every code that a route of reports names has its place in the table, and what isn't there is judged by its status", () => {
  const own = routes.filter(({ method, path }) => REPORTS.includes(`${method} ${path}`));
  expect(own).toHaveLength(REPORTS.length);
  const codes = [...own.flatMap(({ refusals = [] }) => refusals), "INTERNAL_ERROR" as const];
  expect(Object.fromEntries(codes.map((code) => [code, fateOf({ code, status: errors[code].status })]))).toEqual({
    STALE_ATTEMPT: "drop",
    ENVELOPE_EXPIRED: "drop",
    NOT_FOUND: "drop",
    ILLEGAL_TRANSITION: "quarantine",
    DEVICE_KEY_REQUIRED: "stop",
    EVIDENCE_REQUIRED: "quarantine",
    EVIDENCE_INVALID: "quarantine",
    SCAN_MISMATCH: "quarantine",
    BUNDLE_MISMATCH: "quarantine",
    SIMULATED_EVIDENCE: "quarantine",
    INTERNAL_ERROR: "aside",
  });
  const altered = ["MALFORMED_REQUEST", "MALFORMED_JSON", "METHOD_NOT_ALLOWED", "URI_TOO_LONG", "UNSUPPORTED_MEDIA_TYPE", "HEADERS_TOO_LARGE"] as const; // oxfmt-ignore
  expect(altered.map((code) => fateOf({ code, status: errors[code].status }))).toEqual(altered.map(() => "aside"));
  expect([0, 401, 403, 404, 408, 409, 410, 418, 429, 500, 599].map((status) => fateOf({ status, code: "?" }))).toEqual([
    "retry", "stop", "stop", "retry", "retry", "drop", "drop", "quarantine", "retry", "retry", "retry",
  ]); // oxfmt-ignore
});
