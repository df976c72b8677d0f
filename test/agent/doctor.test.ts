// imprimatur agent doctor: one line for everything a station needs, what is wrong in words, and a running agent isn't disturbed by it.
import { execFile } from "node:child_process";
import { chmodSync, mkdirSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { systemClock } from "../../agent/clock.ts";
import { scannerLine } from "../../agent/doctor-devices.ts";
import { startDevice } from "../../fixtures/device.ts";
import { settingsFile } from "../../fixtures/floor.ts";
import type { FloorOptions, SimulatedFloor } from "../../fixtures/floor.ts";
import { pngOfGray } from "../../fixtures/scanners/optics.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { world } from "../world.ts";
import { ask, floorOf, jobAt, netTo, stationOn, until } from "./floor.ts";

const w = await world();
const shop = await printShop(w);

type Line = { check: string; level: "ok" | "warn" | "FAIL"; words: string };
type Ran = { code: number; out: string; complaints: string };
const doctorAs = (who: { uid?: number; gid?: number }, file: string, ...args: string[]): Promise<Ran> =>
  new Promise((resolve) => {
    const options = { timeout: 40_000, ...who };
    execFile(process.execPath, ["agent/main.ts", "doctor", "--config", file, ...args], options, (error, out, complaints) =>
      resolve({ code: Number(error?.code ?? 0), out, complaints }),
    );
  });
const doctor = (file: string, ...args: string[]) => doctorAs({}, file, ...args);
const checked = async (file: string) => {
  const { code, out, complaints } = await doctor(file, "--json");
  const { ok, checks } = JSON.parse(out) as { ok: boolean; checks: Line[] };
  expect([ok, complaints]).toEqual([code === 0, ""]);
  return { code, of: (check: string) => checks.filter((line) => line.check === check).map(({ level, words }) => `${level}: ${words}`).join("\n") }; // oxfmt-ignore
};
async function floorWith(t: Parameters<typeof floorOf>[0], options: FloorOptions = {}): Promise<{ floor: SimulatedFloor; file: string }> {
  const floor = await floorOf(t, w.url, shop, options);
  return { floor, file: settingsFile(floor) };
}

test("a station that is well has a line for each thing, all ok, and exit code 0", async (t) => {
  const { file } = await floorWith(t);
  const { code, out, complaints } = await doctor(file);
  expect([code, complaints]).toEqual([0, ""]);
  const lines = out.trimEnd().split("\n");
  const checks = lines.map((line) => line.slice(6, 25).trim());
  expect(checks).toEqual(["settings", "agent", "disk", "buffer", "cloud", "scopes", "clock", "broker", "printer printer", "scanner fixed", "label"]); // oxfmt-ignore
  expect(lines.filter((line) => !line.startsWith("ok    "))).toEqual([]);
  expect(out).toMatch(/printer printer {4}.* is ready, evidence up to A/);
  expect(out).not.toContain(shop.device.secret);
});

test.concurrent.for(["half-open", "dont-answer"] as const)(
  "a printer that takes the connection and tells nothing (%s) is not called ready",
  async (fault, t) => {
    const { floor, file } = await floorWith(t);
    floor.machine?.fault(fault);
    const said = (await checked(file)).of("printer printer");
    expect(said).toMatch(
      /^warn: zpl at tcp:.* takes the connection, evidence up to E; it says nothing of itself: is this its port, .*does no other program hold it\?/,
    );
  },
);

test("what a printer tells of itself is a line of words, whatever a terminal would obey in it", async (t) => {
  const printer = await startDevice((socket) =>
    socket.on("data", (heard: Buffer) => heard.includes("~HI") && socket.write("\u0002\u001b[2JZEBRA,V1,8,8192KB\u0003\r\n")),
  );
  t.onTestFinished(printer.end);
  const { file } = await floorWith(t, { port: () => printer.url });
  expect((await doctor(file)).out).toMatch(/^\w+ +printer printer +(?=.*ZEBRA)\P{Cc}+$/mu);
});

test("a running agent is asked instead of its devices, and works on", async (t) => {
  const { floor, file } = await floorWith(t);
  const station = await stationOn(t, floor);
  await until(() => station.state().printers[0]?.status === "ready" && floor.scanner?.listeners() === 1 && station.state().broker.up);
  const { port } = new URL(station.url);
  writeFileSync(file, JSON.stringify({ ...floor.config, console: { host: "127.0.0.1", port: Number(port) } }));
  const well = await checked(file);
  expect([well.code, well.of("agent"), well.of("broker"), well.of("scanner fixed")]).toEqual([
    0,
    `ok: runs at ${station.url}; what it holds is told by it`,
    "ok: connected",
    "ok: connected",
  ]);
  floor.machine?.fault("head-open");
  await until(() => station.state().printers[0]?.status === "blocked");
  expect((await checked(file)).of("printer printer")).toBe("FAIL: blocked: its head is open");
  expect(floor.scanner?.listeners()).toBe(1);
  expect(station.lines.some((line) => /"event":"(offline|scanner)".*false/.test(line))).toBe(false);
  // Where its console isn't known, its buffer and its devices are left alone all the same.
  writeFileSync(file, JSON.stringify({ ...floor.config, console: { host: "127.0.0.1", port: 9 } }));
  const { of } = await checked(file);
  expect(of("buffer")).toMatch(/^warn: an agent works in .*, and its console doesn't answer/);
  expect(of("agent")).toMatch(/^warn: runs, and doesn't answer at .*:9: /);
  const left = "warn: isn't looked at: the agent that works here has it";
  expect([of("printer printer"), of("scanner fixed")]).toEqual([left, left]);
  expect(station.state().stopped).toBeNull();
  writeFileSync(file, JSON.stringify(floor.config));
  expect((await checked(file)).of("agent")).toMatch(/^warn: runs, at a port of its own choice \(console\.port is 0\)/);
});

test("another station at the console's address isn't taken for this one: its printers say nothing of ours, and ours couldn't start", async (t) => {
  const other = await floorOf(t, w.url, shop);
  const station = await stationOn(t, other);
  await until(() => station.state().device_id !== null && station.state().printers[0]?.status === "ready");
  const { floor } = await floorWith(t);
  floor.machine?.fault("head-open");
  const console = { host: "127.0.0.1", port: Number(new URL(station.url).port) };
  const { code, of } = await checked(settingsFile(floor, { key: (await shop.newDevice("line 7")).secret, console }));
  expect([code, of("agent")]).toEqual([
    1,
    expect.stringMatching(/^FAIL: doesn't run, and can't be started: listen EADDRINUSE.*set console\.port$/),
  ]);
  expect(of("printer printer")).toMatch(/^FAIL: its head is open/);
});

test("nor where the cloud is away: who works has his buffer, and nobody has this one", async (t) => {
  const other = await stationOn(t, await floorOf(t, w.url, shop));
  const net = await netTo(t, w);
  const floor = await floorOf(t, net.url, shop, { eyes: "hand" });
  await (await stationOn(t, floor)).end();
  net.cut();
  floor.machine?.fault("head-open");
  const { of } = await checked(settingsFile(floor, { console: { host: "127.0.0.1", port: Number(new URL(other.url).port) } }));
  expect(of("agent")).toMatch(/^FAIL: doesn't run, and can't be started: listen EADDRINUSE/);
  expect(of("printer printer")).toMatch(/^FAIL: its head is open/);
});

test("a simulated device outside of a sandbox, of which nothing can be sealed, is a failure", async (t) => {
  const floor = await floorOf(t, w.url, await printShop(w, { sandbox: false }), { eyes: "hand" });
  const { code, of } = await checked(settingsFile(floor));
  const inVain = (name: string) => `FAIL: ${name} is marked simulated, and this tenant is no sandbox: nothing of it can be sealed`;
  expect([code, of("cloud").split("\n").slice(1)]).toEqual([1, [inVain("printer"), inVain("fixed")]]);
});

test("a key with which another station works is told of, and not where that one is this one", async (t) => {
  const twins = await printShop(w);
  const floor = await floorOf(t, w.url, twins);
  await stationOn(t, floor);
  await until(async () => (await twins.admin.get(`/devices/${twins.device.id}`)).body.status !== "offline");
  const other = await floorOf(t, w.url, twins);
  const { code, of } = await checked(settingsFile(other));
  expect([code, of("cloud")]).toEqual([
    0,
    expect.stringMatching(/\nwarn: "line 1" was heard of at 20.*, and no agent runs here.* two stations have one key/),
  ]);
  expect((await checked(settingsFile(floor))).of("cloud")).not.toContain("one key");
});

test("a station that does nothing though nothing is broken: paused, or with the key of another device than the one whose words wait", async (t) => {
  const net = await netTo(t, w);
  const floor = await floorOf(t, net.url, shop);
  const told = async (check: string, key: string, console = floor.config.console) => {
    const { code, of } = await checked(settingsFile(floor, { key, console }));
    return [code, of(check)];
  };
  const own = shop.device.secret;
  const station = await stationOn(t, floor);
  net.rule(({ path }) => (/result/.test(path) ? "cut" : "pass"));
  const { job_ref: ref } = await shop.issue();
  await until(() => jobAt(station, ref)?.stage === "sealing");
  await ask(station, "POST", "/api/pause");
  const consoleOf = ({ url }: { url: string }) => ({ host: "127.0.0.1", port: Number(new URL(url).port) });
  const paused = expect.stringMatching(/paused.* until somebody resumes it/);
  expect(await told("agent", own, consoleOf(station))).toEqual([0, paused]);
  await station.end();
  expect(await told("buffer", own)).toEqual([0, paused]);

  const other = (await shop.newDevice("line 2")).secret;
  const isOther = expect.stringMatching(/^FAIL: .*the device "line 1" .* hasn't told yet.* start with a key of that device/);
  expect(await told("buffer", other)).toEqual([1, isOther]);
  const stopped = await stationOn(t, { ...floor, config: { ...floor.config, key: other } });
  await until(() => stopped.state().stopped !== null);
  expect(await told("agent", other, consoleOf(stopped))).toEqual([1, isOther]);
});

test("what is wrong is said, each with what to do, and the exit code is 1", async (t) => {
  const { floor, file } = await floorWith(t, { eyes: "hand" });
  mkdirSync(floor.config.dataDir);
  writeFileSync(join(floor.config.dataDir, "station.db"), "garbage");
  floor.machine?.fault("head-open");
  writeFileSync(
    file,
    JSON.stringify({
      ...floor.config,
      key: `${shop.device.secret}x`,
      printers: [
        ...floor.config.printers,
        { ...floor.config.printers[0], name: "gone", port: "file:/dev/imprimatur/none", control: undefined },
      ],
      scanners: [
        { name: "lost", driver: "line", port: "serial:/dev/imprimatur/lost" },
        { name: "wedge", driver: "keyboard", port: "serial:/dev/ttyACM0" },
      ],
    }),
  );
  chmodSync(file, 0o644);
  const { code, of } = await checked(file);
  expect(code).toBe(1);
  expect(of("settings")).toMatch(/^warn: .*other users may read the key in it: chmod 600/);
  expect(of("buffer")).toMatch(/^FAIL: .*is damaged .*sets it aside and asks the cloud/);
  expect(of("cloud")).toMatch(/^FAIL: the cloud at .* doesn't know this key/);
  expect(of("printer printer")).toMatch(/^FAIL: its head is open: see to it at the printer/);
  expect(of("printer gone")).toMatch(/^FAIL: .*is it plugged in/);
  expect(of("scanner lost")).toMatch(/^FAIL: .*is it plugged in/);
  expect(of("scanner wedge")).toBe(
    "warn: a keyboard types into the console, and nobody reads serial:/dev/ttyACM0: name the driver that does, such as line, or leave port out",
  );
  expect(of("label")).toMatch(/^ok/);
});

test.runIf(process.getuid?.() === 0)(
  "a buffer that root has begun is told of by its name and the reason, and isn't called a broken disk",
  async (t) => {
    const { floor, file } = await floorWith(t, { eyes: "hand" });
    await (await stationOn(t, floor)).end();
    chmodSync(file, 0o644);
    for (const folder of [floor.folder, floor.config.dataDir]) chmodSync(folder, 0o777);
    const buffer = join(floor.config.dataDir, "station.db");
    for (const mode of [0o600, 0o444]) {
      chmodSync(buffer, mode);
      const { out } = await doctorAs({ uid: 65_534, gid: 65_534 }, file);
      expect(out).toMatch(new RegExp(`^FAIL +buffer +EACCES: permission denied, .*${buffer}`, "m"));
    }
  },
);

test("a folder that is, or lies below, a link to a disk that isn't mounted isn't called free for the buffer: the station couldn't start", async (t) => {
  const { floor } = await floorWith(t, { eyes: "hand" });
  const [link, circle, file] = [join(floor.folder, "link"), join(floor.folder, "circle"), join(floor.folder, "file")];
  symlinkSync("/nowhere/mounted", link);
  symlinkSync(circle, circle);
  writeFileSync(file, "");
  const disk = async (dataDir: string) => (await checked(settingsFile(floor, { dataDir }))).of("disk");
  const nowhere = (path: string) => `FAIL: ${path} is a link that leads nowhere, as to a disk that isn't mounted: mount it, or set dataDir`;
  for (const dataDir of [link, `${link}/`, join(link, "station")]) expect(await disk(dataDir)).toBe(nowhere(link));
  expect(await disk(join(circle, "station"))).toBe(nowhere(circle));
  expect(await disk(join(file, "station"))).toMatch(/^FAIL: .*can't be written/);
});

test("a buffer of a newer agent, a label too small and a key that may only read are told before the first job meets them", async (t) => {
  const { floor, file } = await floorWith(t, { eyes: "hand" });
  const { data: key } = (await shop.admin.post("/api-keys", { name: "reads only", scopes: ["aidc:read"] })).body;
  await shop.admin.post("/devices", { name: "reads only", api_key_id: key.id });
  mkdirSync(floor.config.dataDir);
  const db = join(floor.config.dataDir, "station.db");
  writeFileSync(db, "");
  truncateSync(db, 0);
  const [printer] = floor.config.printers;
  writeFileSync(
    file,
    JSON.stringify({ ...floor.config, key: key.secret, operators: [], printers: [{ ...printer, label: { widthMm: 5, heightMm: 3 } }] }),
  );
  const { code, of } = await checked(file);
  expect(code).toBe(1);
  expect(of("settings")).toMatch(/^warn: .*add operators/);
  expect(of("buffer")).toMatch(/^FAIL: .*it is empty/);
  expect(of("cloud")).toMatch(/^ok/);
  expect(of("scopes")).toMatch(/^FAIL: .*aidc:read and aidc:write/);
  expect(of("label")).toMatch(/^FAIL: printer: /);
});

test("a broker that isn't where it should be, and one that doesn't know the device, are told apart, and are no failure", async (t) => {
  const { floor, file } = await floorWith(t, { eyes: "hand" });
  const other = await world({}, t.onTestFinished);
  const elsewhere = await printShop(other);
  const { url } = (await elsewhere.device.api.get("/aidc/station")).body.mqtt as { url: string };
  const said = async (mqtt: string) => {
    writeFileSync(file, JSON.stringify({ ...floor.config, mqtt }));
    return (await checked(file)).of("broker");
  };
  expect(await said("mqtt://127.0.0.1:1")).toMatch(
    /^warn: mqtt:.*ECONNREFUSED.* another address here, set `mqtt`; without it the station polls, and works$/,
  );
  expect(await said(url)).toMatch(
    /^warn: mqtt:.*; it has to know this device, by its id and key; without it the station polls, and works$/,
  );
});

test("settings that can't be read are the one line there is", async (t) => {
  const { floor, file } = await floorWith(t, { eyes: "hand" });
  writeFileSync(file, JSON.stringify({ ...floor.config, scaners: [] }));
  const { code, out } = await doctor(file);
  expect([code, out]).toEqual([1, expect.stringMatching(/^FAIL {2}settings {11}.*did you mean scanners\?\n$/)]);
});

test("a camera whose picture takes longer to be read than a device may take to answer is waited for", async (t) => {
  const { folder } = await floorOf(t, w.url, shop);
  const picture = join(folder, "frame.png");
  writeFileSync(picture, pngOfGray({ width: 9, height: 9, gray: new Uint8Array(81) }));
  const CAMERA_MAX_MS = 23_000; // by then it says itself what is wrong
  const hasty = { after: (ms: number, act: () => void) => systemClock.after(ms < CAMERA_MAX_MS ? 0 : ms, act) };
  const line = await scannerLine({ name: "eye", driver: "camera", port: `file:${picture}` }, undefined, hasty);
  expect(line).toMatchObject({ level: "ok", words: expect.stringContaining("can be opened") });
});
