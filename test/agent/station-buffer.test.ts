// A buffer that can't be read any more, with jobs in flight: set aside, asked of the cloud, and nothing is printed twice by itself.
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import { describe, expect, test, type TestContext } from "vitest";
import { openBuffer } from "../../agent/buffer.ts";
import { systemClock } from "../../agent/clock.ts";
import type { SimulatedFloor } from "../../fixtures/floor.ts";
import { printShop, type Shop } from "../../fixtures/print-shop.ts";
import { freshFolder } from "../endings.ts";
import { world } from "../world.ts";
import {
  ask,
  asked,
  begunInVain,
  floorOf,
  HASTY,
  jobAt,
  netTo,
  type Running,
  say,
  sealed,
  sessionAt,
  stateInCloud,
  stationOn,
  until,
} from "./floor.ts";

const w = await world();

const PAGE_BYTES = 4_096;
const inFile = (file: string, sql: string) => {
  const db = new Database(file);
  db.exec(sql);
  db.close();
};
const damages: [what: string, how: (file: string) => void, why: RegExp][] = [
  ["is garbage", (file) => writeFileSync(file, Buffer.alloc(65_536, "garbage ")), /not a database/],
  [
    "was cut in half",
    (file) => truncateSync(file, Math.floor(statSync(file).size / PAGE_BYTES / 2) * PAGE_BYTES),
    /malformed|database disk image|page|tree/i,
  ],
  ["is empty", (file) => truncateSync(file, 0), /empty/],
  [
    "has a page whose bits are turned",
    (file) => {
      const bytes = readFileSync(file);
      writeFileSync(file, bytes.map((byte, at) => (at >= PAGE_BYTES && at < 2 * PAGE_BYTES ? byte ^ 0xff : byte))); // oxfmt-ignore
    },
    /malformed|tree|page/i,
  ],
  [
    "has the tables of something else",
    (file) => inFile(file, "DROP TABLE acts; CREATE TABLE acts (what TEXT)"),
    /aren't those of a buffer/,
  ],
  ["says a version that never was", (file) => inFile(file, "PRAGMA user_version = -7"), /aren't those of a buffer/],
  ["holds work that can't be read", (file) => inFile(file, "UPDATE attempts SET work = '{'"), /2 of its rows can't be read/],
  [
    "holds work of which it says two things",
    (file) => inFile(file, "UPDATE attempts SET task = replace(task, '127.', '137.')"),
    /2 of its/,
  ],
  ["holds a stage that there isn't", (file) => inFile(file, "UPDATE attempts SET stage = 'waitinc' WHERE stage = 'waiting'"), /1 of its/],
  ["holds told reports that can't be read", (file) => inFile(file, "UPDATE reports SET body = substr(body, 2)"), /[1-9] of its rows/],
  ["doesn't know any more whose it is", (file) => inFile(file, "UPDATE meta SET value = '[' WHERE name = 'station'"), /1 of its rows/],
  ["has forgotten how the counter stood", (file) => inFile(file, "UPDATE meta SET value = '1q' WHERE name LIKE 'odometer:%'"), /1 of its/],
  ["holds a label in a state that there isn't", (file) => inFile(file, "UPDATE ledger SET state = 'prinued'"), /1 of its rows/],
];
const fileOf = (floor: SimulatedFloor) => join(floor.config.dataDir, "station.db");
const asideIn = (floor: SimulatedFloor) =>
  readdirSync(floor.config.dataDir).filter((name) => name.startsWith("station.db.damaged-") && !/-(wal|shm)$/.test(name));
const printed = (station: Running, ref: string) => until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");

/** One label printed and waiting for its scan, the next one claimed and not begun; then the station ends. */
async function inFlight(t: Parameters<typeof floorOf>[0], shop: Shop) {
  const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
  const station = await stationOn(t, floor);
  const first = await shop.issue({ priority: 2 });
  const second = await shop.issue({ priority: 1 });
  await printed(station, first.job_ref);
  await until(() => jobAt(station, second.job_ref) !== undefined && station.state().buffer_depth === 0);
  await station.end();
  return { floor, first, second };
}

describe.concurrent.for(damages)("a buffer that %s", ([, damage, why]) => {
  test("is set aside and said; what the cloud knows goes on, what it can't know is asked, and every label comes out once", async (t) => {
    const shop = await printShop(w);
    const { floor, first, second } = await inFlight(t, shop);
    damage(fileOf(floor));
    const damaged = readFileSync(fileOf(floor));
    const station = await stationOn(t, floor);

    const [aside = ""] = asideIn(floor);
    expect(readFileSync(join(floor.config.dataDir, aside)).equals(damaged)).toBe(true);
    const { body: health } = await ask(station, "GET", "/healthz");
    expect(health).toEqual({ status: "degraded", notices: [{ code: "buffer_set_aside", words: expect.stringMatching(why) }] });
    expect(station.state().notices[0]?.words).toContain(aside);
    expect(station.lines.find((line) => line.includes('"event":"buffer"'))).toContain(aside);

    await until(() => asked(station, second.job_ref) === "unknown_outcome" && jobAt(station, first.job_ref) !== undefined);
    expect(jobAt(station, first.job_ref)).toMatchObject({ stage: "printed", state: "PRINTED_ATTESTED" });
    await ask(station, "POST", "/api/scan", { text: first.digital_link });
    await sealed(shop, first.job_ref);
    expect(await floor.links()).toEqual([first.digital_link]);
    await until(() => station.state().printers[0]?.words.startsWith("waits for an answer") ?? false); // by then it knows where the counter stands
    expect((await say(station, second.job_ref, "not_printed")).status).toBe(200);
    await printed(station, second.job_ref);
    await ask(station, "POST", "/api/scan", { text: second.digital_link });
    await sealed(shop, second.job_ref);
    expect(await floor.links()).toEqual([first.digital_link, second.digital_link]);
    expect(station.state().quarantine).toEqual([]);
  });
});

test.concurrent("one whose start was killed between setting it aside and beginning anew is asked of the cloud all the same", async (t) => {
  const shop = await printShop(w);
  const { floor, first, second } = await inFlight(t, shop);
  renameSync(fileOf(floor), `${fileOf(floor)}.damaged-20261125T120000Z`);
  const station = await stationOn(t, floor);
  await until(() => asked(station, second.job_ref) === "unknown_outcome" && jobAt(station, first.job_ref)?.stage === "printed");
  expect(station.state().notices).toMatchObject([{ code: "buffer_set_aside", words: expect.stringContaining("damaged-20261125T120000Z") }]);
  expect(await floor.links()).toEqual([first.digital_link]);
});

test("each damaged file is kept with what SQLite wrote beside it, and none takes another's place", () => {
  const folder = freshFolder("aside");
  const file = join(folder, "station.db");
  const clock = { ...systemClock, now: () => Date.parse("2026-11-25T12:00:00.000Z") };
  openBuffer(folder, clock).close();
  const aside = ["the commits of the first", "the commits of the second"].map((commits) => {
    truncateSync(file, 0);
    writeFileSync(`${file}-wal`, commits);
    const store = openBuffer(folder, clock);
    const name = store.setAside()?.file ?? "";
    store.close();
    return [name, readFileSync(`${name}-wal`, "utf8")];
  });
  const name = `${file}.damaged-20261125T120000Z`;
  expect(aside).toEqual([[name, "the commits of the first"], [`${name}-2`, "the commits of the second"]]); // oxfmt-ignore
  expect([name, `${name}-2`, `${name}-wal`, `${name}-2-wal`].map((each) => existsSync(each))).toEqual([true, true, true, true]);
});

test.concurrent("a buffer in which another version kept words by a name of its own is whole: the upgrade goes on with its labels", async (t) => {
  const shop = await printShop(w);
  const { floor, first, second } = await inFlight(t, shop);
  inFile(fileOf(floor), "INSERT INTO meta (name, value) VALUES ('product:09506006000019', 'Kettle 1.7')"); // as the first console did
  const station = await stationOn(t, floor);
  expect([asideIn(floor), station.state().notices]).toEqual([[], []]);
  for (const { job_ref: ref, digital_link: text } of [first, second]) {
    await printed(station, ref);
    await ask(station, "POST", "/api/scan", { text });
    await sealed(shop, ref);
  }
  expect(await floor.links()).toEqual([first.digital_link, second.digital_link]);
});

test.concurrent("a label that was printed and never told of is asked for, found, and sealed with evidence that the cloud takes", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const floor = await floorOf(t, net.url, shop, { eyes: "hand", rfid: true });
  const before = await stationOn(t, floor);
  net.rule(({ path }) => (/\/results?$|heartbeat/.test(path) ? "cut" : "pass"));
  const { job_ref: ref, digital_link: text } = await shop.issue({ needs: ["qr", "rfid"] });
  await printed(before, ref);
  expect(await stateInCloud(shop, ref)).toBe("CLAIMED");
  await before.end();
  writeFileSync(fileOf(floor), "lost");
  net.rule(() => "pass");
  const station = await stationOn(t, floor);
  await until(() => asked(station, ref) === "unknown_outcome");
  expect((await say(station, ref, "destroyed")).status).toBe(200);
  await printed(station, ref);
  await ask(station, "POST", "/api/scan", { text });
  await sealed(shop, ref);
  expect(await floor.links()).toEqual([text, text]); // the first of them was destroyed, as a person said
  expect(station.state().quarantine).toEqual([]);
});

/** A station's whole run: what it does there, until the cloud has heard all of it. */
async function runOf(t: TestContext, floor: Parameters<typeof stationOn>[1], act: (station: Running) => Promise<unknown>): Promise<void> {
  const station = await stationOn(t, floor);
  await act(station);
  await until(() => station.state().buffer_depth === 0);
  await station.end();
}

test.concurrent("one that was put back to how it was prints nothing again, and asks for no label that is sealed: the cloud has heard of them", async (t) => {
  const shop = await printShop(w);
  const { floor, first, second } = await inFlight(t, shop);
  const copy = readFileSync(fileOf(floor));
  const labels = [first.digital_link, second.digital_link];
  await runOf(t, floor, async (station) => {
    await ask(station, "POST", "/api/pause");
    await ask(station, "POST", "/api/scan", { text: first.digital_link });
    await sealed(shop, first.job_ref);
  });
  const prints = async (station: Running) => {
    await ask(station, "POST", "/api/resume");
    await printed(station, second.job_ref);
  };
  await runOf(t, floor, prints);
  writeFileSync(fileOf(floor), copy);
  await runOf(t, floor, async (station) => {
    await prints(station);
    await until(() => station.state().recent.some(({ job_ref: ref, ended }) => ref === first.job_ref && ended === "sealed"));
    expect(await floor.links()).toEqual(labels);
    await ask(station, "POST", "/api/scan", { text: second.digital_link });
    await sealed(shop, second.job_ref);
    expect(station.state().quarantine).toEqual([]);
  });
  expect(await floor.links()).toEqual(labels);
});

test.concurrent("nor is a label that is sealed taken for one whose job went on, where the buffer is put back to how it was when a person was asked", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop, { eyes: "hand", config: { attest: "operator" } });
  const { job_ref: ref, digital_link: text } = await shop.issue();
  await runOf(t, floor, (station) => until(() => asked(station, ref) === "attest"));
  const copy = readFileSync(fileOf(floor));
  await runOf(t, floor, async (station) => {
    expect((await say(station, ref, "good")).status).toBe(200);
    await ask(station, "POST", "/api/scan", { text });
    await sealed(shop, ref);
  });
  writeFileSync(fileOf(floor), copy);
  await runOf(t, floor, async (station) => {
    await until(() => station.state().jobs.every(({ stage }) => stage === "orphan")); // none, where it is known that it is sealed
    expect(station.state().ledger.counts).toEqual({ sealed: 1 });
    expect(station.state().recent).toMatchObject([{ job_ref: ref, ended: "sealed" }]);
    expect(station.state().quarantine).toEqual([]);
  });
  expect((await shop.admin.get("/aidc/orphans")).body.data).toEqual([]);
  expect(await floor.links()).toEqual([text]);
});

