// imprimatur agent missing: after its cloud was set back, a station tells which labels that one had sealed and doesn't know any more.
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { systemClock } from "../../agent/clock.ts";
import { eq, inArray } from "../../cloud/store/drizzle.ts";
import { printJobs, serials } from "../../cloud/store/schema.ts";
import { settingsFile } from "../../fixtures/floor.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import { floorOf, netTo, sealedHere, setBack, stationOn } from "./floor.ts";

const w = await world();

const missing = (file: string, ...args: string[]) => run(process.execPath, "agent/main.ts", "missing", "--config", file, ...args);
const run = (program: string, ...args: string[]) =>
  new Promise<{ code: number; out: string; complaints: string }>((resolve) => {
    execFile(program, args, { timeout: 40_000 }, (error, out, complaints) => resolve({ code: Number(error?.code ?? 0), out, complaints }));
  });
/** The same, heard by somebody who isn't quick: a pipe takes 64 KB, and the rest waits. */
const missingHeardLate = (file: string, ...args: string[]) =>
  run(
    "bash",
    "-c",
    'set -o pipefail; "$@" | { sleep 3; cat; }',
    "-",
    process.execPath,
    "agent/main.ts",
    "missing",
    "--config",
    file,
    ...args,
  );

test("labels that the cloud had sealed and doesn't have any more are listed, and no others, also by a station that was enrolled anew; an agent that works isn't disturbed", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop);
  const file = settingsFile(floor);
  const station = await stationOn(t, floor);
  const [kept, lost] = [await shop.issue(), await shop.issue()];
  for (const { job_ref: ref } of [kept, lost]) await sealedHere(station, ref);
  const since = ["--since", new Date().toISOString()];
  expect(await missing(file, ...since)).toEqual({ code: 2, out: "", complaints: expect.stringMatching(/^imprimatur agent: an agent works in .*: stop it while this looks/) });
  await station.end();
  const HEAD = "serial,digital_link,job_ref,sealed_at\n";
  expect(await missing(file, ...since)).toEqual({ code: 0, out: HEAD, complaints: "" });
  await setBack(w, lost.job_ref);
  const { code, out, complaints } = await missing(file, ...since);
  expect([code, complaints, out.split("\n").map((row) => row.split(",").slice(0, 3))]).toEqual([
    1,
    "",
    [["serial", "digital_link", "job_ref"], [lost.serial, lost.digital_link, lost.job_ref], [""]],
  ]);
  const anew = await missing(settingsFile(floor, { key: (await shop.newDevice("line 7")).secret }), ...since); // as where the backup has no such device
  expect([anew.code, anew.out]).toEqual([1, out]);
  const early = await missing(file, "--since", "2020-01-01T00:00:00Z");
  expect([early.out, early.complaints]).toEqual([out, expect.stringMatching(/station\.db knows of no label before 20.*Z: what was sealed before that, and is forgotten/)]);
  expect(await missing(file, "--since", "2099-01-01T00:00:00Z")).toEqual({ code: 0, out: HEAD, complaints: "" });
  expect(await missing(file, "--since", "yesterday")).toEqual({ code: 2, out: "", complaints: expect.stringContaining("--since is the time to which") });
  const nowhere = await missing(settingsFile(floor, { dataDir: `${floor.folder}/none` }), ...since);
  expect(nowhere).toEqual({ code: 2, out: "", complaints: expect.stringMatching(/^imprimatur agent: ENOENT.*see dataDir\n$/) });
  expect((await missing(settingsFile(floor, { cloud: "http://127.0.0.1:1" }), ...since)).code).toBe(2);
  expect((await missing(file, "--help")).out).toMatch(/0: none is missing, 1: some are, .* 2: it couldn't look\n$/);
}); // oxfmt-ignore

