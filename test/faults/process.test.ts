// The cloud as its operator meets it: first start, restart, a second one by mistake, a typo, the end.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test, vi } from "vitest";
import { loadConfig } from "../../cloud/config.ts";
import { client } from "../../fixtures/client.ts";
import { freePort } from "../../fixtures/free-port.ts";
import { startProgram } from "../../fixtures/program.ts";
import { endsWithUs } from "../../fixtures/with-us.ts";
import { freshFolder } from "../endings.ts";

const PATIENCE = { timeout: 30_000 };
const folder = () => freshFolder("process");
const settings = (dataDir: string) => ({ IMPRIMATUR_PORT: "0", IMPRIMATUR_DATA_DIR: dataDir, IMPRIMATUR_DATABASE_URL: undefined });
const as = (url: string, secret: string) => client(() => url, { authorization: `Bearer ${secret}` });

/** Runs until it ends by itself. */
const run = (env: Record<string, string | undefined>, args: string[] = []) =>
  new Promise<{ code: number; stderr: string }>((resolve) => {
    execFile(process.execPath, ["cloud/main.ts", ...args], { env: { ...process.env, ...env }, timeout: 30_000 }, (error, _out, stderr) =>
      resolve({ code: Number(error?.code ?? 0), stderr }),
    );
  });

test("the first start makes the admin key, shows it once and keeps it; a restart keeps quiet, another key replaces it", async () => {
  const dataDir = folder();
  const first = await startProgram("cloud/main.ts", settings(dataDir));
  const file = join(dataDir, "bootstrap-key");
  const made = readFileSync(file, "utf8").trim();
  expect(first.complaints()).toContain(made);
  expect(statSync(file).mode & 0o077).toBe(0);
  expect((await as(first.url, made).get("/tenant")).status).toBe(200);
  expect(await first.end()).toBe(0);

  const second = await startProgram("cloud/main.ts", settings(dataDir));
  expect(second.complaints()).toBe("");
  expect((await as(second.url, made).get("/tenant")).status).toBe(200);
  await second.end();

  const chosen = "chosen-by-the-operator-0001";
  const third = await startProgram("cloud/main.ts", { ...settings(dataDir), IMPRIMATUR_BOOTSTRAP_KEY: chosen });
  expect([(await as(third.url, chosen).get("/tenant")).status, (await as(third.url, made).get("/tenant")).status]).toEqual([200, 401]);
  await third.end();
});

test.each(["", "x", "imp_tooshort"])("a kept key file that holds %j stops the start with a sentence", async (content) => {
  const dataDir = folder();
  writeFileSync(join(dataDir, "bootstrap-key"), content);
  const { code, stderr } = await run(settings(dataDir));
  expect([code, stderr]).toEqual([1, expect.stringContaining("remove the file to have a new one made")]);
});

test("a kept key file that was damaged after the first start names the setting, as no new key is made", async () => {
  const dataDir = folder();
  await (await startProgram("cloud/main.ts", settings(dataDir))).end();
  writeFileSync(join(dataDir, "bootstrap-key"), "damaged");
  const { code, stderr } = await run(settings(dataDir));
  expect([code, stderr]).toEqual([
    1,
    expect.stringMatching(/remove the file; .* none is made anew, but IMPRIMATUR_BOOTSTRAP_KEY sets another\n$/),
  ]);
});