/** Prints a label of which the cloud hears nothing, on a buffer that is then put back to how it was before, or taken away. */
async function putBack(
  t: TestContext,
  cloud: typeof w,
  to: "when it was claimed" | "before it was claimed" | "nothing",
  then: (station: Running, ref: string) => Promise<unknown> = async () => {},
) {
  const shop = await printShop(cloud);
  const net = await netTo(t, cloud);
  const floor = await floorOf(t, net.url, shop, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 30 } } });
  const before = await stationOn(t, floor);
  const first = await shop.issue({ priority: 2 });
  await printed(before, first.job_ref);
  const claimed = to === "when it was claimed" ? await shop.issue({ priority: 1 }) : undefined;
  await until(() => (!claimed || jobAt(before, claimed.job_ref) !== undefined) && before.state().buffer_depth === 0);
  await before.end();
  const copy = readFileSync(fileOf(floor));

  const station = await stationOn(t, floor);
  await ask(station, "POST", "/api/pause");
  await ask(station, "POST", "/api/scan", { text: first.digital_link });
  await sealed(shop, first.job_ref);
  const job = claimed ?? (await shop.issue({ priority: 1 }));
  net.rule(({ path, body }) => (/\/results?$/.test(path) && `${path} ${body}`.includes(job.job_ref) ? "cut" : "pass"));
  await ask(station, "POST", "/api/resume");
  await printed(station, job.job_ref);
  await then(station, job.job_ref);
  await station.end();
  expect(await stateInCloud(shop, job.job_ref)).toBe("CLAIMED");
  if (to === "nothing") rmSync(fileOf(floor));
  else writeFileSync(fileOf(floor), copy);
  net.rule(() => "pass");
  const again = async (options: Parameters<typeof stationOn>[2] = {}) => {
    const next = await stationOn(t, floor, options);
    await ask(next, "POST", "/api/resume"); // where it is known that it was paused
    return next;
  };
  return { shop, net, floor, first, job, again };
}

