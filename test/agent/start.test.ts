// What a newcomer types first: npm start takes a label to SEALED before his eyes, and npm run floor a whole shift of them.
import { execFile, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { expect, onTestFinished, test } from "vitest";
import { freePort } from "../../fixtures/free-port.ts";
import { listening } from "../../fixtures/listening.ts";
import { startProgram } from "../../fixtures/program.ts";
import { mishaps } from "../../fixtures/run-floor.ts";
import { freshFolder } from "../endings.ts";
import { world } from "../world.ts";

const run = (file: string, args: string[], env: Record<string, string> = {}) =>
  new Promise<{ code: number; said: string }>((resolve) => {
    execFile(process.execPath, [file, ...args], { env: { ...process.env, ...env }, timeout: 100_000 }, (error, out, complaints) =>
      resolve({ code: Number(error?.code ?? 0), said: out + complaints }),
    );
  });

test("npm start -- --once ends with 0 after the first SEALED label, and again on the same folder", { timeout: 120_000 }, async () => {
  const dataDir = freshFolder("start");
  for (let time = 1; time <= 2; time += 1) {
    const { code, said } = await run("fixtures/start.ts", ["--once"], { IMPRIMATUR_PORT: "0", IMPRIMATUR_DATA_DIR: dataDir });
    expect([time, code, said]).toEqual([
      time,
      0,
      expect.stringMatching(/CLAIMED[^]*RENDERED[^]*SPOOL_SUBMITTED[^]*PRINTED_ATTESTED[^]*SCAN_VERIFIED[^]*SEALED/),
    ]);
    expect(said).toMatch(/The station: http:\/\/127\.0\.0\.1:\d+/);
  }
});

test("the key that npm start names signs in to a floor that shows the label, and the station's address is its page", async () => {
  const dataDir = freshFolder("start");
  const bootstrap = "a bootstrap key of one's own";
  const env = { ...process.env, IMPRIMATUR_PORT: "0", IMPRIMATUR_DATA_DIR: dataDir, IMPRIMATUR_BOOTSTRAP_KEY: bootstrap };
  const child = spawn(process.execPath, ["fixtures/start.ts"], { env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = once(child, "close");
  onTestFinished(async () => {
    child.kill();
    await ended;
  });
  let said = "";
  for await (const chunk of child.stdout) if (/^Up;/m.test((said += chunk))) break;
  const [, floor = "", key = ""] = /The floor: (\S+)\/console .* (imp_\w+)\)/.exec(said) ?? [];
  const signIn = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ key }) };
  const cookie = (await fetch(`${floor}/console/session`, signIn)).headers.get("set-cookie")?.split(";")[0] ?? "";
  const summary = await fetch(`${floor}/api/v2/aidc/summary`, { headers: { cookie, "sec-fetch-site": "same-origin" } });
  expect(await summary.json()).toMatchObject({ states: { SEALED: 1 } });
  const products = await fetch(`${floor}/api/v2/products`, { headers: { cookie, "sec-fetch-site": "same-origin" } });
  const [, made] = /a product, ready for its passport: (\d+)/.exec(said) ?? [];
  const [, sealed] = /sealed: \S+\/01\/(\d+)\/21\//.exec(said) ?? [];
  expect([made, ((await products.json()) as { data: { gtin: string }[] }).data.map(({ gtin }) => gtin)]).toEqual([sealed, [sealed]]); // one and the same, from create to SEALED
  const [, station = ""] = /The station: (\S+)/.exec(said) ?? [];
  expect((await fetch(station)).headers.get("content-type")).toMatch("text/html");
});

