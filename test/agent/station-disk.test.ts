// A disk that is really full under the buffer of a real agent: it claims no more, keeps what it has, and ends its work by itself when there is room.
import { mkdirSync, renameSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test, type TestContext } from "vitest";
import { begunBeside } from "../../agent/begun.ts";
import { settingsFile, type SimulatedFloor, startFloor } from "../../fixtures/floor.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startProgram } from "../../fixtures/program.ts";
import { diskOf } from "../../fixtures/tmpfs.ts";
import { world } from "../world.ts";
import { ask, floorOf, jobAt, netTo, sealed, stateInCloud, stationOn, until } from "./floor.ts";

const w = await world();

/** The agent as a program of its own. */
async function agentOn(t: TestContext, floor: SimulatedFloor) {
  t.onTestFinished(floor.end);
  const file = settingsFile(floor);
  const agent = await startProgram("agent/main.ts", {}, [], ["--config", file]);
  t.onTestFinished(async () => void (await agent.end("SIGKILL")));
  return { agent, state: async () => (await ask(agent, "GET", "/api/state")).body };
}

test("a full disk stops the claiming and loses nothing; with room again all is printed once and sealed", async (t) => {
  const disk = diskOf(t, 16);
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret, { eyes: "hand", settings: { dataDir: join(disk.folder, "agent") } });
  const { agent, state } = await agentOn(t, floor);
  const jobOf = async (ref: string) => (await state()).jobs.find(({ job_ref }: { job_ref: string }) => job_ref === ref);
  const isPrinted = (ref: string) => until(async () => (await jobOf(ref))?.state === "PRINTED_ATTESTED");

  const first = await shop.issue({ priority: 3 });
  const second = await shop.issue({ priority: 2 });
  await isPrinted(first.job_ref);
  await until(async () => (await jobOf(second.job_ref)) !== undefined && (await state()).buffer_depth === 0);
  disk.fill();
  const third = await shop.issue();
  await until(async () => (await state()).stopped?.includes("can't be written"));
  expect((await ask(agent, "GET", "/healthz")).body).toMatchObject({ status: "degraded", notices: [{ code: "buffer_unwritable" }] });
  expect((await ask(agent, "POST", "/api/scan", { text: first.digital_link })).status).toBe(503);
  expect([await stateInCloud(shop, third.job_ref), (await jobOf(second.job_ref))?.state]).toEqual(["QUEUED", "CLAIMED"]);
  expect((await jobOf(first.job_ref))?.state).toBe("PRINTED_ATTESTED");

  disk.free();
  await until(async () => (await state()).stopped === null);
  for (const { job_ref: ref, digital_link: text } of [first, second, third]) {
    await isPrinted(ref);
    await ask(agent, "POST", "/api/scan", { text });
    await sealed(shop, ref);
  }
  expect(await floor.links()).toEqual([first, second, third].map(({ digital_link: link }) => link));
  expect((await state()).quarantine).toEqual([]);
  expect(await agent.end()).toBe(0);
});

test("while the disk is full each job keeps its lease", async (t) => {
  const disk = diskOf(t, 16);
  const shop = await printShop(w);
  const net = await netTo(t, w);
  const settings = { dataDir: join(disk.folder, "agent"), claim: { ahead: 2, leaseSeconds: 15 } };
  const floor = await startFloor(net.url, shop.device.secret, { eyes: "hand", settings });
  const { agent, state } = await agentOn(t, floor);
  const jobOf = async (ref: string) => (await state()).jobs.find(({ job_ref }: { job_ref: string }) => job_ref === ref);
  const jobs = [await shop.issue({ priority: 3 }), await shop.issue({ priority: 2 }), await shop.issue({ priority: 1 })];
  const areThere = async () => (await Promise.all(jobs.map(({ job_ref: ref }) => jobOf(ref)))).every((job) => job !== undefined);
  await until(async () => (await areThere()) && (await jobOf(jobs[0]?.job_ref ?? ""))?.state === "PRINTED_ATTESTED");
  await until(async () => (await state()).buffer_depth === 0);
  disk.fill();
  await until(async () => (await state()).stopped?.includes("can't be written"));
  const from = net.passed.length;
  const beats = () => jobs.map(({ job_ref: ref }) => net.passed.slice(from).filter(({ path }) => path.endsWith(`${ref}/heartbeat`)).length);
  await until(() => beats().every((count) => count > 1));
  disk.free();
  for (const { job_ref: ref, digital_link: text } of jobs) {
    await until(async () => (await jobOf(ref))?.state === "PRINTED_ATTESTED");
    await ask(agent, "POST", "/api/scan", { text });
    await sealed(shop, ref);
    expect((await shop.admin.get(`/aidc/jobs/${ref}`)).body.attempt).toBe(1);
  }
});