const toldOfIt = ({ lines }: Running) => lines.filter((line) => line.includes('"event":"buffer"'));
test.concurrent.for(["when it was claimed", "before it was claimed", "nothing"] as const)(
  "a label of which the cloud has heard nothing isn't printed again by a buffer that was put back to %s: it is asked for, and sealed",
  async (to, t) => {
    const { shop, floor, first, job, again } = await putBack(t, w, to);
    const labels = [first.digital_link, job.digital_link];
    const station = await again();
    expect(toldOfIt(station)).toEqual([expect.stringContaining("begun here that the buffer doesn't know")]);
    await until(() => asked(station, job.job_ref) === "unknown_outcome");
    expect((await say(station, job.job_ref, "good")).status).toBe(200);
    await ask(station, "POST", "/api/scan", { text: job.digital_link });
    await sealed(shop, job.job_ref);
    await until(() => station.store.meta("adoption") === "done" && station.state().buffer_depth === 0);
    expect(await floor.links()).toEqual(labels);
    expect([station.state().quarantine, station.state().notices]).toEqual([[], []]);
    await station.end();
    expect(toldOfIt(await again())).toEqual([]); // it knows them by now
  },
);

test.concurrent("nor is one printed again that a person had given up since then, of which the cloud hasn't heard either", async (t) => {
  const giveUp = (station: Running, ref: string) => say(station, ref, "misprint");
  const { shop, floor, first, job, again } = await putBack(t, w, "when it was claimed", giveUp);
  const station = await again();
  await until(async () => asked(station, job.job_ref) !== null || (await floor.links()).length > 2);
  expect([asked(station, job.job_ref), await floor.links()]).toEqual(["unknown_outcome", [first.digital_link, job.digital_link]]);
  expect((await say(station, job.job_ref, "destroyed")).status).toBe(200);
  await until(async () => (await shop.admin.get(`/aidc/jobs/${job.job_ref}`)).body.attempt === 2);
  await until(() => station.store.meta("adoption") === "done" && station.state().buffer_depth === 0);
  await station.end();
  expect(toldOfIt(await again())).toEqual([]);
});

