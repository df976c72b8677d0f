// The station's settings: what may be in the file, what the environment adds, and one line that names what is wrong.
import { execFile, spawn } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { agentConfigFrom, loadAgentConfig } from "../../agent/config.ts";
import { freshFolder } from "../endings.ts";

const folder = freshFolder("config");
let n = 0;
const fileOf = (content: unknown): string => {
  const file = join(folder, `${(n += 1)}.json`);
  writeFileSync(file, typeof content === "string" ? content : JSON.stringify(content));
  return file;
};
const printer = { name: "zd621r", driver: "zpl", port: "tcp://127.0.0.1:9100", label: { widthMm: 50, heightMm: 25 } };
const least = { key: "imp_x", printers: [printer] };
/** The example of the documentation, whole. */
const whole = {
  cloud: "http://127.0.0.1:8080", key: "imp_x", station: "line-1",
  dataDir: ".imprimatur-agent", console: { host: "127.0.0.1", port: 8090 },
  claim: { ahead: 4, leaseSeconds: 60 },
  operators: [{ id: "op-7", name: "Ada", badge: "B-0007" }],
  printers: [{ ...printer, dpi: 203, rfid: true, attest: "device", simulated: false }],
  scanners: [
    { name: "fixed", driver: "line", port: "tcp://127.0.0.1:9200" },
    { name: "hand", driver: "line", port: "serial:/dev/ttyACM0?baud=115200" },
    { name: "eye", driver: "camera", port: "http://127.0.0.1:9300/frame.png" },
  ],
}; // oxfmt-ignore

test("the documented example is taken as it is", () => {
  expect(agentConfigFrom(whole)).toMatchObject(whole);
});

test("what a copy brings along around the key isn't part of it: HTTP drops it, and a broker would take it for another key", () => {
  for (const key of ["imp_x\n", "  imp_x\r\n", "\uFEFFimp_x"]) expect(agentConfigFrom({ ...least, key }).key).toBe("imp_x");
  expect(() => agentConfigFrom({ ...least, key: " \n" })).toThrow(/^key /);
});

test("what may be left out has the documented defaults", () => {
  expect(agentConfigFrom(least)).toMatchObject({
    cloud: "http://127.0.0.1:8080",
    dataDir: ".imprimatur-agent",
    console: { host: "127.0.0.1", port: 8090 },
    claim: { ahead: 4, leaseSeconds: 60 },
    operators: [],
    scanners: [],
    printers: [{ dpi: 203, rfid: false, attest: "device", simulated: false, rfidTries: 3, cut: true, inFlight: 1 }],
  });
});

test("an operator may have a PIN alone", () => {
  const operators = ["4711", "4712"].map((pin, i) => ({ id: `o${i}`, name: "n", pin }));
  expect(agentConfigFrom({ ...least, operators })).toMatchObject({ operators });
});

test("a badge that the console would take for a label stops no station where its operator has a PIN", () => {
  const operators = [{ id: "o1", name: "n", badge: "https://id.example/o1", pin: "4711" }];
  expect(agentConfigFrom({ ...least, operators })).toMatchObject({ operators });
});

