// Simulated printers are for people too: a page of their own over HTTP, a command line, labels that a camera can see, and no doubt that they are simulated.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { createInterface } from "node:readline";
import ky from "ky";
import { PNG } from "pngjs";
import { expect, onTestFinished, test } from "vitest";
import { type Bitmap, isBlack, pictureOf } from "../../agent/bitmap.ts";
import { type Clock, systemClock } from "../../agent/clock.ts";
import { decode } from "../../agent/decode.ts";
import { renderLabel } from "../../agent/label.ts";
import { driver as escpos } from "../../agent/printers/escpos.ts";
import { driver as zpl } from "../../agent/printers/zpl.ts";
import { loadTemplates, templateFor } from "../../agent/template.ts";
import { listening } from "../../fixtures/listening.ts";
import type { StartOptions } from "../../fixtures/printers/control.ts";
import { startEscposPrinter } from "../../fixtures/printers/escpos.ts";
import { startZplPrinter } from "../../fixtures/printers/zpl.ts";

const PAYLOAD = "https://id.example.com/01/09506000134352/21/123456789012";
const TIMING = { answerMs: 1_000, pollMs: 30, completionMs: 8_000, settleMs: 600, stallMs: 1_000 };
const template = templateFor(loadTemplates(), { widthMm: 50, heightMm: 25 });
const label = () =>
  renderLabel({ payload: PAYLOAD, gtin: "09506000134352", serial: "123456789012" }, { template, dpi: 203, simulated: true });

async function printOn(url: string, { name, driver }: { name: string; driver: typeof zpl }) {
  const { bitmap } = await label();
  const printer = await driver.open(url, { name, dpi: 203, simulated: true, timing: TIMING });
  onTestFinished(() => printer.close());
  const encoded = await printer.encode(bitmap);
  return { bitmap, printer, encoded, print: async () => printer.awaitCompletion(await printer.submit(encoded)) };
}
async function started(start: typeof startZplPrinter, options: StartOptions = {}) {
  const machine = await start({ scale: 0, control: 0, ...options });
  onTestFinished(machine.stop);
  return machine;
}

test.each([
  ["ZPL", startZplPrinter, zpl],
  ["ESC/POS", startEscposPrinter, escpos],
] as const)("over HTTP a simulated %s printer shows its labels and takes faults", async (language, start, driver) => {
  const machine = await started(start);
  const { print } = await printOn(machine.url, { name: language, driver });
  const http = ky.create({ prefix: machine.controlUrl ?? "", throwHttpErrors: false });
  expect(await http.get("").json()).toMatchObject({ printer: `SIMULATED ${language} printer: nothing is printed here` });
  expect(await http.post("faults", { json: { name: "paper-out" } }).json()).toEqual({ faults: { "paper-out": {} } });
  const form = { "content-type": "application/x-www-form-urlencoded" }; // what curl -d says
  expect((await http.post("faults", { body: '{"name":"jam"}', headers: form })).status).toBe(200);
  expect((await http.post("faults", { body: '{"name":"jam"}' })).status).toBe(200); // as text, which is how fetch sends it
  expect((await http.post("faults", { json: { name: ["jam"] } })).status).toBe(400);
  expect((await http.delete("faults/jma")).status).toBe(404); // nor is a typo taken for nothing here
  expect((await http.delete("faults/jam")).status).toBe(200);
  expect(await http.get("state").json()).toMatchObject({ simulated: true, stuck: "paper-out" });
  expect((await http.post("faults", { json: { name: "on-fire" } })).status).toBe(400);
  expect((await http.post("faults", { json: { name: "paper-out", after: "two" } })).status).toBe(400);
  expect((await http.post("faults", { json: { name: "paper-out", afer: 1 } })).status).toBe(400); // as on the command line
  expect((await http.post("faults")).status).toBe(400);
  expect((await print()).outcome).toBe("blocked");
  expect(await http.get("labels").json()).toEqual({ data: [] });
  await http.post("mend");
  await machine.printed(1);
  expect(await http.get("labels").json()).toMatchObject({ data: [{ n: 0, isVoid: false, png: "/labels/0.png" }] });
  const png = await http.get("labels/0.png").arrayBuffer();
  expect((await decode(new Uint8Array(png))).map(({ text }) => text)).toEqual([PAYLOAD]);
  expect((await http.get("labels/1.png")).status).toBe(404);
  expect((await http.get("labels/x.png")).status).toBe(404);
  expect(await http.delete("faults/paper-out").json()).toEqual({ faults: {} });
});

/** A process of its own, and what it said first. */
async function program(...args: string[]) {
  const started = spawn(process.execPath, [
    ".runtime/run.mjs",
    "simulate",
    "zpl",
    "--port",
    "0",
    "--control",
    "0",
    "--scale",
    "0",
    ...args,
  ]);
  onTestFinished(() => void started.kill()); // a killed one would leave its program behind
  const lines: string[] = [];
  for await (const line of createInterface({ input: started.stdout })) if (lines.push(line) === 3) break;
  return { started, lines, url: /tcp:\S+/.exec(lines[1] ?? "")?.[0] ?? "" };
}