test.concurrent("a label that was begun is one label, though its lease is asked for twice at once: to keep it, and to begin it", async (t) => {
  const { shop, net, job, again } = await putBack(t, w, "when it was claimed");
  const { job_ref: ref, digital_link: text } = job;
  const both = Promise.withResolvers<void>();
  let calls = 0;
  net.rule(async ({ path }) => {
    if (!path.endsWith(`${ref}/evidence`)) return "pass" as const;
    calls += 1;
    if (calls === 2) both.resolve();
    await both.promise;
    return "pass" as const;
  });
  const station = await again({ callMs: 100_000 });
  await until(() => asked(station, ref) === "unknown_outcome");
  await sleep(500); // until both have heard
  expect(calls).toBe(2);
  expect((await say(station, ref, "good")).status).toBe(200);
  await ask(station, "POST", "/api/scan", { text });
  await until(() => jobAt(station, ref) === undefined);
  expect(station.state().quarantine).toEqual([]);
  await sealed(shop, ref);
  expect(station.state().ledger.counts).toEqual({ sealed: 2 });
});

test.concurrent("where its job went on meanwhile, the label that lies there is told of, and the next one of its serial waits for it", async (t) => {
  const own = await world({}, t.onTestFinished);
  const { shop, floor, first, job, again } = await putBack(t, own, "before it was claimed");
  const { job_ref: ref, digital_link: text } = job;
  const other = await shop.newDevice("line 2");
  own.later(60_000);
  await until(async () => (await other.api.post("/aidc/jobs/claim", { station: "line-1", lease_seconds: 30 })).status === 200);
  const station = await again();
  await until(() => station.state().ledger.counts["unknown"] === 1);
  own.later(60_000);
  await until(() => asked(station, ref) === "destroy_earlier");
  expect(await floor.links()).toEqual([first.digital_link, text]);
  expect((await say(station, ref, "destroyed")).status).toBe(200);
  await printed(station, ref);
  await ask(station, "POST", "/api/scan", { text });
  await sealed(shop, ref);
  expect(await floor.links()).toEqual([first.digital_link, text, text]);
});

test.concurrent("a label begun after the copy is asked for, though the cloud refuses what the copy says of its job before anything else", async (t) => {
  const own = await world({}, t.onTestFinished);
  const shop = await printShop(own);
  const drew = await begunInVain(t, own.url, shop, HASTY.answerMs);
  const { net, before, job } = drew;
  const { job_ref: ref, digital_link: text } = job;
  const { floor } = drew.station;
  await until(() => jobAt(drew.station, ref)?.stage === "rendered"); // of which the cloud hasn't heard
  await drew.station.end();
  const copy = readFileSync(fileOf(floor));
  floor.machine?.clear();
  const prints = await stationOn(t, floor);
  await until(() => jobAt(prints, ref)?.stage === "printed");
  await prints.end();
  writeFileSync(fileOf(floor), copy);
  const other = await shop.newDevice("line 2");
  own.later(60_000);
  await until(async () => (await other.api.post("/aidc/jobs/claim", { lease_seconds: 600 })).status === 200);
  const isRefused = () => net.passed.some(({ path, status }) => path.endsWith(`${ref}/result`) && status === 409);
  net.rule(async ({ path }) => {
    if (path.endsWith(`${ref}/evidence`)) await until(isRefused);
    return "pass" as const;
  });
  const station = await stationOn(t, floor);
  await until(() => isRefused() && station.store.ofJob(ref).every(({ ended }) => ended !== null || asked(station, ref) !== null));
  expect(asked(station, ref)).toBe("destroy_earlier");
  await until(async () => {
    if (asked(station, ref) !== null) await say(station, ref, "destroyed"); // once more where its counter tells of it
    return station.state().ledger.open.length === 0 && station.state().buffer_depth === 0;
  });
  expect(await floor.links()).toEqual([before.digital_link, text]);
  expect(station.state().quarantine).toEqual([]);
});

test.concurrent("what was begun after the copy isn't let go while a station that is paused can't hear what became of it", async (t) => {
  const { floor, job, net, again } = await putBack(t, w, "when it was claimed");
  const { job_ref: ref } = job;
  net.rule(({ path }) => (path.endsWith(`${ref}/evidence`) ? { status: 500, code: "INTERNAL_ERROR" } : "pass"));
  let off = 0;
  const station = await again({ clock: { ...systemClock, now: () => Date.now() + off } });
  await ask(station, "POST", "/api/pause");
  const rounds = () => net.passed.filter(({ path }) => path.endsWith("/aidc/station")).length; // each round begins so where minutes have passed
  for (let n = 0; n < 3; n += 1) {
    const before = rounds();
    off += 6 * 60_000;
    station.wake();
    await until(() => rounds() > before);
  }
  net.rule(() => "pass");
  await until(() => asked(station, ref) === "unknown_outcome");
  expect(await floor.links()).toHaveLength(2);
});