const wrong: [what: string, settings: object, says: RegExp][] = [
  ["an unknown key", { ...least, scaners: [] }, /^scaners isn't a setting; did you mean scanners\?$/],
  [
    "an unknown key inside",
    { ...least, printers: [{ ...printer, dip: 203 }] },
    /^printers\.0\.dip isn't a setting; did you mean printers\.0\.dpi\?$/,
  ],
  ["an unknown key of the console", { ...least, console: { prot: 1 } }, /^console\.prot isn't a setting; did you mean console\.port\?$/],
  ["a station of blanks", { ...least, station: "   " }, /^station must have something to see in it and no control characters$/],
  [
    "a PIN of letters",
    { ...least, operators: [{ id: "o1", name: "n", badge: "b", pin: "mom!" }] },
    /^operators\.0\.pin must have 4 to 12 digits$/,
  ],
  ["an operator who can't sign in", { ...least, operators: [{ id: "o1", name: "n" }] }, /^operators\.0 has neither a badge nor a PIN$/],
  ["no key", { printers: [printer] }, /^key is missing$/],
  ["no printer", { key: "k", printers: [] }, /^printers/],
  ["an unknown driver", { ...least, printers: [{ ...printer, driver: "pcl" }] }, /^printers\.0\.driver must be one of zpl, escpos, ipp$/],
  ["a port that isn't one", { ...least, printers: [{ ...printer, port: "127.0.0.1:9100" }] }, /^printers\.0\.port /],
  [
    "a queue for a language of bytes",
    { ...least, printers: [{ ...printer, port: "ipp://h/printers/x" }] },
    /^printers\.0\.port of this driver/,
  ],
  [
    "tags on a receipt printer",
    { ...least, printers: [{ ...printer, driver: "escpos", rfid: true }] },
    /^printers\.0\.rfid is false for escpos: only zpl can write tags/,
  ],
  [
    "tags through a print queue",
    { ...least, printers: [{ ...printer, driver: "ipp", port: "ipp://h/printers/x", rfid: true }] },
    /^printers\.0\.rfid is false for ipp/,
  ],
  [
    "a camera with a password, which its page would show",
    { ...least, scanners: [{ name: "e", driver: "camera", port: "http://eye:secret@h/frame.png" }] },
    /^scanners\.0\.port can't hold a user name or password(?!.*secret)/,
  ],
  ["a camera on a stream", { ...least, scanners: [{ name: "e", driver: "camera", port: "tcp://h:1" }] }, /^scanners\.0\.port /],
  [
    "a camera's file by less than its path",
    { ...least, scanners: [{ name: "e", driver: "camera", port: "file:eye/frame.png" }] },
    /^scanners\.0\.port .*file:\/path\/of\/a\/picture$/,
  ],
  ["a camera at no address", { ...least, scanners: [{ name: "e", driver: "camera", port: "http://" }] }, /^scanners\.0\.port /],
  ["a scanner without its port", { ...least, scanners: [{ name: "e", driver: "line" }] }, /^scanners\.0\.port /],
  ["a lease too long", { ...least, claim: { leaseSeconds: 601 } }, /^claim\.leaseSeconds must be <= 600$/],
  ["a misspelt key that has to be there", { printrs: [] }, /^printrs isn't a setting; did you mean printers\?$/],
  ["a cloud with a query", { ...least, cloud: "http://h/?x=1#f" }, /^cloud must be an origin/],
  ["a cloud with a hash", { ...least, cloud: "http://h/#" }, /^cloud must be an origin/],
  ["a broker that isn't a URL", { ...least, mqtt: "nonsense" }, /^mqtt must be the broker's URL, such as mqtt:\/\//],
  [
    "a queue that isn't one",
    { ...least, printers: [{ ...printer, driver: "ipp", port: "ipp:nonsense" }] },
    /^printers\.0\.port .*isn't of the form ipp:\/\/HOST/,
  ],
  ["a cloud with a path", { ...least, cloud: "http://h/api" }, /^cloud must be an origin/],
  ["two printers of one name", { ...least, printers: [printer, printer] }, /"zd621r" is there twice$/],
  [
    "two printers on one wire",
    { ...least, printers: [printer, { ...printer, name: "other", port: "TCP://127.0.0.1:9100/" }] },
    /^printers: the port "127\.0\.0\.1:9100" is there twice$/,
  ],
  [
    "two printers on one wire, by a name in capitals",
    { ...least, printers: ["tcp://Zebra.lan:9100", "tcp://zebra.LAN:9100"].map((port, i) => ({ ...printer, name: `p${i}`, port })) },
    /^printers: the port "zebra\.lan:9100" is there twice$/,
  ],
  [
    "a scanner on a printer's wire",
    { ...least, scanners: [{ name: "e", driver: "line", port: "TCP://127.0.0.1:9100" }] },
    /^scanners\.0\.port is that of the printer "zd621r" \(127\.0\.0\.1:9100\): a scanner needs a port of its own/,
  ],
  [
    "a scanner on a printer's device, opened another way",
    {
      ...least,
      printers: [{ ...printer, port: "file:/dev/ttyUSB0" }],
      scanners: [{ name: "e", driver: "rfid", port: "serial:/dev/ttyUSB0?baud=9600" }],
    },
    /^scanners\.0\.port is that of the printer "zd621r" \(\/dev\/ttyUSB0\)/,
  ],
  [
    "a set-up with what is no byte, and would be cut to one, a command perhaps",
    { ...least, printers: [{ ...printer, setup: "^PW406^FXŞ" }] },
    /^printers\.0\.setup has "Ş", and a printer takes bytes: write it in Latin-1$/,
  ],
  [
    "an operator whose id the cloud would refuse with every word of his",
    { ...least, operators: [{ id: "\u2066op-7\u2069", name: "Ada", badge: "B-0007" }] },
    /^operators\.0\.id /,
  ],
  ["a station that it would refuse with every claim", { ...least, station: " " }, /^station /],
  [
    "a badge that the console would take for a label",
    { ...least, operators: [{ id: "o1", name: "n", badge: "https://id.example/o1" }] },
    /^operators\.0\.badge begins as a label's link does, and the console would take it for a label: give "o1" another one, or a PIN$/,
  ],
  [
    "the same behind an AIM identifier",
    { ...least, operators: [whole.operators[0], { id: "o1", name: "n", badge: "]Q1HTTP-1" }] },
    /^operators\.1\.badge begins as a label's link does/,
  ],
  [
    "two operators with one badge",
    { ...least, operators: [1, 2].map((i) => ({ id: `o${i}`, name: "n", badge: "b" })) },
    /^operators: "o1" and "o2" have the same badge$/,
  ],
  [
    "two operators with one PIN",
    { ...least, operators: [1, 2].map((i) => ({ id: `o${i}`, name: "n", badge: `b${i}`, pin: "1234" })) },
    /^operators: "o1" and "o2" have the same pin$/,
  ],
  ["a station without a printer", { ...least, printers: [] }, /^printers is empty$/],
  [
    "a buffer's folder of blanks, where SQLite would open a file of the disk's own root",
    { ...least, dataDir: "  " },
    /^dataDir must be a folder's path, which doesn't begin with a blank or ~$/,
  ],
  ["a blank before the buffer's folder", { ...least, dataDir: " data" }, /^dataDir must be a folder's path/],
  ["a folder of the shell's home, which no shell has spelt out", { ...least, dataDir: "~/data" }, /^dataDir must be a folder's path/],
  ["a list", [], /one JSON object/],
];
test.each(wrong)("%s is refused by name", (_what, settings, says) => {
  expect(() => agentConfigFrom(settings)).toThrow(says);
});

test("two printers may share a print queue's server, and the queue", () => {
  const queue = { ...printer, driver: "ipp", port: "ipp://h/printers/x" };
  expect(agentConfigFrom({ ...least, printers: [queue, { ...queue, name: "other" }] }).printers).toHaveLength(2);
});

test("a file as Windows' editors save it is read like any", () => {
  expect(loadAgentConfig(fileOf(`\uFEFF${JSON.stringify(least)}`), {}).key).toBe("imp_x");
});

test("a file in another encoding is refused: its station would be another one", () => {
  const file = fileOf(""); // as Windows' editors call it ANSI
  writeFileSync(file, Buffer.from(JSON.stringify({ ...least, station: "Halle Süd" }), "latin1"));
  expect(() => loadAgentConfig(file, {})).toThrow(`--config ${file}: it isn't UTF-8: save it as that`);
});

test.each([
  ['{ "station": "line-1",\n  "key": imp_3hhdva9mk2s5nx29r6zfgzsdrv }', /: it isn't JSON: Unexpected token 'i' in line 2$/],
  ['{ "key": imp_3hhdva9mk2s5nx29r6zfgzsdrv }', /: it isn't JSON: Unexpected token 'i' in line 1$/],
  ['{ "key": imp_3hh}', /: it isn't JSON: Unexpected token 'i' in line 1$/],
  ['{ "key": "imp_3hhdva9mk2s5nx29r6zfgzsdrv" "x": 1 }', /: it isn't JSON: Expected ',' or '}' after property value in JSON at position \d+ \(line 1 column \d+\)$/], // oxfmt-ignore
])("a file that can't be read, %j, is named with the line, and shows nothing of the key beside the fault", (text, says) => {
  expect(() => loadAgentConfig(fileOf(text), {})).toThrow(says);
  expect(() => loadAgentConfig(fileOf(text), {})).not.toThrow("imp_3hh");
});

test("a name that stands twice is refused, as one of the two would be lost", () => {
  const file = fileOf(`{ "printers": [], ${JSON.stringify(least).slice(1)}`);
  expect(() => loadAgentConfig(file, {})).toThrow(`--config ${file}: the name "printers" stands twice in an object of it`);
});

test("a name that every object has is the file's fault, not the environment's", () => {
  const file = fileOf(`{ "__proto__": 1, ${JSON.stringify(least).slice(1)}`);
  expect(() => loadAgentConfig(file, {})).toThrow(`${file}: __proto__ isn't a setting`);
});

test("every top-level value can come from the environment, and wins there", () => {
  const file = fileOf(whole);
  const env = {
    IMPRIMATUR_AGENT_CLOUD: "https://cloud.example",
    IMPRIMATUR_AGENT_KEY: "imp_other",
    IMPRIMATUR_AGENT_STATION: "line-2",
    IMPRIMATUR_AGENT_DATA_DIR: "/var/lib/agent",
    IMPRIMATUR_AGENT_CONSOLE: '{"host":"127.0.0.1","port":0}',
    IMPRIMATUR_AGENT_CLAIM: '{"ahead":9,"leaseSeconds":30}',
    IMPRIMATUR_AGENT_OPERATORS: "[]",
    IMPRIMATUR_AGENT_PRINTERS: JSON.stringify([{ ...printer, name: "other" }]),
    IMPRIMATUR_AGENT_SCANNERS: "[]",
    IMPRIMATUR_AGENT_MQTT: "mqtt://broker.example",
    OTHER: "x",
  };
  expect(loadAgentConfig(file, env)).toMatchObject({
    cloud: "https://cloud.example",
    key: "imp_other",
    station: "line-2",
    dataDir: "/var/lib/agent",
    console: { port: 0 },
    claim: { ahead: 9 },
    operators: [],
    printers: [{ name: "other" }],
    scanners: [],
    mqtt: "mqtt://broker.example",
  });
  expect(() => loadAgentConfig(file, { IMPRIMATUR_AGENT_PRINTER: "[]" })).toThrow(
    "IMPRIMATUR_AGENT_PRINTER isn't a setting; did you mean IMPRIMATUR_AGENT_PRINTERS?",
  );
  expect(() => loadAgentConfig(file, { IMPRIMATUR_AGENT_CLAIM: "9" })).toThrow(/^IMPRIMATUR_AGENT_CLAIM: claim must be object$/);
  expect(() => loadAgentConfig(file, { IMPRIMATUR_AGENT_CLAIM: "{" })).toThrow(/IMPRIMATUR_AGENT_CLAIM isn't JSON/);
});

test("what is missing where there is no file is the environment's fault", async () => {
  const env = { ...process.env, IMPRIMATUR_AGENT_KEY: "imp_x" };
  const { code, stderr } = await new Promise<{ code: number; stderr: string }>((resolve) => {
    execFile(process.execPath, [join(process.cwd(), "agent/main.ts")], { env, cwd: folder }, (error, _out, stderr) =>
      resolve({ code: Number(error?.code), stderr }),
    );
  });
  expect([code, stderr]).toEqual([
    1,
    "imprimatur agent: the environment, as there is no .imprimatur-agent/config.json: printers is missing\n",
  ]);
});

const circle = join(folder, "circle");
symlinkSync(circle, circle);
const odd = join(folder, "odd");
mkdirSync(join(odd, "station.db.begun"), { recursive: true });
const folders = join(folder, "folders");
mkdirSync(join(folders, "station.db"), { recursive: true });

const astray = join(folder, "astray");
mkdirSync(astray);
symlinkSync("nowhere/station.db", join(astray, "station.db"));

test.each([
  [["--config", "/nowhere.json"], 1, /\/nowhere\.json: ENOENT.*/],
  [["--config", folder], 1, /: it is a folder: name the file in it\n$/],
  [["--config", fileOf("{ no")], 1, /json: .*JSON/],
  [["--config", fileOf("// a\r\n{}")], 1, /json: .*JSON/],
  [["--config", fileOf({ ...least, scaners: 1 })], 1, /scaners isn't a setting/],
  [
    ["--config", fileOf({ ...least, fonts: [fileOf("no font")] })],
    1,
    /json can't be read: it isn't a TrueType or OpenType file: see fonts/,
  ],
  [
    ["--config", fileOf({ ...least, dataDir: join(folder, "small"), printers: [{ ...printer, label: { widthMm: 20, heightMm: 20 } }] })],
    1,
    /: printers\.0\.label: no template fits a label of 20 x 20 mm; there are .*25 x 25 mm/,
  ],
  [
    ["--config", fileOf({ ...least, dataDir: join(folder, "own"), console: { host: "192.0.2.1" } })],
    1,
    /192\.0\.2\.1.*: see console\.host/,
  ],
  [["--config", fileOf({ ...least, dataDir: circle })], 1, /ELOOP: .*circle': see dataDir/],
  [["--config", fileOf({ ...least, dataDir: odd })], 1, /EISDIR: .*station\.db\.begun': see dataDir/],
  [["--config", fileOf({ ...least, dataDir: folders })], 1, /folders\/station\.db is a folder where a file has to be: see dataDir\n$/],
  [["--config", fileOf({ ...least, dataDir: astray })], 1, /astray\/station\.db: unable to open database file: see dataDir\n$/],
  [["--confg", "x"], 2, /there is no option --confg; did you mean --config\?/],
  [["docter"], 2, /there is no command docter; did you mean doctor\?/],
  [["start"], 2, /there is no command start; .* Without a command it runs the station: imprimatur agent \[--config FILE\]/],
  [["doctor", "--jsn"], 2, /there is no option --jsn; did you mean --json\?/],
  [["enroll", "--cloud"], 2, /--cloud/],
  [["install", "here"], 2, /here/],
  [["install", "--config", "/nowhere.json"], 1, /there is no \/nowhere\.json: make one with imprimatur agent enroll/],
] as [string[], number, RegExp][])("a start with %j ends at once with one line", async (args, exitCode, says) => {
  const { code, stderr } = await new Promise<{ code: number; stderr: string }>((resolve) => {
    execFile(process.execPath, ["agent/main.ts", ...args], { timeout: 30_000 }, (error, _out, stderr) =>
      resolve({ code: Number(error?.code), stderr }),
    );
  });
  expect(code).toBe(exitCode);
  expect(stderr).toMatch(says);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test("a printer whose labels no template fits is told of, and keeps no other from its work", async (t) => {
  const small = { ...printer, name: "small", port: "tcp://127.0.0.1:9101", label: { widthMm: 20, heightMm: 20 } };
  const settings = {
    ...least,
    cloud: "http://127.0.0.1:1",
    dataDir: join(folder, "mixed"),
    console: { port: 0 },
    printers: [printer, small],
  };
  const child = spawn(process.execPath, ["agent/main.ts", "--config", fileOf(settings)], { stdio: ["ignore", "pipe", "inherit"] });
  t.onTestFinished(() => void child.kill());
  const warnings: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    const { level, event, msg } = JSON.parse(line) as { level: string; event: string; msg: string };
    if (level === "warn") warnings.push(msg);
    if (event === "ready") break;
  }
  expect(warnings).toContainEqual(expect.stringMatching(/^printers\.1\.label: no template fits a label of 20 x 20 mm; there are /));
});