test("a printer without labels says nothing when asked how it is, or sets its flag, as it was told by the command line or over HTTP", async () => {
  const { lines, url } = await program("--fault", "paper-out", "--fault", "flags-faults");
  const control = /http:\S+/.exec(lines[2] ?? "")?.[0];
  const { printer } = await printOn(url, { name: "older", driver: zpl });
  const out = { ready: false, faults: [{ name: "media-out" }] };
  expect(await printer.preflight()).toMatchObject({ ...out, source: ["~HS", "~HQES"] });
  await ky.delete(`${control}/faults/flags-faults`);
  expect(await printer.preflight()).toMatchObject({ ...out, source: ["~HQES"] });
  await ky.post(`${control}/faults`, { json: { name: "flags-faults" } });
  expect(await printer.preflight()).toMatchObject({ ...out, source: ["~HS", "~HQES"] });
});

test("from the command line it says what it is, misbehaves as told, prints, and ends when told", async () => {
  const { started: itself, lines, url } = await program("--fault", "paper-out:after=1");
  expect(lines[0]).toBe("SIMULATED zpl printer: nothing is printed here.");
  const { print, printer } = await printOn(url, { name: "cli", driver: zpl });
  expect((await print()).outcome).toBe("blocked"); // it is out, and the printer is out of labels behind it
  expect((await printer.preflight()).faults).toMatchObject([{ name: "media-out" }]);
  expect(await ky(`${/http:\S+/.exec(lines[2] ?? "")?.[0]}/labels`).json()).toMatchObject({ data: [{ n: 0 }] });
  itself.kill("SIGTERM");
  expect((await once(itself, "exit"))[0]).toBe(0);
});

test.each([
  [["-h"], 0, /^usage: imprimatur COMMAND .*\n {2}start .*[^]*\n {2}simulate {2}one simulated/],
  [["simulate"], 0, /^usage: imprimatur simulate zpl\|escpos\|ipp\|/],
  [["simulate", "zlp"], 2, /there is no simulator "zlp"; did you mean zpl\?\nusage: imprimatur simulate zpl\|/],
  [
    ["simulate", "escpos", "--help"],
    0,
    /^usage: imprimatur simulate escpos \[--port N\].* \[--fault paper-out\[:after=N,mid=N\]\|head-open\|.*\]\.\.\.\n$/,
  ],
  [["simulate", "ipp", "--prot", "1"], 2, /^there is no option --prot; did you mean --port\? \(usage: imprimatur simulate ipp /],
  [["simulate", "zpl", "--dpi", "200"], 2, /^--dpi is one of 203, 300, 600\n$/],
  [["simulate", "zpl", "--scale", "6"], 2, /^--scale is a number from 0 to 5\n$/],
  [
    ["simulate", "zpl", "--port", "0", "--control", "0", "--fault", "rfid-viod"],
    2,
    /^there is no fault rfid-viod; did you mean rfid-void\?\n$/,
  ],
  [["simulate", "zpl", "--port", "0", "--control", "0", "--fault", "rfid-void:tmes=2"], 2, /^rfid-void: times=NUMBER, not tmes=2\n$/],
  [["simulate", "camera", "--label", "not-there.png"], 1, /^ENOENT: .*not-there\.png/],
  [["simulate", "camera", "--port", "0", "--control", "0", "--label", "package.json"], 1, /^package\.json isn't a PNG file: /],
  [["simulate", "camera", "--fault", "mirorred"], 2, /^"mirorred" isn't one of none, /],
  [["simulate", "scanner", "--port", "70000"], 2, /^--port is a number from 0 to 65535\n$/],
  [["simulate", "scanner", "--control", "9201.5"], 2, /^--control is a whole number\n$/],
  [["simulate", "anchor", "--way", "well-ish"], 2, /^--way is one of well, twice, /],
  [["simulate", "registry", "--help"], 0, /^usage: imprimatur simulate registry /],
  [["simulate", "receiver"], 2, /^--secret is missing: /],
  [["bench", "--help"], 0, /^usage: imprimatur bench \[--brief\] \[NAME\]\.\.\.\n$/],
  [["bench", "stroe"], 2, /^imprimatur bench: there is no bench stroe; did you mean store\?\n$/],
  [["readme", "--chek"], 2, /^imprimatur readme: --chek isn't --check, and nothing else is known\n$/],
  [["soak", "-h"], 0, /^usage: imprimatur soak \[--minutes N \| --seeds N\] /],
  [["verdict", "--help"], 0, /^usage: imprimatur verdict /],
])("imprimatur %j ends with %i and a line that helps", (args, code, says) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [".runtime/run.mjs", ...args], { encoding: "utf8", timeout: 60_000 });
  expect({ status, said: `${stdout}${stderr}` }).toEqual({ status: code, said: expect.stringMatching(says) });
});

test("a simulator whose port is taken says by which options it gets another: beside a second printer it is the control's", async (t) => {
  const second = createServer();
  t.onTestFinished(() => void second.close());
  const port = String(await listening(second));
  const args = ["simulate", "zpl", "--port", "0", "--control", port];
  const { status, stderr } = spawnSync(process.execPath, [".runtime/run.mjs", ...args], { encoding: "utf8", timeout: 60_000 });
  expect([status, stderr]).toEqual([
    1,
    `listen EADDRINUSE: address already in use 127.0.0.1:${port}: name another with --port or --control\n`,
  ]);
});

/** As a slow disk does to it, and a machine that sleeps. */
const standStill = (ms: number) => void setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms));