test.concurrent.for([true, false])(
  "what was sealed after the buffer was copied is asked of nobody, whether its end was noted beside it: %s",
  async (isOver, t) => {
    const shop = await printShop(w);
    const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
    const empty = await stationOn(t, floor);
    await until(() => empty.store.kept("odometer:printer") !== null);
    await empty.end();
    const copy = readFileSync(fileOf(floor));
    const before = await stationOn(t, floor);
    const { job_ref: ref, digital_link: text } = await shop.issue();
    await printed(before, ref);
    await ask(before, "POST", "/api/scan", { text });
    await sealed(shop, ref);
    await until(() => before.state().buffer_depth === 0);
    await before.end();
    writeFileSync(fileOf(floor), copy);
    const beside = `${fileOf(floor)}.begun`;
    const lines = readFileSync(beside, "utf8").split("\n");
    expect(lines).toEqual(["", expect.stringContaining(ref), expect.stringMatching(/^{"over":"/)]);
    writeFileSync(beside, [...(isOver ? lines : lines.slice(0, 2)), '{"n":2,"attempt'].join("\n")); // torn when the power failed
    const station = await stationOn(t, floor);
    await until(() => isOver || station.store.meta("adoption") === "done");
    expect([station.store.lost, station.store.lastActOfAll()]).toEqual([isOver ? 0 : 1, 1]);
    expect([station.state().ledger.counts, station.state().notices]).toEqual([{}, []]);
    const next = await shop.issue();
    await printed(station, next.job_ref);
    expect(await floor.links()).toEqual([text, next.digital_link]);
    expect(station.state().ledger.counts).toEqual({ printed: 1 }); // the one that moved the counter since the copy was this station's
  },
);

test.concurrent("what a printer read back of a tag is asked of the cloud, too: the label is sealed by its scan", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop, { eyes: "hand", rfid: true });
  const before = await stationOn(t, floor);
  const { job_ref: ref, digital_link: text, sgtin96_epc: epc } = await shop.issue({ needs: ["qr", "rfid"] });
  await printed(before, ref);
  await until(() => before.state().buffer_depth === 0);
  await before.end();
  writeFileSync(fileOf(floor), "lost");
  const station = await stationOn(t, floor);
  await printed(station, ref);
  expect((await ask(station, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
  await sealed(shop, ref);
  const { items } = (await shop.admin.get(`/aidc/jobs/${ref}/evidence`)).body;
  expect(items[3].evidence.scan_result.rfid).toMatchObject({ epc, reader: "printer" });
  expect(await floor.links()).toEqual([text]);
});

test.concurrent.for(["lost", "whole"])(
  "what the cloud has heard of another's attempt is none of ours, where the buffer is %s",
  async (how, t) => {
    const own = await world({}, t.onTestFinished);
    const shop = await printShop(own);
    const net = await netTo(t, own);
    const floor = await floorOf(t, net.url, shop, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 30 } } });
    const before = await stationOn(t, floor);
    const first = await shop.issue({ priority: 2 });
    const { job_ref: ref } = await shop.issue({ priority: 1 });
    await printed(before, first.job_ref);
    await until(() => jobAt(before, ref) !== undefined && before.state().buffer_depth === 0);
    await before.end();
    const other = await shop.newDevice("line 2");
    const goesOn = async () => {
      own.later(60_000);
      await until(async () => {
        const { status, body } = await other.api.post("/aidc/jobs/claim", { station: "line-1" });
        if (status === 200) await other.upTo(body, "SPOOL_SUBMITTED");
        return status === 200;
      });
      expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body).toMatchObject({ attempt: 2, state: "SPOOL_SUBMITTED" });
    };
    const isAsked = Promise.withResolvers<void>();
    const late = Promise.withResolvers<"pass">();
    net.rule(({ path }) => (path.endsWith(`${ref}/evidence`) ? (isAsked.resolve(), late.promise) : "pass"));
    if (how === "lost") writeFileSync(fileOf(floor), "lost");
    const station = await stationOn(t, floor);
    await isAsked.promise;
    await goesOn();
    late.resolve("pass");
    await until(
      () => station.store.meta("adoption") !== "due" && jobAt(station, ref) === undefined && jobAt(station, first.job_ref)?.ask === null,
    );
    expect(station.store.ofJob(ref).map(({ stage, ended }) => [stage, ended])).toEqual(how === "lost" ? [] : [["waiting", "stale"]]);
    expect(station.state().ledger.counts).toEqual({ printed: 1 });
    await until(() => station.state().buffer_depth === 0);
    expect((await shop.admin.get("/aidc/orphans")).body.data).toEqual([]);
  },
);

test("one that begins anew asks what became of all that it held, and not of the cloud's first page only", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  net.rule((passing) => (Object.assign(passing, { path: passing.path.replace(/limit=\d+/, "limit=1") }), "pass"));
  const floor = await floorOf(t, net.url, shop, { eyes: "hand" });
  const claimed: string[] = [];
  for (let n = 0; n < 3; n += 1) {
    await shop.issue();
    claimed.push((await shop.device.claim({ station: "line-1", lease_seconds: 600 })).job.job_ref);
  }
  mkdirSync(floor.config.dataDir, { recursive: true });
  writeFileSync(fileOf(floor), "lost");
  const station = await stationOn(t, floor);
  await until(() => station.store.meta("adoption") === "done");
  const held = station.store.inHand().map(({ jobRef, work }) => [jobRef, work.unknown === undefined]);
  expect(new Map(held as [string, boolean][])).toEqual(new Map(claimed.map((ref) => [ref, false])));
  const [{ attemptId } = { attemptId: "" }] = station.store.inHand();
  expect(station.store.items(attemptId)).toMatchObject([
    { status: "RENDERED" },
    { status: "SPOOL_SUBMITTED", evidence: { spool_receipt: { bytes: 1, note: expect.stringContaining("isn't known"), simulated: true } } },
  ]);
  expect(await floor.links()).toEqual([]);
});

