// Simulators that a person starts: the receiver says why it refuses what it doesn't believe, a taken port and a typo are told, and nothing typed ends one.
import { spawn, spawnSync } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished, test } from "vitest";
import { startQueue } from "../../fixtures/printers/ipp.ts";
import { startCamera } from "../../fixtures/scanners/camera.ts";
import { startLineScanner } from "../../fixtures/scanners/line.ts";
import { pngOfGray } from "../../fixtures/scanners/optics.ts";
import { freshFolder } from "../endings.ts";

const SECRET = "whsec_c2VjcmV0";

/** What it says, line by line. */
function started(file: string, ...given: string[]): () => Promise<string> {
  const child = spawn(process.execPath, [`fixtures/${file}`, ...given], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return async () => String((await lines.next()).value);
}

test("who starts the receiver with the wrong secret is told so", async () => {
  const said = started("receiver.ts", "--secret", SECRET, "--port", "0");
  const url = (await said()).replace("listening at ", "");
  const send = (secret: string, at = Math.floor(Date.now() / 1000)) => {
    const body = '{"id":"e1","type":"product.created","data":{}}';
    const signature = createHmac("sha256", secret).update(`${at}.${body}`).digest("hex");
    return fetch(url, {
      method: "POST",
      body,
      headers: { "x-service-delivery": "d1", "x-service-signature-v2": `t=${at},v2=${signature}` },
    });
  };
  expect((await send("whsec_another")).status).toBe(401);
  expect(await said()).toBe("refused: the signature is wrong");
  expect((await send(SECRET, 1_000)).status).toBe(401);
  expect(await said()).toBe("refused: the timestamp is more than five minutes off");
  expect((await send(SECRET)).status).toBe(204);
  expect(await said()).toBe("product.created e1 {}");
});

test.each(["anchor", "registry"])("a simulated %s outlives what isn't JSON, and says in a line that its port is taken", async (name) => {
  const said = started(`${name}.ts`, "--port", "0");
  const url = new URL(/http:[^,]+/.exec(await said())?.[0] ?? "");
  const post = (body: string) => fetch(url, { method: "POST", body });
  expect((await post("junk")).status).toBe(400);
  expect((await post('{"digest":"d"}')).status).toBe(201);
  const { status, stderr } = spawnSync(process.execPath, [`fixtures/${name}.ts`, "--port", url.port], { encoding: "utf8" });
  expect({ status, stderr }).toEqual({
    status: 1,
    stderr: `listen EADDRINUSE: address already in use ${url.host}: name another with --port\n`,
  });
});

test.each([
  ["a scanner", () => startLineScanner(), { text: "x", falt: "wrong" }, "text, fault, suffix, aim"],
  ["a camera", () => startCamera({ shows: () => undefined }), { falt: "mirrored" }, "fault, seed"],
  ["a print queue", () => startQueue(), { falt: "held" }, "fault"],
])("a typo at the control port of %s isn't taken for nothing", async (_name, start, order, known) => {
  const { control, end } = await start();
  onTestFinished(() => end());
  const post = async (body: unknown) => (await fetch(control.url, { method: "POST", body: JSON.stringify(body) })).json();
  expect(await post(order)).toEqual({ error: `there is no "falt" here; there are ${known}` });
  expect(await post(null)).toEqual({ error: `send an object with ${known}` });
});

test.each([
  ["printers/ipp.ts", "held"],
  ["scanners/line.ts", "wrong"],
  ["scanners/camera.ts", "mirrored"],
])("%s has its faults by the command line as by HTTP, and a typo is told", async (file, fault) => {
  const said = started(file, "--port", "0", "--control", "0", "--fault", fault);
  expect(await said()).toMatch(/^SIMULATED .*; control: http:/);
  const { status, stderr } = spawnSync(process.execPath, [`fixtures/${file}`, "--fault", "gremlins"], { encoding: "utf8" });
  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(RegExp(`^"gremlins" isn't one of none, .*${fault}`)) });
});

test("a scanner scans with the fault, the line's end and the AIM identifier that were typed, unless told otherwise with the text", async () => {
  const said = started("scanners/line.ts", "--port", "0", "--control", "0", "--fault", "wrong", "--suffix", "cr", "--aim");
  const [, port, control = ""] = /tcp:\/\/127\.0\.0\.1:(\d+); control: (\S+)/.exec(await said()) ?? [];
  const line = connect(Number(port), "127.0.0.1").setEncoding("latin1");
  onTestFinished(() => void line.destroy());
  await once(line, "connect");
  const scanned = async (order: object) => {
    const heard = once(line, "data");
    await fetch(control, { method: "POST", body: JSON.stringify(order) });
    return (await heard)[0] as string;
  };
  expect(await scanned({ text: "label 1" })).toBe("]Q1label 2\r");
  expect(await scanned({ text: "label 1", fault: "none", suffix: "lf", aim: false })).toBe("label 1\n");
});

test("a camera whose picture is being written, or has been moved away, has none now and outlives it", async () => {
  const file = join(freshFolder("eye"), "label.png");
  const picture = pngOfGray({ width: 8, height: 8, gray: new Uint8Array(64) });
  writeFileSync(file, picture);
  const said = started("scanners/camera.ts", "--label", file, "--port", "0", "--control", "0");
  const url = /http:\S+\.png/.exec(await said())?.[0] ?? "";
  const statusNow = async () => (await fetch(url)).status;
  expect(await statusNow()).toBe(200);
  writeFileSync(file, picture.subarray(0, picture.length / 2));
  expect(await statusNow()).toBe(503);
  rmSync(file);
  expect(await statusNow()).toBe(503);
  writeFileSync(file, picture);
  expect(await statusNow()).toBe(200);
});