test("what a printer answered while the agent's process stood still has been said in time", async () => {
  const { url } = await program();
  const { printer } = await printOn(url, { name: "cli", driver: zpl });
  const asked = printer.preflight();
  standStill(2 * TIMING.answerMs);
  expect(await asked).toMatchObject({ ready: true, source: ["~HS", "~HQES"], counters: { labels: 1_000 } });
});

test("a label that came out while the agent's process stood still is confirmed by one more look at the counter", async () => {
  const { url } = await program("--scale", "1");
  let isSent = false;
  const after: Clock["after"] = (ms, act) => {
    if (isSent && ms === TIMING.answerMs / 10) standStill(2 * TIMING.settleMs); // it has answered, and is asked what waits in it
    isSent &&= ms !== TIMING.answerMs / 10;
    return systemClock.after(ms, act);
  };
  const timing = { ...TIMING, pollMs: TIMING.completionMs };
  const printer = await zpl.open(url, { name: "cli", dpi: 203, simulated: true, timing }, { clock: { ...systemClock, after } });
  onTestFinished(() => printer.close());
  await printer.probe();
  const submission = await printer.submit(await printer.encode((await label()).bitmap));
  isSent = true;
  expect(await printer.awaitCompletion(submission)).toMatchObject({ outcome: "confirmed", evidence: { before: 1_000, after: 1_001 } });
});

const column = (dots: Bitmap, x: number) => Array.from({ length: dots.heightDots }, (_, y) => isBlack(dots, x, y));
const inkOf = (dots: Bitmap) => pictureOf(dots).data.filter((value, i) => i % 4 === 0 && value === 0).length;

test("what the head does to a label is on the label: dead elements, heat, VOID", async () => {
  const machine = await started(startZplPrinter, { rfid: true });
  const { bitmap, print } = await printOn(machine.url, { name: "zebra", driver: zpl });
  machine.fault("dead-element", { dot: 60, width: 2 });
  await print();
  machine.clear();
  machine.fault("print-gain", { dots: 1 });
  await print();
  machine.clear();
  await machine.consume(bitmap, { isVoid: true });
  machine.fault("drift", { dots: 5 });
  await machine.consume(bitmap);
  const [dead, heavy, voided, low] = machine.labels.map(({ dots }) => dots) as [Bitmap, Bitmap, Bitmap, Bitmap];
  expect(column(low, 60).slice(5)).toEqual(column(bitmap, 60).slice(0, -5));
  expect(column(bitmap, 60)).toContain(true);
  expect([...column(dead, 60), ...column(dead, 61)]).not.toContain(true);
  expect(column(dead, 62)).toEqual(column(bitmap, 62));
  expect(inkOf(heavy)).toBeGreaterThan(inkOf(bitmap));
  expect(inkOf(voided)).toBeGreaterThan(inkOf(bitmap));
  expect(await decode(pictureOf(voided))).toEqual([]);
});

test("losing power drops connections and what waits, and keeps the counter", async () => {
  const machine = await started(startZplPrinter);
  const { printer, encoded } = await printOn(machine.url, { name: "zebra", driver: zpl });
  machine.fault("paused");
  const submission = await printer.submit(encoded);
  expect((await printer.awaitCompletion(submission)).outcome).toBe("blocked");
  machine.fault("power-off");
  expect(await printer.awaitCompletion(submission)).toMatchObject({
    outcome: "unknown",
    reason: expect.stringContaining("the connection was lost"),
  });
  machine.clear();
  await machine.idle();
  expect([machine.labels.length, machine.counters.labels, machine.waiting()]).toEqual([0, 1_000, 0]);
});

test("paper that runs out in the middle leaves a scrap, and the whole label comes out on the next roll", async () => {
  const machine = await started(startZplPrinter);
  const { bitmap, printer, encoded } = await printOn(machine.url, { name: "zebra", driver: zpl });
  machine.fault("paper-out", { after: 1, mid: 1 });
  const submission = await printer.submit(encoded);
  expect((await printer.awaitCompletion(submission)).outcome).toBe("blocked");
  expect([machine.labels.length, machine.scraps.length]).toEqual([0, 1]);
  machine.clear();
  expect((await printer.awaitCompletion(submission)).outcome).toBe("confirmed");
  expect(machine.labels[0]?.dots).toEqual(bitmap);
});

test("a label's picture is a PNG of its own dots", async () => {
  const { bitmap } = await label();
  const machine = await started(startZplPrinter);
  await machine.consume(bitmap);
  const png = PNG.sync.read(Buffer.from(await ky(`${machine.controlUrl}/labels/0.png`).arrayBuffer()));
  expect([png.width, png.height]).toEqual([bitmap.widthDots, bitmap.heightDots]);
});