test.concurrent("a label of a printer that nobody has any more is asked for, and given back on a person's word", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop, { eyes: "hand", rfid: true });
  const before = await stationOn(t, floor);
  floor.machine?.fault("fence-never");
  const { job_ref: ref } = await shop.issue({ needs: ["qr", "rfid"] });
  await until(async () => (await stateInCloud(shop, ref)) === "SPOOL_SUBMITTED");
  await before.end();
  writeFileSync(fileOf(floor), "lost");
  const [printer] = floor.config.printers;
  if (printer) Object.assign(printer, { name: "another", rfid: false });
  const station = await stationOn(t, floor);
  await until(() => asked(station, ref) === "unknown_outcome");
  expect((await say(station, ref, "destroyed")).status).toBe(200);
  await until(() => asked(station, ref) === "unknown_outcome"); // nobody can tell that printer to drop it
  expect((await say(station, ref, "destroyed")).status).toBe(200);
  await until(async () => (await stateInCloud(shop, ref)) === "FAILED");
});

test.concurrent("one that waits for word from the cloud claims nothing before it has it", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const { floor, first, second } = await inFlight(t, shop);
  floor.config.cloud = net.url;
  truncateSync(fileOf(floor), 100);
  net.rule(({ path }) => (path.startsWith("/api/v2/aidc/jobs?") ? { status: 503, code: "OVERLOADED" } : "pass"));
  const station = await stationOn(t, floor);
  const third = await shop.issue();
  await until(() => net.passed.filter(({ path }) => path.startsWith("/api/v2/aidc/jobs?")).length > 1);
  expect(net.passed.filter(({ path }) => path.endsWith("/claim/batch"))).toEqual([]);
  expect(station.state().notices[0]?.words).toContain("hasn't yet been asked");
  net.rule(() => "pass");
  await until(() => jobAt(station, third.job_ref) !== undefined);
  expect([jobAt(station, first.job_ref)?.stage, asked(station, second.job_ref)]).toEqual(["printed", "unknown_outcome"]);
});

test.concurrent("a job of which the cloud can't say what it has heard keeps no other waiting, and its label is looked for", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const { floor, first, second } = await inFlight(t, shop);
  floor.config.cloud = net.url;
  writeFileSync(fileOf(floor), "lost");
  net.rule(({ path }) => (path.endsWith(`${first.job_ref}/evidence`) ? { status: 500, code: "INTERNAL_ERROR" } : "pass"));
  let off = 0;
  const station = await stationOn(t, floor, { clock: { ...systemClock, now: () => Date.now() + off } });
  await until(() => asked(station, second.job_ref) === "unknown_outcome");
  expect(net.passed.filter(({ path }) => path.endsWith("/claim/batch"))).toEqual([]);
  off = 60_000;
  const third = await shop.issue();
  await until(() => jobAt(station, third.job_ref) !== undefined, 50_000);
  const words = expect.stringMatching(/^this station's buffer was lost.+: look for it, and explain it here$/);
  expect(station.state().ledger.open).toContainEqual(expect.objectContaining({ job_ref: first.job_ref, state: "unknown", words }));
  expect(station.store.meta("adoption")).toBe("done");
});

test.concurrent("one of a newer version is refused with one line and left as it is", async (t) => {
  const shop = await printShop(w);
  const { floor } = await inFlight(t, shop);
  inFile(fileOf(floor), "PRAGMA user_version = 99");
  const before = readFileSync(fileOf(floor));
  await expect(stationOn(t, floor)).rejects.toThrow(/^[^\n]*written by a newer agent \(version 99, this one knows \d+\)[^\n]*$/);
  expect(readFileSync(fileOf(floor)).equals(before)).toBe(true);
  expect(asideIn(floor)).toEqual([]);
});

test.concurrent("one from before versions were written down is taken as it is", async (t) => {
  const shop = await printShop(w);
  const { floor, first } = await inFlight(t, shop);
  inFile(
    fileOf(floor),
    "ALTER TABLE quarantine DROP COLUMN seen_by; ALTER TABLE quarantine DROP COLUMN seen_at; ALTER TABLE reports DROP COLUMN correlation; DROP INDEX attempts_in_hand; DROP INDEX attempts_over; DROP TRIGGER ledger_added; DROP TRIGGER ledger_removed; DROP TRIGGER ledger_moved; DROP TABLE ledger_counts; PRAGMA user_version = 0",
  );
  const station = await stationOn(t, floor);
  expect(station.state().notices).toEqual([]);
  expect(jobAt(station, first.job_ref)?.stage).toBe("printed");
  expect(existsSync(fileOf(floor))).toBe(true);
});