test("npm start that is interrupted while it shows things ends well, and calls nothing failed", { timeout: 60_000 }, async () => {
  const dataDir = freshFolder("interrupted");
  const env = { ...process.env, IMPRIMATUR_PORT: "0", IMPRIMATUR_MQTT_PORT: "0", IMPRIMATUR_DATA_DIR: dataDir };
  const child = spawn(process.execPath, ["fixtures/start.ts"], { env, stdio: ["ignore", "pipe", "pipe"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  const complaints = text(child.stderr);
  await heardUntil("1. a sandbox", child);
  child.kill("SIGTERM");
  child.stdout.resume();
  expect(await ended).toEqual([0, null]);
  expect(await complaints).not.toContain("failed");
});

test("npm start on a folder whose first key was rotated says what to set", { timeout: 120_000 }, async () => {
  const dataDir = freshFolder("rotated");
  const anyPorts = { IMPRIMATUR_PORT: "0", IMPRIMATUR_MQTT_PORT: "0", IMPRIMATUR_DATA_DIR: dataDir };
  const cloud = await startProgram("cloud/main.ts", anyPorts);
  const headers = { authorization: `Bearer ${readFileSync(join(dataDir, "bootstrap-key"), "utf8").trim()}` };
  const { data } = (await (await fetch(`${cloud.url}/api/v2/api-keys`, { headers })).json()) as { data: { id: string }[] };
  expect((await fetch(`${cloud.url}/api/v2/api-keys/${data[0]?.id}/rotate`, { method: "POST", headers })).status).toBe(201);
  await cloud.end();
  const { code, said } = await run("fixtures/start.ts", ["--once"], anyPorts);
  expect([code, said]).toEqual([1, expect.stringMatching(/the walk failed: .* 401.*If it was rotated, set IMPRIMATUR_BOOTSTRAP_KEY/)]);
});

test("npm start says what it takes, and which option a wrong one was meant to be", async () => {
  const usage = "usage: imprimatur start [--once] [--config FILE]; settings such as IMPRIMATUR_PORT come from the environment or from FILE";
  expect(await run("fixtures/start.ts", ["--onec"])).toEqual({
    code: 2,
    said: `imprimatur: there is no option --onec; did you mean --once? (${usage})\n`,
  });
  expect(await run("fixtures/start.ts", ["--help"])).toEqual({ code: 0, said: `${usage}\n` });
});

/** The settings of a station by itself: neither a cloud nor a printer answers it. */
function lonely(): Record<string, string> {
  const dataDir = freshFolder("lonely");
  const printer = { name: "away", driver: "zpl", port: "tcp://127.0.0.1:9", label: { widthMm: 50, heightMm: 25 } };
  return {
    IMPRIMATUR_AGENT_KEY: "imp_nobodys",
    IMPRIMATUR_AGENT_CLOUD: "http://127.0.0.1:9",
    IMPRIMATUR_AGENT_DATA_DIR: dataDir,
    IMPRIMATUR_AGENT_CONSOLE: '{"port":0}',
    IMPRIMATUR_AGENT_PRINTERS: JSON.stringify([printer]),
  };
}

test("a station says where its console and its buffer are at any log level, as any free port is one that nobody else could name", async () => {
  const settings = lonely();
  const agent = await startProgram("agent/main.ts", { ...settings, IMPRIMATUR_AGENT_LOG_LEVEL: "silent" });
  expect(agent.said()).toContain(`"dataDir":"${settings["IMPRIMATUR_AGENT_DATA_DIR"]}"`);
  expect((await fetch(`${agent.url}/healthz`)).ok).toBe(true);
  expect(await agent.end()).toBe(0);
});

/** What a program says until this; from then on nobody reads, and the program has to do without. */
async function heardUntil(what: string, child: { stdout: Readable }): Promise<string> {
  let said = "";
  let line: string | undefined;
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) {
    said += chunk;
    line = said
      .split("\n")
      .slice(0, -1)
      .find((one) => one.includes(what)); // a chunk may end within it
    if (line !== undefined) break;
  }
  child.stdout.pause();
  return line ?? "";
}

test("a station works on, and ends with 0, while whoever reads its log stands still", async () => {
  const env = { ...process.env, ...lonely(), IMPRIMATUR_AGENT_LOG_LEVEL: "debug" };
  const child = spawn(process.execPath, ["agent/main.ts"], { env, stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  const { url } = JSON.parse(await heardUntil('"event":"ready"', child));
  for (let n = 0; n < 300; n += 1) {
    const body = JSON.stringify({ text: `${n}${"x".repeat(1_000)}` });
    const { status } = await fetch(`${url}/api/scan`, { method: "POST", headers: { "content-type": "application/json" }, body });
    expect(status).toBe(200);
  }
  child.kill();
  expect(await ended).toEqual([0, null]);
});

test("what waits for a reader who stands still is bounded, and how many lines were lost is told once he goes on", async () => {
  const program = `const { logToStdout } = await import("./shared/log-out.ts");
    const { stream, exit } = logToStdout();
    process.once("SIGTERM", () => { for (let n = 0; n < 10_000; n += 1) stream.write("x".repeat(2_000) + "\\n"); });
    setInterval(() => {}, 1_000); process.once("SIGINT", () => exit(0));
    stream.write("begun\\n");`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  await heardUntil("begun", child);
  child.kill("SIGTERM");
  const { level, lines } = JSON.parse(await heardUntil("log-lost", child));
  expect(level).toBe("warn");
  expect(lines).toBeGreaterThan(5_000);
  expect(lines).toBeLessThan(7_000);
  child.kill("SIGINT");
  expect(await ended).toEqual([0, null]);
});

test("a station whose log has no room works on, ends with 0, and names what keeps it from starting", async () => {
  const env = { ...process.env, ...lonely(), IMPRIMATUR_AGENT_LOG_LEVEL: "debug" };
  const port = await freePort();
  const start = () => {
    const child = spawn("sh", ["-c", 'exec "$@" >/dev/full', "sh", process.execPath, "agent/main.ts"], {
      env: { ...env, IMPRIMATUR_AGENT_CONSOLE: JSON.stringify({ port }) },
      stdio: ["ignore", "ignore", "pipe"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    return { child, ended: once(child, "exit"), complaints: text(child.stderr) };
  };
  const first = start();
  await expect.poll(() => fetch(`http://127.0.0.1:${port}/healthz`).then(({ ok }) => ok, () => false)).toBe(true); // oxfmt-ignore
  const second = start();
  expect(await second.ended).toEqual([1, null]);
  expect(await second.complaints).toMatch(/^imprimatur agent: another agent works in .*\n$/);
  expect((await fetch(`http://127.0.0.1:${port}/healthz`)).ok).toBe(true);
  first.child.kill();
  expect(await first.ended).toEqual([0, null]);
  expect(await first.complaints).toBe("");
});

test("a floor that is interrupted ends with the signal's code and leaves nothing behind", { timeout: 60_000 }, async () => {
  const folder = freshFolder("left");
  const env = { ...process.env, TMPDIR: folder };
  const child = spawn(process.execPath, ["fixtures/run-floor.ts", "--labels", "1000"], { env, stdio: "ignore" });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "exit");
  await expect.poll(() => readdirSync(folder).some((name) => existsSync(join(folder, name, "imprimatur.db")))).toBe(true);
  child.kill();
  expect(await ended).toEqual([143, null]);
  expect(readdirSync(folder)).toEqual([]);
});

/** Through the launcher, as it is typed; `to` is where a shell sends what it says. */
const typed = (args: string[], to = "") =>
  new Promise<{ code: number; complaints: string }>((resolve) => {
    const line = ["-c", `"$@" ${to}`, "sh", process.execPath, ".runtime/run.mjs", ...args];
    execFile("sh", line, { timeout: 60_000 }, (error, _out, complaints) => resolve({ code: Number(error?.code ?? 0), complaints }));
  });

test.each([[["--help"]], [["cloud", "--help"]], [["agent", "--help"]], [["agent", "doctor", "--config", "/nowhere"]]])(
  "what %j says and can't write is told in one line, with an exit code of its own",
  async (args) => {
    expect(await typed(args, ">/dev/full")).toEqual({
      code: 74,
      complaints: "imprimatur: what it had to say couldn't be written: ENOSPC: no space left on device, write\n",
    });
  },
);

test("what a start that was killed has half packed goes with the next start", async () => {
  const { pid } = spawnSync(process.execPath, ["--version"]);
  const left = join("node_modules/.cache/imprimatur", `agent-0123456789abcdef.${pid}`);
  mkdirSync(left, { recursive: true });
  onTestFinished(() => rmSync(left, { recursive: true, force: true }));
  expect((await typed(["agent", "--help"])).code).toBe(0);
  expect(existsSync(left)).toBe(false);
});

test("a clone whose packages for this platform were left out gets them at its next start, once, and for whoever may read it, as a service's own user has to", async () => {
  const clone = freshFolder("clone");
  for (const folder of [".runtime", "cloud", "node_modules"]) mkdirSync(join(clone, folder));
  for (const file of ["run.mjs", "unread.mjs"]) copyFileSync(join(".runtime", file), join(clone, ".runtime", file));
  const [one, binding] = [{ version: "1.0.0" }, { version: "1.0.0", optional: true, os: [process.platform], cpu: [process.arch] }];
  const put = (name: string, packages: object) => writeFileSync(join(clone, name), JSON.stringify({ packages }));
  put("package-lock.json", { "": {}, "node_modules/one": one, "node_modules/binding": binding });
  put("all.json", { "node_modules/one": one, "node_modules/binding": binding });
  put("node_modules/.package-lock.json", { "node_modules/one": one });
  writeFileSync(join(clone, "cloud/verify.ts"), "process.stdout.write(`runs ${process.umask()}`)");
  const npm = join(clone, "npm.cjs"); // the far end: what is asked of it, and what it does
  const does =
    'fs.appendFileSync("asked", process.argv.slice(2).join(" ") + "\\n"); fs.copyFileSync("all.json", "node_modules/.package-lock.json")';
  writeFileSync(npm, `const fs = require("node:fs"); ${does}`);
  const start = () =>
    spawnSync("sh", ["-c", 'umask 077; exec "$0" "$@"', process.execPath, join(clone, ".runtime/run.mjs"), "verify"], {
      env: { ...process.env, npm_execpath: npm },
      encoding: "utf8",
    });
  expect([start().stdout, start().stdout]).toEqual(["runs 63", "runs 63"]);
  expect(statSync(join(clone, "asked")).mode & 0o777).toBe(0o644);
  expect(readFileSync(join(clone, "asked"), "utf8")).toMatch(/^ci .*--include=optional\n$/);
});

test("whoever stops reading the agent's help gets no complaint", async () => {
  expect(await typed(["agent", "--help"], "| true")).toEqual({ code: 0, complaints: "" });
});

test.each([
  [["agnet"], 'there is no command "agnet"; did you mean agent?'],
  [["simulate", "scaner"], 'there is no simulator "scaner"; did you mean scanner?'],
  [["nonsense"], 'there is no command "nonsense"'],
])("%j is answered with what was meant, and with all that there is", async (args, says) => {
  expect(await typed(args)).toEqual({ code: 2, complaints: expect.stringContaining(`imprimatur: ${says}\nusage: imprimatur`) });
});

test("npm run floor explains every label, with faults and without", { timeout: 120_000 }, async () => {
  const { code, said } = await run("fixtures/run-floor.ts", ["--stations", "2", "--labels", "12", "--faults", "mixed", "--seed", "5"]);
  expect([code, said]).toEqual([0, expect.stringMatching(/sealed\s+12\n[^]*every label is sealed or explained/)]);
  expect(await run("fixtures/run-floor.ts", ["--faults", "gremlins"])).toEqual({
    code: 2,
    said: expect.stringContaining("gremlins isn't one"),
  });
  expect(await run("fixtures/run-floor.ts", [], { TMPDIR: "/nowhere" })).toEqual({
    code: 1,
    said: expect.stringMatching(/^imprimatur floor: ENOENT.*\/nowhere.*\n$/),
  });
});

test("the same seed draws the same faults, another seed others", () => {
  const drawn = (seed: number) => mishaps({ seed, faults: ["paper-out", "reset-at", "rfid-void"], stations: 4, labels: 50 });
  expect(drawn(7)).toEqual(drawn(7));
  expect(drawn(8)).not.toEqual(drawn(7));
  expect(new Set(drawn(7).map(({ line }) => line))).toEqual(new Set([0, 1, 2, 3]));
  expect(drawn(7).at(-1)?.due).toBeLessThan(50);
});

test("a line that breaks on a floor does so within a label, and a person is asked", { timeout: 120_000 }, async () => {
  const { said } = await run("fixtures/run-floor.ts", ["--stations", "1", "--labels", "8", "--seed", "11", "--faults", "reset-at"]);
  expect(said).toMatch(/questions to a person +[1-9][^]*every label is sealed or explained/);
});

test("npm run floor has the same faults each time that it runs with a seed", { timeout: 120_000 }, async () => {
  const befell = async () => {
    const { said } = await run("fixtures/run-floor.ts", ["--stations", "3", "--labels", "12", "--seed", "7"]);
    return /faults that befell them[^]*(?=questions to a person)/.exec(said)?.[0];
  };
  const [first, second] = [await befell(), await befell()];
  expect(first).toMatch(/them +[1-9]\d*\n( +\d+ {2}[a-z-]+\n)+$/);
  expect(second).toBe(first);
});

test(
  "a station whose only way out is a proxy's reaches its cloud through it, once Node is told to use it",
  { timeout: 60_000 },
  async (t) => {
    const w = await world({}, t.onTestFinished);
    const { device, key } = (await w.admin.post("/devices", { name: "line 1" })).body;
    const asked: string[] = [];
    const proxy = createServer().on("connect", ({ url = "" }, socket) => {
      asked.push(url);
      const there = connect(Number(url.split(":")[1]), "127.0.0.1"); // the proxy knows the name, the station doesn't
      for (const end of [socket, there]) end.on("error", () => {});
      socket.write("HTTP/1.1 200 OK\r\n\r\n");
      there.pipe(socket).pipe(there);
    });
    const port = await listening(proxy);
    t.onTestFinished(() => void proxy.close());
    const folder = freshFolder("proxied");
    const printer = { name: "p", driver: "zpl", port: "tcp://127.0.0.1:1", label: { widthMm: 50, heightMm: 25 } };
    const cloud = `cloud.invalid:${new URL(w.url).port}`;
    const config = { cloud: `http://${cloud}`, key: key.secret, dataDir: join(folder, "data"), console: { port: 0 }, printers: [printer] };
    writeFileSync(join(folder, "agent.json"), JSON.stringify(config));
    const way = { NODE_USE_ENV_PROXY: "1", HTTP_PROXY: `http://127.0.0.1:${port}`, NO_PROXY: undefined };
    const station = await startProgram("agent/main.ts", way, [], ["--config", join(folder, "agent.json")]);
    t.onTestFinished(async () => void (await station.end("SIGKILL")));
    const isHeardOf = async () => (await w.admin.get(`/devices/${device.id}`)).body.status as string;
    await expect.poll(isHeardOf, { timeout: 30_000 }).toBe("degraded"); // its printer isn't there
    expect(new Set(asked)).toEqual(new Set([cloud]));
  },
);