test("a database that is damaged or another program's is named, with what to do, and isn't touched", async () => {
  const dataDir = folder();
  const file = join(dataDir, "imprimatur.db");
  writeFileSync(file, "hello".repeat(1_000));
  const damaged = await run(settings(dataDir));
  expect([damaged.code, damaged.stderr]).toEqual([
    1,
    `imprimatur: can't start: ${file} is damaged, or no database at all (file is not a database): restore the last backup that holds (imprimatur restore), or see IMPRIMATUR_DATA_DIR\n`,
  ]);
  expect(readFileSync(file, "utf8")).toBe("hello".repeat(1_000));

  for (const tables of [
    "CREATE TABLE products (id TEXT)",
    "CREATE TABLE products (id TEXT); CREATE TABLE migrations (id INTEGER, migration TEXT)",
  ]) {
    rmSync(file);
    const database = new DatabaseSync(file);
    database.exec(tables);
    database.close();
    const before = readFileSync(file);
    const foreign = await run(settings(dataDir));
    expect([foreign.code, foreign.stderr]).toEqual([
      1,
      expect.stringMatching(/another program's database, with the tables products.*: name a folder of our own with IMPRIMATUR_DATA_DIR\n$/),
    ]);
    expect(readFileSync(file).equals(before)).toBe(true);
  }
});

test("a bootstrap key that was replaced stays dead, and that is said", async () => {
  const dataDir = folder();
  const [old, young] = ["the-old-key-of-the-operator", "the new key of the operator"];
  for (const key of [old, young])
    await (await startProgram("cloud/main.ts", { ...settings(dataDir), IMPRIMATUR_BOOTSTRAP_KEY: key })).end();
  const cloud = await startProgram("cloud/main.ts", { ...settings(dataDir), IMPRIMATUR_BOOTSTRAP_KEY: old });
  expect([(await as(cloud.url, old).get("/tenant")).status, (await as(cloud.url, young).get("/tenant")).status]).toEqual([401, 200]);
  expect(cloud.said()).toContain("bootstrap-key-dead");
  await cloud.end();
});

test("a second cloud that got in because the lock file was taken away ends the first, so that no revoked key lives on", async () => {
  const dataDir = folder();
  const key = "a-key-for-two-processes-01";
  const env = { ...settings(dataDir), IMPRIMATUR_BOOTSTRAP_KEY: key };
  const first = await startProgram("cloud/main.ts", env);
  for (const file of readdirSync(dataDir).filter((name) => name.startsWith("lock"))) rmSync(join(dataDir, file));
  const second = await startProgram("cloud/main.ts", env);
  await as(second.url, key).post("/api-keys", { name: "x", scopes: ["aidc:read"] });
  expect(await first.ended).toBe(74);
  expect(first.complaints()).toContain("another process writes to");
  await second.end();
});

test.each(["taken away", "taken away, and another lies in its place"])(
  "a cloud whose database was %s ends instead of answering what would be in no file",
  async (what) => {
    const dataDir = folder();
    const key = "a-key-for-a-folder-gone-01";
    const cloud = await startProgram("cloud/main.ts", { ...settings(dataDir), IMPRIMATUR_BOOTSTRAP_KEY: key });
    renameSync(join(dataDir, "imprimatur.db"), join(dataDir, "moved"));
    if (what.includes("another")) writeFileSync(join(dataDir, "imprimatur.db"), "");
    await expect(as(cloud.url, key).post("/api-keys", { name: "x", scopes: ["aidc:read"] })).rejects.toThrow();
    expect(await cloud.ended).toBe(74);
    expect(cloud.complaints()).toContain(`was ${what}: what is answered would be in no file, ending now`);
  },
);

test("when it is ready a cloud says in which store and folder its data is, by its whole path", async () => {
  const dataDir = folder();
  const there = { ...settings(".imprimatur"), IMPRIMATUR_LOG_LEVEL: "warn" };
  const main = fileURLToPath(new URL("../../cloud/main.ts", import.meta.url));
  const cloud = await startProgram(main, there, [], [], dataDir);
  const line = cloud.said().match(/^.*"event":"ready".*$/m)?.[0];
  expect(JSON.parse(line ?? "")).toMatchObject({ store: "sqlite", dataDir: join(dataDir, ".imprimatur"), url: cloud.url });
  await cloud.end();
});

test("that the tables are being brought up to date is told while that goes on; killed in the middle of it, a file is as it was", async () => {
  const dataDir = folder();
  await (await startProgram("cloud/main.ts", settings(dataDir))).end();
  const database = new DatabaseSync(join(dataDir, "imprimatur.db"));
  const STRAYS = 30; // the migration that gives each of these a lane
  // The first lane is never made to the end, so that whoever is killed once it is told is in the middle of it.
  database.exec(`DELETE FROM migrations WHERE version >= ${STRAYS};
    INSERT INTO deliveries (webhook_id, id, tenant_id, event_id, type, state, due_at, tries, by_hand, attempts, created_at)
    VALUES (1, 1, 't', 'e', 'print.confirmed', 'pending', 0, 0, 0, '[]', 1);
    CREATE VIEW endless AS WITH RECURSIVE row (n) AS (SELECT 1 UNION ALL SELECT n FROM row) SELECT n FROM row;
    CREATE TRIGGER made AFTER INSERT ON lanes BEGIN SELECT max(n) FROM endless; END`);
  const env = { ...process.env, ...settings(dataDir) };
  const child = endsWithUs(spawn(process.execPath, ["cloud/main.ts"], { env, stdio: ["ignore", "pipe", "inherit"] }), "SIGKILL");
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = once(child, "close");
  child.stdout.on("data", (chunk: Buffer) => void (chunk.includes('"event":"migrating"') && child.kill("SIGKILL")));
  expect(await ended).toEqual([null, "SIGKILL"]);
  expect(database.prepare("SELECT max(version) AS version, (SELECT count(*) FROM lanes) AS lanes FROM migrations").get()).toEqual({ version: STRAYS - 1, lanes: 0 }); // oxfmt-ignore
  database.close();
});

test("a second cloud on the same folder is refused with a sentence, and the first goes on", async () => {
  const dataDir = folder();
  const first = await startProgram("cloud/main.ts", settings(dataDir));
  const second = await run(settings(dataDir));
  expect([second.code, second.stderr]).toEqual([
    1,
    expect.stringMatching(/^imprimatur: another Imprimatur cloud works in [^:]*: stop it, or name another folder\n$/),
  ]);
  expect((await client(() => first.url).get("//readyz")).status).toBe(200);
  expect(await first.end()).toBe(0);
});

test.each([
  [{ IMPRIMATUR_PROT: "1" }, [], "did you mean IMPRIMATUR_PORT?"],
  [{ IMPRIMATUR_BOOTSTRAP_KEY: `imp_${"x".repeat(57)}` }, [], "its checksum doesn't fit"],
  [{ IMPRIMATUR_BOOTSTRAP_KEY: "a-key-of-its-operators-own\n" }, [], "spaces only inside and no line end"],
  [{ IMPRIMATUR_ANCHOR: "LOG" }, [], "IMPRIMATUR_ANCHOR: must be log or off; else it must be a URL that begins with http:// or https://"],
  [{ IMPRIMATUR_PORT: "http" }, [], "IMPRIMATUR_PORT: must be a port"],
  [{ IMPRIMATUR_HOST: "127.0.0.1:8080" }, [], "IMPRIMATUR_HOST: must be an address or a host's name"],
  [{ IMPRIMATUR_HOST: "http://127.0.0.1" }, [], "IMPRIMATUR_HOST: must be an address or a host's name"],
  [{ IMPRIMATUR_DATA_DIR: "/dev/null/x" }, [], "see IMPRIMATUR_DATA_DIR"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://127.0.0.1:1/x" }, [], "see IMPRIMATUR_DATABASE_URL"],
  [{ IMPRIMATUR_DATA_DIR: "/proc/none" }, [], "see IMPRIMATUR_DATA_DIR"],
  [{}, ["--confg", "x"], "did you mean --config? (usage: imprimatur cloud"],
  [{}, ["--port", "9000"], "settings such as IMPRIMATUR_PORT come from the environment or from FILE)"],
  [{}, ["--config", "/nowhere"], "--config /nowhere"],
  [{}, ["--config", "/tmp"], "--config /tmp: /tmp is a folder, where a file has to be"],
  [{}, ["--config", "/dev/zero"], "--config /dev/zero: /dev/zero has more than 1048576 bytes"],
])("a start with %j %j ends at once with one line", async (env, args, says) => {
  const { code, stderr } = await run({ ...settings(folder()), ...env }, args);
  expect(code).toBe(["--confg", "--port"].includes(args[0] ?? "") ? 2 : 1);
  expect(stderr).toContain(says);
  expect(stderr.trim().split("\n")).toHaveLength(1);
});

test("a data folder that leads nowhere, or in circles, is named with what to look at", async () => {
  const [nowhere = "", circle = ""] = ["nowhere", "circle"].map((name) => join(folder(), name));
  symlinkSync("not-there", nowhere);
  symlinkSync(circle, circle);
  for (const [dataDir, code] of [
    [nowhere, "ENOENT"],
    [circle, "ELOOP"],
  ])
    // oxfmt-ignore
    expect(await run(settings(dataDir ?? ""))).toEqual({
      code: 1,
      stderr: expect.stringMatching(new RegExp(`^imprimatur: ${code}: .* '${dataDir}': see IMPRIMATUR_DATA_DIR\\n$`)),
    });
});

test.each(["seen.json", "bootstrap-key", "sealing-key"])("a folder in the place of %s, as a container makes one of a file that isn't there, is named", async (name) => {
  const file = join(folder(), name);
  mkdirSync(file);
  const { code, stderr } = await run(settings(dirname(file)));
  expect([code, stderr]).toEqual([1, expect.stringContaining(`imprimatur: can't start: ${file} is a folder, where a file has to be`)]);
}); // oxfmt-ignore

test("settings come from a file too; the environment wins", async () => {
  const dataDir = folder();
  const file = join(dataDir, "settings");
  writeFileSync(file, `\uFEFFIMPRIMATUR_BOOTSTRAP_KEY=from-the-file-0123456789\r\nIMPRIMATUR_PORT=1\n`); // as Windows' editors save it
  const cloud = await startProgram("cloud/main.ts", settings(dataDir), [], ["--config", file]);
  expect((await as(cloud.url, "from-the-file-0123456789").get("/tenant")).status).toBe(200);
  await cloud.end();
});

const read = (text: string, env = {}) => {
  const file = join(folder(), "settings");
  writeFileSync(file, text);
  return loadConfig(file, { IMPRIMATUR_LOG_LEVEL: "warn" }, env);
};

test("a file's first line counts behind a byte order mark; what is set to nothing in the environment isn't set", () => {
  expect(read("\ufeffIMPRIMATUR_PORT=1\r\nexport IMPRIMATUR_HOST = '127.0.0.2' # ours\r\n").PORT).toBe(1);
  expect(read("\u00a0IMPRIMATUR_PORT=1").PORT).toBe(1);
  expect(read("export\tIMPRIMATUR_PORT=1").PORT).toBe(1);
  const { PORT, HOST, LOG_LEVEL } = read("IMPRIMATUR_PORT=1\nIMPRIMATUR_HOST=127.0.0.2", { IMPRIMATUR_PORT: "", IMPRIMATUR_LOG_LEVEL: "" });
  expect([PORT, HOST, LOG_LEVEL]).toEqual([1, "127.0.0.2", "warn"]);
});

test.each([
  ["IMPRIMATUR_BOOTSTRAP_KEY=correct-horse-battery-staple#1", "line 1: a # begins a comment: put the value into quotes"],
  ["\n  IMPRIMATUR_BOOTSTRAP_KEY = a#b", "line 2: a # begins a comment"],
  ["IMPRIMATUR_BOOTSTRAP_KEY=#correct-horse-battery-staple", "line 1: a # begins a comment"],
  ["IMPRIMATUR_SEALING_KEY='two\nlines'", "line 2 isn't of the form"],
  ["IMPRIMATUR_SEALING_KEY='the-newest-of-two-keys-0001\\nthe-older-of-two-keys-000002'", "\\n between what look like two keys"],
  ["OTEL_SERVICE_NAME=cloud", "line 1: OTEL_SERVICE_NAME counts in the environment alone"],
  ["OTEL_EXPORTER_OTLP_ENDPIONT=http://127.0.0.1:4318", "of such names a file takes OTEL_EXPORTER_OTLP_ENDPOINT"],
  ["IMPRIMATUR_PORT=1\n\nIMPRIMATUR_PORT=2", "line 3 sets IMPRIMATUR_PORT a second time: leave one"],
])("a file with the line %j is refused, because it would be read as something else", (text, says) => {
  expect(() => read(text)).toThrow(says);
});

test("a file may be JSON, as a station's is; the environment wins over it, too", () => {
  const { PORT, HOST, LOG_LEVEL } = read(
    '\ufeff{ "IMPRIMATUR_PORT": 1, "IMPRIMATUR_HOST": "127.0.0.2", "IMPRIMATUR_LOG_LEVEL": "error" }\n',
    {
      IMPRIMATUR_LOG_LEVEL: "debug",
    },
  );
  expect([PORT, HOST, LOG_LEVEL]).toEqual([1, "127.0.0.2", "debug"]);
});

test.each([
  ['{ "IMPRIMATUR_BOOTSTRAP_KEY": "correct-horse-battery-staple" ', "it begins with { and isn't JSON"],
  ['{ "IMPRIMATUR_PORT": 1, "IMPRIMATUR_PORT": 2 }', "it sets IMPRIMATUR_PORT a second time"],
  ['{ "port": 1 }', "port isn't of the form IMPRIMATUR_NAME"],
  ['{ "constructor": "x" }', "constructor isn't of the form IMPRIMATUR_NAME"],
  ['{ "IMPRIMATUR_PROT": 1 }', "IMPRIMATUR_PROT isn't a setting; did you mean IMPRIMATUR_PORT?"],
  ['{ "IMPRIMATUR_RATE_LIMIT": false }', "IMPRIMATUR_RATE_LIMIT isn't set to a text or a number"],
  ['{ "IMPRIMATUR_PORT": "x" }', "IMPRIMATUR_PORT: must be a port"],
])("a file of JSON that can't be meant is refused: %s", (text, says) => {
  expect(() => read(text)).toThrow(says);
  expect(() => read(text)).not.toThrow("correct-horse");
});

test("a name in a file that is set to a blank leaves the next line alone", () => {
  const { BOOTSTRAP_KEY, DATABASE_URL } = read("IMPRIMATUR_BOOTSTRAP_KEY= \nIMPRIMATUR_DATABASE_URL=postgres://db.example/imprimatur\n");
  expect([BOOTSTRAP_KEY, DATABASE_URL]).toEqual([undefined, "postgres://db.example/imprimatur"]);
});

test("a value in quotes holds any #, and a comment stands behind a blank", () => {
  const key = "correct-horse-battery-staple#1";
  for (const text of [`"${key}"`, `'${key}' # a comment`, `"${key}" #`])
    expect(read(`IMPRIMATUR_BOOTSTRAP_KEY=${text}`).BOOTSTRAP_KEY).toBe(key);
  expect(read("IMPRIMATUR_PORT=1 # not #2").PORT).toBe(1);
});

test.for([
  ["SIGTERM", "SIGTERM"],
  ["a terminal that is closed", "SIGHUP"],
] as const)("%s lets what was begun be answered, then ends with 0", async ([, signal]) => {
  const cloud = await startProgram("cloud/main.ts", { ...settings(folder()), IMPRIMATUR_BOOTSTRAP_KEY: "drain-0123456789-abcdefgh" });
  const admin = as(cloud.url, "drain-0123456789-abcdefgh");
  const begun = Array.from({ length: 200 }, (_, n) => admin.post("/api-keys", { name: `k${n}`, scopes: ["aidc:read"] }));
  await begun[0];
  const ended = cloud.end(signal);
  const answers = await Promise.allSettled(begun);
  expect(await ended).toBe(0);
  // Some came before the socket closed and were answered, the others never began; none was cut off by a broken answer.
  for (const answer of answers)
    if (answer.status === "fulfilled") expect(answer.value.status).toBe(201);
    else expect(String((answer.reason as Error).cause ?? answer.reason)).toMatch(/ECONNREFUSED|ECONNRESET|other side closed|fetch failed/);
});

test.concurrent("SIGTERM ends it with 0 where whoever reads its log stands still", { timeout: 60_000 }, async ({ expect }) => {
  const env = { ...process.env, ...settings(folder()), IMPRIMATUR_RATE_LIMIT: "off" };
  const child = spawn(process.execPath, ["cloud/main.ts"], { env, stdio: ["ignore", "pipe", "ignore"] });
  const ended = once(child, "exit");
  let said = "";
  for await (const chunk of child.stdout.iterator({ destroyOnReturn: false })) if ((said += chunk).includes('"event":"ready"')) break;
  child.stdout.pause();
  const { url } = JSON.parse(said.split("\n").find((line) => line.includes('"event":"ready"')) ?? "") as { url: string };
  const { get } = client(() => url);
  for (let n = 0; n < 60; n += 1) await Promise.all(Array.from({ length: 50 }, () => get(`/${"x".repeat(300)}`))); // a line each: more than a pipe holds
  child.kill("SIGTERM");
  const tooLate = setTimeout(() => child.kill("SIGKILL"), 20_000);
  expect(await ended).toEqual([0, null]);
  clearTimeout(tooLate);
});

test.concurrent("a cloud whose log has no room answers, ends with 0, and names what keeps it from starting", async ({ expect }) => {
  const port = await freePort();
  const start = (dataDir: string) => {
    const env = { ...process.env, ...settings(dataDir), IMPRIMATUR_PORT: String(port), IMPRIMATUR_MQTT_PORT: "0" };
    const child = spawn("sh", ["-c", 'exec "$@" >/dev/full', "sh", process.execPath, "cloud/main.ts"], {
      env,
      stdio: ["ignore", "ignore", "pipe"],
    });
    const tooLate = setTimeout(() => child.kill("SIGKILL"), 60_000);
    return { child, ended: once(child, "exit").finally(() => clearTimeout(tooLate)), complaints: text(child.stderr) };
  };
  const status = () => client(() => `http://127.0.0.1:${port}`).get("//readyz").then(({ status }) => status, () => 0); // oxfmt-ignore
  const first = start(folder());
  await expect.poll(status).toBe(200);
  const second = start(folder());
  expect(await second.ended).toEqual([1, null]);
  expect(await second.complaints).toMatch(/EADDRINUSE.*: stop what listens there, or set IMPRIMATUR_PORT\n$/);
  expect(await status()).toBe(200);
  first.child.kill();
  expect(await first.ended).toEqual([0, null]);
});

// Drains take seconds of waiting: they go on beside one another.
test.concurrent.for([
  ["its headers", "GET /healthz HTTP/1.1\r\nHost: x\r\n"],
  ["its body", "POST /api/v2/oauth/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"],
] as const)(
  "a client that has sent half of %s and falls silent is cut off, and the cloud ends in order with 0",
  { timeout: 60_000 },
  async ([, half], { expect }) => {
    const cloud = await startProgram("cloud/main.ts", settings(folder()));
    const socket = connect(Number(new URL(cloud.url).port), "127.0.0.1").on("error", () => {});
    socket.write(half);
    await vi.waitUntil(() => socket.bytesWritten === half.length, PATIENCE);
    expect((await client(() => cloud.url).get("//readyz")).status).toBe(200); // heard behind it
    expect(await cloud.end()).toBe(0);
    socket.destroy();
  },
);

test.concurrent("a second SIGTERM doesn't cut the drain short", async ({ expect }) => {
  // Once more where the machine stood still for so long that the drain was over before we could say anything.
  for (let told = 0; told < 2;) {
    told = 0;
    const cloud = await startProgram("cloud/main.ts", { ...settings(folder()), IMPRIMATUR_DRAIN_NOTICE_S: "3" });
    const status = async () => (await client(() => cloud.url).get("//readyz").catch(() => undefined))?.status; // oxfmt-ignore
    const ended = cloud.end();
    for (const signal of ["SIGTERM", "SIGINT"] as const) {
      await expect.poll(status).not.toBe(200);
      if ((await status()) !== 503) continue;
      process.kill(cloud.pid, signal);
      told += 1;
    }
    expect(await ended).toBe(0);
  }
});

test.concurrent("a drain ends the connection of a body that is too large, as any other", async ({ expect }) => {
  const cloud = await startProgram("cloud/main.ts", { ...settings(folder()), IMPRIMATUR_DRAIN_NOTICE_S: "6" });
  const tooLarge = () =>
    new Promise<unknown[]>((resolve, reject) => {
      const headers = { "content-type": "application/json", "content-length": 8_000_000 };
      const sent = request(`${cloud.url}/v1/dppsByProductIds`, { method: "POST", headers });
      sent.on("response", ({ statusCode, headers }) => resolve([statusCode, headers.connection]));
      sent.on("response", () => sent.destroy());
      sent.on("error", reject);
      sent.flushHeaders();
    });
  await expect.poll(tooLarge).toEqual([413, undefined]); // a busy machine sheds at first
  const ended = cloud.end();
  await expect.poll(tooLarge, { interval: 10 }).toEqual([413, "close"]);
  expect(await ended).toBe(0);
});

test.concurrent.for([
  ["npm alone", 1],
  ["the whole process group", -1],
] as const)("npm run cloud drains to its end when SIGTERM comes to %s", async ([, to], { expect }) => {
  const env = { ...process.env, ...settings(folder()), IMPRIMATUR_MQTT_PORT: "0", IMPRIMATUR_DRAIN_NOTICE_S: "1" };
  const npm = spawn("npm", ["run", "cloud"], { env, detached: true, stdio: ["ignore", "pipe", "ignore"] });
  let said = "";
  npm.stdout.on("data", (chunk: Buffer) => (said += chunk.toString("utf8")));
  const closed = new Promise((resolve) => npm.stdout.once("close", resolve)); // held open until the last of them has gone
  await vi.waitUntil(() => said.includes('"event":"ready"'), { timeout: 60_000 });
  process.kill(to * Number(npm.pid), "SIGTERM");
  await closed;
  expect(said).toContain('"event":"stopped"');
});