test("what is over and told is forgotten after a month; its label is counted for ever, and what somebody has to see to stays", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 60 } } });
  const first = await stationOn(t, floor);
  const good = await shop.issue({ priority: 3 });
  await printed(first, good.job_ref);
  await ask(first, "POST", "/api/scan", { text: good.digital_link });
  await sealed(shop, good.job_ref);
  const bad = await shop.issue({ priority: 2, max_attempts: 1 });
  await printed(first, bad.job_ref);
  await say(first, bad.job_ref, "misprint");
  const open = await shop.issue({ priority: 1 });
  await printed(first, open.job_ref);
  await until(() => first.state().buffer_depth === 0 && first.state().buffer.pictures === 0);
  await first.end();
  const leapt = await stationOn(t, floor, { clock: { ...systemClock, now: () => Date.now() + 31 * 86_400_000 } });
  await until(() => leapt.state().notices.some(({ code }) => code === "clock_off"));
  await sleep(2_000); // it has looked by then
  expect(leapt.store.ofJob(good.job_ref)).toHaveLength(1);
  await leapt.end();
  inFile(fileOf(floor), `UPDATE attempts SET updated_at = updated_at - ${31 * 86_400_000}`);
  const later = await stationOn(t, floor);
  await until(() => later.store.ofJob(good.job_ref).length === 0);
  expect(later.state().ledger.counts).toEqual({ sealed: 1, printed: 2 });
  expect(later.store.ofJob(bad.job_ref)).toHaveLength(1);
  await ask(later, "POST", "/api/scan", { text: open.digital_link });
  await sealed(shop, open.job_ref);
  await later.end();
  const db = new Database(fileOf(floor), { readonly: true });
  const counts = (ref: string) =>
    ["reports WHERE json_extract(body, '$.job_ref')", "ledger WHERE job_ref"].map((of) =>
      db.prepare(`SELECT count(*) FROM ${of} = ?`).pluck().get(ref),
    );
  expect([good, bad, open].map(({ job_ref: ref }) => counts(ref))).toEqual([[0, 0], [4, 1], [5, 1]]); // oxfmt-ignore
  db.close();
});

test("what the cloud hasn't heard is never forgotten, nor what it refused; counts of what is go on", async (t) => {
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const floor = await floorOf(t, net.url, shop, { eyes: "hand", settings: { claim: { ahead: 1, leaseSeconds: 60 } } });
  const start = async () => {
    const station = await stationOn(t, floor);
    return station;
  };
  const first = await start();
  const good = await shop.issue();
  await printed(first, good.job_ref);
  await ask(first, "POST", "/api/scan", { text: good.digital_link });
  await sealed(shop, good.job_ref);
  net.rule(({ body }) => (body.includes('"RENDERED"') ? { status: 422, code: "EVIDENCE_INVALID" } : "pass"));
  const refused = await shop.issue({ max_attempts: 1 });
  await until(() => first.state().quarantine.length === 1 && first.state().printers[0]?.status === "ready");
  const session = await sessionAt(first);
  const [lying] = first.state().ledger.open;
  if (lying) await ask(first, "POST", `/api/labels/${lying.n}/explain`, { words: "destroyed", session });
  await until(() => first.state().buffer_depth === 0 && first.state().buffer.pictures === 0);
  net.rule(({ path }) => (/result|heartbeat|evidence/.test(path) ? "cut" : "pass"));
  const unheard = await shop.issue({ max_attempts: 1 });
  await printed(first, unheard.job_ref);
  await say(first, unheard.job_ref, "destroyed");
  await first.end();
  const age = () =>
    inFile(
      fileOf(floor),
      `UPDATE attempts SET updated_at = updated_at - ${31 * 86_400_000}; UPDATE pictures SET at = at - ${31 * 86_400_000}, sent_at = sent_at - ${31 * 86_400_000}`,
    );
  age();
  const second = await start();
  await until(() => second.store.ofJob(good.job_ref).length === 0);
  expect([refused, unheard].map(({ job_ref: ref }) => second.store.ofJob(ref).length)).toEqual([1, 1]);
  expect(second.state().buffer.pictures).toBe(1);
  net.rule(() => "pass");
  await until(async () => (await stateInCloud(shop, unheard.job_ref)) === "DEAD_LETTER");
  await until(() => second.state().buffer_depth === 0 && second.state().buffer.pictures === 0);
  const { items } = (await shop.admin.get(`/aidc/jobs/${unheard.job_ref}/evidence`)).body;
  const { data } = (await shop.admin.get(`/aidc/jobs/${unheard.job_ref}/history`)).body;
  expect(data.find(({ to }: { to: string }) => to === "FAILED")).toMatchObject({ actor: { kind: "operator", id: "op-7" } });
  const preview = items[0].evidence.render_manifest.preview_sha256;
  expect((await shop.admin.get(`/aidc/evidence/${preview}`)).status).toBe(200);
  const counts = second.state().ledger.counts;
  await second.end();
  age();
  const third = await start();
  await until(() => third.store.ofJob(unheard.job_ref).length === 0);
  expect(third.state().ledger.counts).toEqual(counts);
  expect(counts).toMatchObject({ sealed: 1, destroyed: 1 });
});

/** A station that has ended once its only label was sealed and told. */
async function afterOneLabel(t: TestContext) {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
  const station = await stationOn(t, floor);
  const job = await shop.issue();
  await printed(station, job.job_ref);
  await ask(station, "POST", "/api/scan", { text: job.digital_link });
  await sealed(shop, job.job_ref);
  await until(() => station.state().buffer_depth === 0 && station.state().buffer.pictures === 0);
  await station.end();
  return { shop, floor, job };
}