test("a label whose beginning can't be written down beside the buffer isn't begun, and is with room again", async (t) => {
  const disk = diskOf(t, 4);
  const shop = await printShop(w);
  const floor = await floorOf(t, w.url, shop, { eyes: "hand" });
  mkdirSync(floor.config.dataDir);
  writeFileSync(join(disk.folder, "begun"), "");
  symlinkSync(join(disk.folder, "begun"), join(floor.config.dataDir, "station.db.begun"));
  disk.fill();
  const station = await stationOn(t, floor);
  const { job_ref: ref, digital_link: text } = await shop.issue();
  await until(() => station.state().printers[0]?.words.includes("can't be written down: ENOSPC") ?? false);
  expect([jobAt(station, ref)?.stage, await floor.links()]).toEqual(["rendered", []]);
  disk.free();
  await until(() => jobAt(station, ref)?.state === "PRINTED_ATTESTED");
  await ask(station, "POST", "/api/scan", { text });
  await sealed(shop, ref);
  expect([await floor.links(), station.state().quarantine]).toEqual([[text], []]);
});

test("a beginning of which the disk takes only a part isn't written down, and says so", (t) => {
  const disk = diskOf(t, 1);
  const buffer = join(disk.folder, "station.db");
  const beside = begunBeside(buffer);
  const written: string[] = [];
  const note = (n: number) => {
    const id = `attempt-${n}`;
    beside.note({ n, attempt_id: id, job_ref: "j", serial: "s", printer: "p", token: "t", sha256: "0".repeat(64), bytes: 1, at: 1 });
    written.push(id);
  };
  note(1);
  disk.fill(); // but for the rest of the block in which that stands
  expect(() => {
    for (let n = 2; n < 1_000; n += 1) note(n);
  }).toThrow();
  expect(written.length).toBeGreaterThan(1);
  beside.close();
  disk.free();
  const again = begunBeside(buffer);
  t.onTestFinished(again.close);
  expect(again.after(0).map(({ attempt_id: id }) => id)).toEqual(written);
});

test("a buffer that is taken away stops the claiming and is told, what it holds reaches the cloud, and put back it goes on", async (t) => {
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret, { eyes: "hand" });
  const { agent, state } = await agentOn(t, floor);
  const first = await shop.issue();
  await until(async () => (await state()).jobs.some(({ state: is }: { state: string }) => is === "PRINTED_ATTESTED"));

  const away = join(floor.folder, "away");
  renameSync(floor.config.dataDir, away);
  const second = await shop.issue();
  await until(async () => (await state()).stopped?.includes("was taken away"));
  expect((await ask(agent, "GET", "/healthz")).body).toMatchObject({ status: "degraded", notices: [{ code: "buffer_unwritable" }] });
  await ask(agent, "POST", "/api/scan", { text: first.digital_link });
  await sealed(shop, first.job_ref);
  expect(await stateInCloud(shop, second.job_ref)).toBe("QUEUED");

  renameSync(away, floor.config.dataDir);
  await until(async () => (await state()).stopped === null);
  await until(async () => (await state()).jobs.some(({ state: is }: { state: string }) => is === "PRINTED_ATTESTED"));
  await ask(agent, "POST", "/api/scan", { text: second.digital_link });
  await sealed(shop, second.job_ref);
  expect(await agent.end()).toBe(0);
});

test("a first start that found no room on the disk leaves nothing behind that would be taken for a damaged buffer", async (t) => {
  const disk = diskOf(t, 16);
  const shop = await printShop(w);
  const floor = await startFloor(w.url, shop.device.secret, { settings: { dataDir: join(disk.folder, "agent") } });
  t.onTestFinished(floor.end);
  const file = settingsFile(floor);
  const start = () => startProgram("agent/main.ts", {}, [], ["--config", file]);
  mkdirSync(floor.config.dataDir);
  disk.fill();
  await expect(start()).rejects.toThrow(/full/);
  disk.free();
  const agent = await start();
  t.onTestFinished(async () => void (await agent.end("SIGKILL")));
  expect((await ask(agent, "GET", "/healthz")).body).toEqual({ status: "ok" });
});
