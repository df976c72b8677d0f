// imprimatur agent install: what it would do is said first, the unit is hardened and drives what the settings name, and it goes away again.
import { execFile, execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { agentConfigFrom } from "../../agent/config.ts";
import { unitOf } from "../../agent/unit.ts";
import { freshFolder } from "../endings.ts";

const folder = freshFolder("install");
const label = { widthMm: 50, heightMm: 25 };
const network = { key: "imp_secret", station: "line-1", printers: [{ name: "p", driver: "zpl", port: "tcp://10.0.0.7:9100", label }] };
const wired = {
  ...network,
  printers: [{ name: "p", driver: "zpl", port: "file:/dev/usb/lp0", label }],
  scanners: [{ name: "s", driver: "line", port: "serial:/dev/ttyACM0?baud=115200" }],
};
const file = join(folder, "config.json");
writeFileSync(file, JSON.stringify(network));
const installWith = (set: Record<string, string>, ...args: string[]) => installBy(process.execPath, set, ...args);
const installBy = (node: string, set: Record<string, string>, ...args: string[]) =>
  new Promise<{ code: number; out: string; complaints: string }>((resolve) => {
    const options = { timeout: 30_000, env: { ...process.env, ...set } };
    execFile(node, ["agent/main.ts", "install", ...args], options, (error, out, complaints) =>
      resolve({ code: Number(error?.code ?? 0), out, complaints }),
    );
  });
const install = (...args: string[]) => installWith({}, "--config", file, ...args);
const has = (command: string): boolean => {
  try {
    execFileSync(command, ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

test("without --yes it only says what it would do", async () => {
  const root = join(folder, "dry");
  const { code, out } = await install("--root", root);
  expect([code, existsSync(root)]).toEqual([0, false]);
  expect(out).toMatch(
    /^would write .*imprimatur-agent\.service\nwould run systemctl .*enable imprimatur-agent\.service\n[^]*nothing is done yet/,
  );
});

const AGAIN = "; it runs on the Node that was brought along, which an upgrade takes away: run this again after each";
test("a service on the Node that the program brought along is lost with an upgrade until that is brought anew, which is told", async () => {
  const isBrought = process.execPath.startsWith(join(process.cwd(), ".runtime/"));
  expect((await install("--root", join(folder, "brought"))).out.includes(AGAIN)).toBe(isBrought);
});

test("a buffer that is there already is told how to come along: whole, and as the service's own user's", async () => {
  const [settled, kept] = [join(folder, "settled.json"), join(folder, "Ada's kept")];
  mkdirSync(kept);
  writeFileSync(join(kept, "station.db"), "");
  writeFileSync(settled, JSON.stringify({ ...network, dataDir: kept }));
  const { out } = await installWith({}, "--config", settled);
  const place = "/var/lib/imprimatur-agent";
  expect(out).toContain(
    `end that agent, systemctl stop imprimatur-agent.service, mkdir -p ${place} && cp '${folder}/Ada'\\''s kept/station.db'* ${place}/ && chown --reference=${place}/. ${place}/*`,
  );
});

test("--print is the unit and nothing else, without the key", async () => {
  const { code, out } = await install("--print");
  expect([code, out.startsWith("# Written by imprimatur agent install"), out.includes("imp_secret")]).toEqual([0, true, false]);
  expect(out).toContain(`LoadCredential=config.json:${file}\n`);
});

test("--yes installs it where it is told to, says whose place it takes, and --uninstall takes it away and says what stays", async (t) => {
  if (!has("systemctl")) return t.skip("this machine has no systemctl");
  const root = join(folder, "root");
  const at = join(root, "etc/systemd/system/imprimatur-agent.service");
  const done = await install("--root", root, "--yes");
  expect([done.code, done.complaints]).toEqual([0, ""]);
  expect(readFileSync(at, "utf8")).toBe((await install("--print")).out);
  expect([at, join(root, "etc")].map((path) => statSync(path).mode & 0o777)).toEqual([0o644, 0o755]); // the machine's, not ours alone
  expect(readdirSync(join(root, "etc/systemd/system/multi-user.target.wants"))).toEqual(["imprimatur-agent.service"]);
  const second = join(folder, "100 %.json");
  copyFileSync(file, second);
  const link = join(folder, "link.json");
  symlinkSync(file, link);
  for (const same of [file, link])
    expect((await installWith({}, "--config", same, "--root", root)).out).toMatch(/^would write .*, over the one that is there\n/);
  expect((await installWith({}, "--config", second, "--root", root, "--yes")).out).toContain(
    `, which is of ${file}: that station ends here\n`,
  );
  expect((await install("--root", root)).out).toContain(`, which is of ${second}: that station ends here\n`);
  expect((await install("--root", root, "--uninstall")).out).toMatch(/^would [^]*nothing is done yet/);
  expect(existsSync(at)).toBe(true);
  const gone = await install("--root", root, "--uninstall", "--yes");
  expect([gone.code, existsSync(at)]).toEqual([0, false]);
  expect(gone.out).toContain("and the settings stay");
  const again = await install("--root", root, "--uninstall", "--yes");
  expect([again.code, again.complaints]).toEqual([1, expect.stringContaining("nothing is installed")]);
});

test("it is installed whole, though nobody reads any more what was done", async (t) => {
  if (!has("systemctl")) return t.skip("this machine has no systemctl");
  const root = join(folder, "unread");
  const args = [".runtime/run.mjs", "agent", "install", "--config", file, "--root", root, "--yes"];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  child.stdout.destroy();
  const [complaints, [code]] = await Promise.all([text(child.stderr), once(child, "exit")]);
  expect([code, complaints]).toEqual([0, ""]);
  expect(readdirSync(join(root, "etc/systemd/system/multi-user.target.wants"))).toEqual(["imprimatur-agent.service"]);
});

test("what only the environment sets isn't the service's: it is named, and what is then missing is refused", async () => {
  const keyless = join(folder, "keyless.json");
  writeFileSync(keyless, JSON.stringify({ ...network, key: undefined }));
  const [set, root] = [{ IMPRIMATUR_AGENT_KEY: "imp_of_the_shell" }, join(folder, "unheard")];
  const refused = await installWith(set, "--config", keyless, "--root", root, "--yes");
  expect([refused.code, existsSync(root)]).toEqual([1, false]);
  expect(refused.complaints).toMatch(/keyless\.json: key is missing; the service doesn't see what is set here \(IMPRIMATUR_AGENT_KEY\)/);
  const { code, out } = await installWith(set, "--config", file, "--root", root);
  expect([code, out]).toEqual([0, expect.stringContaining("the service doesn't see what is set here (IMPRIMATUR_AGENT_KEY)")]);
});

test("where the service's own user can't get at what it would start it is told which place is closed, also where starting it then fails", async () => {
  const [closed, path, root] = [join(folder, "closed"), join(folder, "path"), join(folder, "shut")];
  for (const place of [closed, path]) mkdirSync(place);
  const node = join(closed, "node"); // as a version manager keeps it in somebody's home
  copyFileSync(process.execPath, node);
  chmodSync(folder, 0o755);
  chmodSync(closed, 0o700);
  const args = ["--config", file, "--root", root] as const;
  const words = `${closed} is closed to the service's own user: it won't start from there, let others read it or install elsewhere`;
  expect((await installBy(node, {}, ...args)).out).toContain(`; ${words}`);
  writeFileSync(join(path, "systemctl"), "#!/bin/sh\necho failed >&2\nexit 1\n", { mode: 0o755 });
  expect((await installBy(node, {}, ...args)).out).not.toContain(AGAIN);
  const failed = await installBy(node, { PATH: path }, ...args, "--yes");
  expect([failed.code, failed.complaints]).toEqual([1, expect.stringMatching(/: can't run systemctl .*: failed; /)]);
  expect(failed.complaints).toContain(words);
});

test("a font is found by the service: in somebody's home it may be read there, and one without its whole path is refused", async () => {
  const lettered = join(folder, "lettered.json");
  writeFileSync(lettered, JSON.stringify({ ...network, fonts: ["/usr/share/fonts/a.ttf", "fonts/b.ttf"] }));
  const { code, complaints } = await installWith({}, "--config", lettered, "--print");
  expect([code, complaints]).toEqual([1, expect.stringContaining("fonts/b.ttf would be looked for in /")]);
  const homely = (font: string) => unitOf(agentConfigFrom({ ...network, fonts: [font] }), "/etc/imprimatur.json", 252);
  expect(homely("/home/ada/noto.ttf")).toMatch(/^ProtectHome=read-only$/m);
});

test("so is the file in which a camera leaves its picture", async () => {
  const watched = (path: string) => ({ ...network, scanners: [{ name: "eye", driver: "camera", port: `file:${path}` }] });
  const unit = unitOf(agentConfigFrom(watched("/home/ada/eye/frame.png")), "/etc/imprimatur.json", 252);
  expect(unit).toMatch(/^ProtectHome=read-only$/m);
  expect(unit).toMatch(/^PrivateDevices=yes$/m);
  const hidden = join(folder, "hidden.json");
  writeFileSync(hidden, JSON.stringify(watched("/tmp/frame.png")));
  const { code, out } = await installWith({}, "--config", hidden, "--root", join(folder, "hidden"));
  expect([code, out]).toEqual([0, expect.stringContaining("/tmp/frame.png lies under a /tmp, which no service sees")]);
});

test("a station of the network sees no device; a wired one only its own, by their groups", () => {
  const plain = unitOf(agentConfigFrom(network), "/etc/imprimatur.json", 252);
  expect(plain).toMatch(/^PrivateDevices=yes$/m);
  expect(plain).not.toMatch(/DeviceAllow|SupplementaryGroups/);
  const unit = unitOf(agentConfigFrom(wired), "/etc/imprimatur.json", 252);
  expect(unit).toMatch(
    /^PrivateDevices=no\nDevicePolicy=closed\nDeviceAllow=char-usb rw\nDeviceAllow=char-lp rw\nDeviceAllow=char-ttyUSB rw\nDeviceAllow=char-ttyACM rw$/m,
  );
  expect(unit).not.toContain("RestartSteps");
  expect(unitOf(agentConfigFrom(wired), "/etc/imprimatur.json", 254)).toContain("RestartSec=1\nRestartSteps=6\nRestartMaxDelaySec=60\n");
});

test("a scanner that is plugged in after the start can be opened: the drivers of its kind are there before, or systemd would know of no such kind", () => {
  const unit = unitOf(agentConfigFrom(wired), "/etc/imprimatur.json", 252);
  const drivers = "modprobe@usbserial.service modprobe@cdc_acm.service";
  expect(unit).toContain(`\nWants=network-online.target ${drivers}\nAfter=network-online.target ${drivers} time-sync.target\n`);
  expect(unitOf(agentConfigFrom(network), "/etc/imprimatur.json", 252)).toContain("\nWants=network-online.target\n");
});

test.for([
  ["/dev/ttymxc2", ["char-ttymxc"]],
  ["/dev/ttyAMA0", ["char-ttyAMA"]],
  ["/dev/rfcomm0", ["char-rfcomm", "/dev/rfcomm0"]],
  ["/dev/hand-scanner", ["/dev/hand-scanner"]],
] as const)("a serial line that is called %s is in the service's sight, and its group's", ([path, own]) => {
  const unit = unitOf(
    agentConfigFrom({ ...network, scanners: [{ name: "s", driver: "line", port: `serial:${path}` }] }),
    "/etc/i.json",
    252,
  );
  const allowed = Array.from(unit.matchAll(/^DeviceAllow=(.*) rw$/gm), ([, device]) => device);
  expect(allowed).toEqual(["char-ttyUSB", "char-ttyACM", "char-ttyS", ...own]);
  if (/^(dialout|uucp):/m.test(readFileSync("/etc/group", "utf8"))) expect(unit).toMatch(/^SupplementaryGroups=(dialout|uucp)$/m);
});

test("from a path with spaces and letters of all kinds systemd takes it, too", async (t) => {
  if (!has("systemd-analyze")) return t.skip("this machine has no systemd-analyze");
  const place = join(folder, "Ünser 100 % Druckers' Platz");
  mkdirSync(join(place, "agent"), { recursive: true });
  for (const name of ["unit.ts", "port-url.ts"]) copyFileSync(join("agent", name), join(place, "agent", name));
  const { unitOf: unitThere } = (await import(pathToFileURL(join(place, "agent/unit.ts")).href)) as { unitOf: typeof unitOf };
  const unit = join(folder, "spaced.service");
  writeFileSync(unit, unitThere(agentConfigFrom(network), join(place, "my agent.json"), 0));
  const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", unit], { encoding: "utf8" });
  expect([status, stdout, stderr]).toEqual([0, "", ""]);
});

test("nor does a device or a station of such a name break a line of it", async (t) => {
  if (!has("systemd-analyze")) return t.skip("this machine has no systemd-analyze");
  const at = join(folder, "named.service");
  const printers = [{ ...network.printers[0], port: "file:/dev/press\\ 100 %" }];
  const unit = unitOf(agentConfigFrom({ ...network, station: "hall\\line \\", printers }), file, 0);
  expect(unit).toContain('\nDeviceAllow="/dev/press\\\\ 100 %%" rw\n');
  expect(unit).toContain("\nDescription=Imprimatur station hall\\line \\ \n"); // else the next line would go on with it
  writeFileSync(at, unit);
  const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", at], { encoding: "utf8" });
  expect([status, stdout, stderr]).toEqual([0, "", ""]);
});

test.for([
  ["of the network", network],
  ["with devices", wired],
] as const)("systemd takes the unit of a station %s without a word, and finds little to attack", ([, settings], t) => {
  if (!has("systemd-analyze")) return t.skip("this machine has no systemd-analyze");
  const unit = join(folder, "imprimatur-agent.service");
  writeFileSync(unit, unitOf(agentConfigFrom(settings), file, 0));
  const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", unit], { encoding: "utf8" });
  expect([status, stdout, stderr]).toEqual([0, "", ""]);
  const judged = execFileSync("systemd-analyze", ["security", "--offline=yes", "--threshold=30", unit], {
    encoding: "utf8",
    stdio: "pipe",
  });
  expect(judged).toMatch(/Overall exposure level for imprimatur-agent\.service: [0-2]\.\d OK/);
});