test("a label that was seen after its job was over is known for an old one, though its job is forgotten", async (t) => {
  const { shop, floor, job } = await afterOneLabel(t);
  const { job_ref: ref, serial, gtin, digital_link: text } = job;
  inFile(fileOf(floor), `UPDATE attempts SET updated_at = updated_at - ${31 * 86_400_000}`); // and somebody has scanned it today
  const later = await stationOn(t, floor);
  await until(() => later.store.ofJob(ref).length === 0);
  const { body: again } = await shop.admin.post("/aidc/jobs", { gtin, serial, reprint: true, reason: "the label was torn" });
  await printed(later, again.job_ref);
  expect((await ask(later, "POST", "/api/scan", { text })).body).toMatchObject({ moved: false, why: "old_label" });
  expect(asked(later, again.job_ref)).toBe("destroy_earlier");
});

test("a label that is forgotten isn't taken for an old one when its serial is printed anew: it was sealed, as every earlier one is known to be", async (t) => {
  const { shop, floor, job } = await afterOneLabel(t);
  const { job_ref: ref, serial, gtin, digital_link: text } = job;
  inFile(
    fileOf(floor),
    `UPDATE attempts SET updated_at = updated_at - ${31 * 86_400_000};
     UPDATE sightings SET scanned_at = strftime('%Y-%m-%dT%H:%M:%fZ', scanned_at, '-31 days')`,
  );
  const later = await stationOn(t, floor);
  await until(() => later.store.ofJob(ref).length === 0);
  const { body: again } = await shop.admin.post("/aidc/jobs", { gtin, serial, reprint: true, reason: "the label was torn" });
  await printed(later, again.job_ref);
  expect((await ask(later, "POST", "/api/scan", { text })).body).toMatchObject({ moved: true });
  await sealed(shop, again.job_ref);
});

test("one in which a look meets damage while the station works is told of, and nothing more is claimed", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop);
  const first = await stationOn(t, floor);
  const { job_ref: ref } = await shop.issue();
  await sealed(shop, ref);
  await until(() => first.state().recent.length === 1);
  await first.end();
  const OLD = 4_000; // more than SQLite keeps in memory
  inFile(
    fileOf(floor),
    `CREATE TEMP TABLE one AS SELECT * FROM attempts;
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${OLD}) INSERT INTO attempts
     SELECT attempt_id || i, job_ref || i, serial, link || i, task, hex(zeroblob(4000)), printer, stage, work, lease_seconds, lease_until, envelope_until,
       ask_since, ended, created_at - i, updated_at - i FROM one, n`,
  );
  const station = await stationOn(t, floor);
  await until(() => station.state().printers[0]?.status === "ready" && station.state().online);
  const third = Math.floor(statSync(fileOf(floor)).size / 3 / PAGE_BYTES) * PAGE_BYTES;
  const open = openSync(fileOf(floor), "r+");
  writeSync(open, Buffer.alloc(third, 0xff), 0, third, third);
  closeSync(open);
  expect((await ask(station, "GET", `/api/jobs/${ref}${OLD / 2}/label.png`)).body.error).toMatchObject({
    code: "STORE_UNAVAILABLE",
    message: expect.stringContaining("is damaged: restart the agent"),
  });
  expect((await ask(station, "GET", "/healthz")).body).toMatchObject({ status: "degraded", notices: [{ code: "buffer_unwritable" }] });
  const next = await shop.issue();
  await sleep(3_000); // more than a look for work
  expect(await stateInCloud(shop, next.job_ref)).toBe("QUEUED");
});

test("one that holds the labels of months says how the station is as fast as a new one", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop);
  const first = await stationOn(t, floor);
  await sealed(shop, (await shop.issue()).job_ref);
  await until(() => first.state().recent.length === 1);
  /** Of many with a rest between them, so that no pause of the machine is in most. */
  const usual = async (station: Running) => {
    const took: number[] = [];
    for (let n = 0; n < 41; n += 1) {
      took.push(timeOf(station.state));
      await sleep(5);
    }
    return took.toSorted((a, b) => a - b)[20] ?? 0;
  };
  /** Of the processor's, since other tests take it away as they like. */
  const timeOf = (act: () => unknown) => {
    const from = process.cpuUsage();
    act();
    const { user, system } = process.cpuUsage(from);
    return (user + system) / 1_000;
  };
  const fresh = await usual(first);
  await first.end();
  inFile(
    fileOf(floor),
    `CREATE TEMP TABLE one AS SELECT * FROM attempts;
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) INSERT INTO attempts
     SELECT attempt_id || i, job_ref || i, serial, link || i, task, envelope, printer, stage, work, lease_seconds, lease_until, envelope_until, ask_since,
       ended, created_at - i, updated_at - i FROM one, n;
     CREATE TEMP TABLE label AS SELECT * FROM ledger;
     WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400000) INSERT INTO ledger
     SELECT NULL, attempt_id || i, job_ref, serial, printer, state, words, at, changed_at FROM label, n`,
  );
  const later = await stationOn(t, floor);
  expect([later.state().recent.length, later.state().ledger.counts]).toEqual([50, { sealed: 400_001 }]);
  expect(await usual(later)).toBeLessThan(15 * Math.max(1, fresh));
});