test("labels that the cloud lost are brought back to it, with what became of each, and nobody who scans one gets a 404", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop);
  const station = await stationOn(t, floor);
  const [lost, open, stray] = [await shop.issue(), await shop.issue(), await shop.issue()];
  for (const { job_ref: ref } of [lost, open, stray]) await sealedHere(station, ref);
  await station.end();
  await setBack(w, open.job_ref);
  const jobs = [lost, stray].map(({ job_ref: ref }) => ref as string);
  await w.store.write("set back", async ({ db }) => {
    await db.delete(printJobs).where(inArray(printJobs.jobRef, jobs));
    await db.delete(serials).where(inArray(serials.serial, [lost.serial, stray.serial]));
    await db.update(serials).set({ openJob: open.job_ref, sealedJob: null, printStatus: null }).where(eq(serials.serial, open.serial));
  });
  const change = new Database(join(floor.config.dataDir, "station.db"));
  change.prepare("UPDATE attempts SET task = json_set(task, '$.gtin', '00000000000000') WHERE job_ref = ?").run(stray.job_ref); // another tenant's
  change.close();
  const scan = async () => (await fetch(lost.digital_link, { redirect: "manual" })).status;
  expect(await scan()).toBe(404);
  const args = ["--since", "2026-01-01T00:00:00Z", "--recover"];
  const net = await netTo(t, w);
  let shed = 0; // a cloud that has much to do puts off who can wait
  net.rule(({ path }) =>
    path.endsWith("/carriers/recover") && (shed += 1) === 1 ? { status: 503, code: "OVERLOADED", retryAfter: 1 } : "pass",
  );
  const { code, out } = await missing(settingsFile(floor, { cloud: net.url }), ...args);
  const [head, ...rows] = out.trim().split("\n");
  expect([code, head]).toEqual([1, "serial,digital_link,job_ref,sealed_at,outcome,message"]);
  const fates = new Map(rows.map((row) => row.split(",")).map(([serial, , , , ...fate]) => [serial, fate.join()]));
  expect([lost, open, stray].map(({ serial }) => fates.get(serial))).toEqual([
    'recovered,""',
    `known,"its job ${open.job_ref} is open: cancel it, or there will be two labels"`,
    expect.stringMatching(/^refused,"no product of its GTIN is known/),
  ]);
  expect(await scan()).toBe(302);
  const { print } = (await shop.admin.get(`/carriers/${lost.serial}`)).body.metadata;
  expect(print).toMatchObject({
    status: "printed",
    reason: expect.stringMatching(`^sealed at 20.*Z as ${lost.job_ref}, and lost by the cloud`),
  });

  const more = new Database(join(floor.config.dataDir, "station.db"));
  more.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1000)
    INSERT INTO attempts SELECT attempt_id || i, job_ref, 7000 + i, link, task, envelope, printer, stage, work, lease_seconds, lease_until, envelope_until,
      ask_since, ended, created_at, updated_at + i FROM attempts, n WHERE job_ref = '${lost.job_ref}'`);
  more.close();
  let asked = 0;
  net.rule(({ path }) => (path.endsWith("/carriers/recover") && (asked += 1) === 2 ? { status: 403, code: "FORBIDDEN" } : "pass"));
  const cut = await missingHeardLate(settingsFile(floor, { cloud: net.url }), ...args);
  const told = cut.out.trim().split("\n");
  expect([cut.code, told.length, told.at(-1)]).toEqual([2, 1_001, expect.stringMatching(/^7\d+,.*,refused,/)]); // what was brought back before is listed
});

test("what a station sealed whose clock was behind is listed too", async (t) => {
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop);
  const HOUR_MS = 3_600_000;
  const station = await stationOn(t, floor, { clock: { ...systemClock, now: () => Date.now() - 2 * HOUR_MS } });
  const { job_ref: ref, serial } = await shop.issue();
  await sealedHere(station, ref);
  await station.end();
  await setBack(w, ref);
  const { code, out } = await missing(settingsFile(floor), "--since", new Date(Date.now() - HOUR_MS).toISOString());
  expect([code, out.split("\n")[1]]).toEqual([1, expect.stringContaining(`${serial},`)]);
});

test("a time that isn't told whole, and a buffer that can't be read, are no list without labels", async (t) => {
  const floor = await floorOf(t, w.url, await printShop(w));
  const file = settingsFile(floor);
  for (const since of ["3", "12/10/2026", "2026-11-29 03:00", "2026-11-29T03:00", "2026-11-31T25:00:00Z"])
    expect(await missing(file, "--since", since)).toEqual({ code: 2, out: "", complaints: expect.stringContaining("--since is the time to which") });
  mkdirSync(floor.config.dataDir);
  const buffer = join(floor.config.dataDir, "station.db");
  for (const [bytes, why] of [["", "it is empty"], ["no database, and as long as the head of one: ".repeat(40), "file is not a database"]] as const) {
    writeFileSync(buffer, bytes);
    const { code, out, complaints } = await missing(file, "--since", "2026-01-01T00:00:00Z");
    expect([code, out, complaints]).toEqual([2, "", `imprimatur agent: ${buffer} can't be read: ${why}\n`]);
    expect(readFileSync(buffer, "utf8")).toBe(bytes);
  }
}); // oxfmt-ignore
