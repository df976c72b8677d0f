// The doctor beside a cloud that runs, and before the faults that it is there to find: each by its real cause.
import { execFile, spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import {
  chmodSync,
  chownSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { configFrom } from "../../cloud/config.ts";
import type { Patient } from "../../cloud/doctor/finding.ts";
import { folder as dataFolder, sync } from "../../cloud/doctor/machine.ts";
import { createLog } from "../../cloud/log.ts";
import { nodes } from "../../cloud/store/schema.ts";
import { client } from "../../fixtures/client.ts";
import { listening } from "../../fixtures/listening.ts";
import { onServer } from "../../fixtures/postgres.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startProgram } from "../../fixtures/program.ts";
import { diskOf } from "../../fixtures/tmpfs.ts";
import { startWorld, type World } from "../../fixtures/world.ts";
import { freshDatabase } from "../world.ts";

const root = mkdtempSync(join(tmpdir(), "imprimatur-doctor-"));
const dataDir = join(root, "node");
const adminKey = "a-key-for-the-doctor-test-01";
const settings = (folder: string) => ({
  IMPRIMATUR_PORT: "0",
  IMPRIMATUR_MQTT_PORT: "0",
  IMPRIMATUR_DATA_DIR: folder,
  IMPRIMATUR_DATABASE_URL: "",
  IMPRIMATUR_BOOTSTRAP_KEY: adminKey,
});

type Line = { check: string; mark: string; says: string; todo?: string };
type Said = { code: number; out: string; lines: Line[] };
const doctor = (env: Record<string, string>, args = ["--json"]) =>
  new Promise<Said>((resolve) => {
    execFile(
      process.execPath,
      ["cloud/doctor.ts", ...args],
      { env: { ...process.env, ...env }, timeout: 60_000 },
      (error, stdout, stderr) =>
        resolve({
          code: Number(error?.code ?? 0),
          out: stdout + stderr,
          lines: stdout.startsWith("[") ? (JSON.parse(stdout) as Line[]) : [],
        }),
    );
  });
const notOk = ({ lines }: Said) => lines.filter(({ mark }) => mark !== "ok");
/** How full and how fast the machine's disk is, is its own. */
const isOurs = ({ check, mark }: Line) => mark !== "warn" || !["disk", "fsync"].includes(check);

beforeAll(async () => {
  const cloud = await startProgram("cloud/main.ts", settings(dataDir));
  const as = (secret: string) => client(() => cloud.url, { authorization: `Bearer ${secret}` });
  const shop = await printShop({ url: cloud.url, admin: as(adminKey), as }, { sandbox: false });
  await shop.issue();
  await shop.device.seal(await shop.device.claim());
  await shop.admin.post("/webhooks", { url: "https://erp.example.invalid/hook", events: ["print.confirmed"] });
  const { port } = new URL(cloud.url);
  const well = await doctor({ ...settings(dataDir), IMPRIMATUR_PORT: port });
  expect(well.lines.find(({ check }) => check === "cloud")?.says).toContain("says ready");
  expect([well.code, notOk(well).filter(isOurs)]).toEqual([0, []]);
  expect(well.lines.map(({ check }) => check)).toEqual(
    "settings,data folder,disk,fsync,database,integrity,signing key,sealing key,log,audit chains,evidence,clock,broker,webhooks,leases,cloud".split(
      ",",
    ),
  );
  const text = await doctor({ ...settings(dataDir), IMPRIMATUR_PORT: port }, []);
  expect(text.out.trimEnd().split("\n")).toHaveLength(well.lines.length);
  expect(await cloud.end()).toBe(0);
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

test("a cloud for others without a public URL is told which address its links name", async () => {
  const { lines } = await doctor({ ...settings(dataDir), IMPRIMATUR_HOST: "::", IMPRIMATUR_PORT: "8123" });
  expect(lines.find(({ check }) => check === "settings")).toMatchObject({
    mark: "warn",
    says: "labels, links and tokens name http://[::]:8123",
  });
});

test("on PostgreSQL a node is told so wherever it listens, as its start tells it: others stand behind the same address", async () => {
  const { lines } = await doctor({ ...settings(dataDir), IMPRIMATUR_DATABASE_URL: "postgres://127.0.0.1:1/x", IMPRIMATUR_PORT: "8123" });
  expect(lines.filter(({ check }) => check === "settings")).toContainEqual(
    expect.objectContaining({ mark: "warn", says: "labels, links and tokens name http://127.0.0.1:8123" }),
  );
});

test("nothing is written through a link that lies in the folder", async () => {
  const folder = mkdtempSync(join(root, "links-"));
  writeFileSync(join(root, "shadow"), "somebody's");
  symlinkSync(join(root, "shadow"), join(folder, `.doctor-${process.pid}`));
  const patient: Patient = {
    config: configFrom({ IMPRIMATUR_DATA_DIR: folder }),
    store: undefined,
    log: createLog("silent"),
    now: Date.now,
  };
  expect(() => sync(patient)).toThrow("EEXIST");
  expect(readFileSync(join(root, "shadow"), "utf8")).toBe("somebody's");
});

test("a file that is gone between two looks at the folder is no finding and stops no check", async () => {
  const folder = mkdtempSync(join(root, "gone-"));
  symlinkSync(join(root, "gone"), join(folder, "imprimatur.db-wal")); // is listed, and isn't there
  const patient = { config: configFrom({ IMPRIMATUR_DATA_DIR: folder }) } as Patient;
  expect(await dataFolder(patient)).toMatchObject({ mark: "ok" });
});

const sql = (text: string) => (folder: string) => {
  const database = new DatabaseSync(join(folder, "imprimatur.db"));
  database.exec(text);
  database.close();
};
const future = Date.now() + 86_400_000;

test.each<[string, (folder: string) => unknown, string, string, string]>([
  ["a signing key that others may read", (folder) => chmodSync(join(folder, "keys"), 0o755), "warn", "data folder", "others may read"],
  ["no signing key", (folder) => rmSync(join(folder, "keys"), { recursive: true }), "warn", "signing key", "holds no signing key"],
  [
    "another sealing key",
    (folder) => writeFileSync(join(folder, "sealing-key"), Buffer.alloc(32, 7).toString("base64")),
    "FAIL",
    "sealing key",
    "1 webhook secrets can't be opened",
  ],
  [
    "another sealing key, for what serials are made with",
    (folder) => writeFileSync(join(folder, "sealing-key"), Buffer.alloc(32, 7).toString("base64")),
    "FAIL",
    "sealing key",
    "1 serial secrets can't be opened",
  ],
  [
    "another sealing key, for what signs",
    (folder) => writeFileSync(join(folder, "sealing-key"), Buffer.alloc(32, 7).toString("base64")),
    "warn",
    "signing key",
    "can't be opened here",
  ],
  [
    "a signing key that lies in clear",
    (folder) =>
      writeFileSync(
        join(folder, "keys", "1.pem"),
        generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
      ),
    "warn",
    "sealing key",
    "1 secrets lie in clear",
  ],
  [
    "a database of the version before",
    sql("ALTER TABLE serial_counters DROP COLUMN sealed; DELETE FROM migrations WHERE version >= 18"),
    "warn",
    "sealing key",
    "lies in clear, as the version before left it",
  ],
  ["an audit row written anew", sql("UPDATE audit_log SET subject = 'x' WHERE seq = 4"), "FAIL", "audit chains", "breaks at row 4"],
  [
    "sealed evidence changed",
    sql(`UPDATE print_events SET item = json_set(item, '$.occurred_at', '2020-01-01T00:00:00.000Z') WHERE to_state = 'RENDERED'`),
    "FAIL",
    "evidence",
    "was changed after it was sealed",
  ],
  [
    "a sealed job set back",
    sql("UPDATE print_jobs SET state = 'PRINTED_ATTESTED' WHERE state = 'SEALED'"),
    "FAIL",
    "evidence",
    "the log has 1 sealed bundles more than there are sealed jobs",
  ],
  [
    "the heads of all audit chains gone",
    sql("DELETE FROM audit_heads"),
    "FAIL",
    "audit chains",
    "breaks at row 1: the row lies beyond the head",
  ],
  [
    "a leaf of the log that can't be read",
    sql("UPDATE log_leaves SET entry = '{' WHERE n = 0"),
    "FAIL",
    "log",
    "a column isn't what was written",
  ],
  [
    "a passport changed",
    sql("UPDATE passport_versions SET content = json_set(content, '$.product.name', 'Better kettle')"),
    "FAIL",
    "evidence",
    "version 1 was changed",
  ],
  [
    "a leaf of the log changed",
    sql("UPDATE log_nodes SET hash = zeroblob(32) WHERE level = 0 AND n = 1"),
    "FAIL",
    "log",
    "node 1 at level 0",
  ],
  [
    "a page of the database overwritten",
    (folder) => writeSync(openSync(join(folder, "imprimatur.db"), "r+"), Buffer.alloc(40_960, 7), 0, 40_960, 8_192),
    "FAIL",
    "integrity",
    "",
  ],
  [
    "a file that is no database",
    (folder) => writeFileSync(join(folder, "imprimatur.db"), "hello".repeat(1_000)),
    "FAIL",
    "database",
    "imprimatur.db is damaged, or no database at all",
  ],
  [
    "another program's database",
    (folder) => {
      rmSync(join(folder, "imprimatur.db"));
      sql("CREATE TABLE products (id TEXT)")(folder);
    },
    "FAIL",
    "database",
    "is another program's database",
  ],
  ["a schema of a newer version", sql("INSERT INTO migrations VALUES (9999, 'x', 'x')"), "FAIL", "database", "migration 9999"],
  [
    "a clock that was set back",
    sql(`UPDATE audit_log SET at = ${future} WHERE seq = (SELECT max(seq) FROM audit_log)`),
    "warn",
    "clock",
    "still to come",
  ],
  [
    "deliveries that failed for good",
    sql("INSERT INTO deliveries SELECT id, 'd1', tenant_id, 'e1', 'print.confirmed', 'exhausted', NULL, 8, 0, '[]', 1, 1 FROM webhooks"),
    "warn",
    "webhooks",
    "1 failed or are held",
  ],
  [
    "a lock that is none",
    (folder) => writeFileSync(join(folder, "lock"), "hello".repeat(1_000)),
    "FAIL",
    "cloud",
    "can't be taken: file is not a database",
  ],
  [
    "a first key that was cut",
    (folder) => writeFileSync(join(folder, "bootstrap-key"), "imp_tooshort"),
    "FAIL",
    "bootstrap key",
    "must have 24 to",
  ],
  [
    "a first key that was replaced",
    (folder) => writeFileSync(join(folder, "bootstrap-key"), "a-key-that-was-replaced-since"),
    "warn",
    "bootstrap key",
    "opens nothing",
  ],
  [
    "a database file of a first start that was cut off before its first table",
    (folder) => {
      const file = join(folder, "imprimatur.db");
      rmSync(file);
      const begun = new DatabaseSync(file);
      begun.exec("PRAGMA journal_mode = WAL");
      begun.close();
    },
    "FAIL",
    "database",
    "doesn't exist, or is empty",
  ],
  ["an empty database file", (folder) => truncateSync(join(folder, "imprimatur.db")), "FAIL", "database", "doesn't exist, or is empty"],
  [
    "a restore that was killed before it touched what was there",
    (folder) => mkdirSync(join(folder, ".restoring-x"), 0o700),
    "FAIL",
    "data folder",
    "was cut off",
  ],
  [
    "a restore that was killed half way",
    (folder) => writeFileSync(join(folder, "restore-under-way"), "", { mode: 0o600 }),
    "FAIL",
    "data folder",
    "was cut off",
  ],
  ["a job that nobody takes back", sql("UPDATE print_jobs SET look_at = 1"), "warn", "leases", "is due for"],
])("%s is found, by name and with what to do", async (_, harm, mark, check, says) => {
  const folder = mkdtempSync(join(root, "harmed-"));
  cpSync(dataDir, folder, { recursive: true });
  const before = readFileSync(join(folder, "imprimatur.db"));
  harm(folder);
  const harmed = readFileSync(join(folder, "imprimatur.db"));
  const said = await doctor(settings(folder));
  expect(notOk(said)).toContainEqual({ mark, check, says: expect.stringContaining(says), todo: expect.stringMatching(/.{4}/) });
  expect(said.code).toBe(said.lines.some((line) => line.mark === "FAIL") ? 1 : 0);
  expect(readFileSync(join(folder, "imprimatur.db")).equals(harmed)).toBe(true); // it only looks
  expect(before.length).toBeGreaterThan(0);
  rmSync(folder, { recursive: true });
});

test("nothing fails in a store of the version before: what it kept otherwise is told once the next start has brought it up to date", async () => {
  const folder = mkdtempSync(join(root, "before-"));
  cpSync(dataDir, folder, { recursive: true });
  sql(
    "DROP TABLE nodes; DROP TABLE retired_keys; DROP INDEX issued_credentials_by_tenant; DROP INDEX outbox_by_tenant; DROP INDEX print_jobs_look; ALTER TABLE print_jobs DROP COLUMN look_at; DELETE FROM migrations WHERE version >= 24",
  )(folder);
  const said = await doctor(settings(folder));
  expect(said.lines.filter(({ mark }) => mark === "FAIL")).toEqual([]);
  for (const check of ["webhooks", "leases"])
    expect(notOk(said)).toContainEqual(expect.objectContaining({ check, todo: expect.stringContaining("start") }));
  expect(notOk(said)).toContainEqual(expect.objectContaining({ check: "database", todo: "the next start runs the others" }));
  expect(said.code).toBe(0);
});

test.each<[Record<string, string>, string, string]>([
  [{ IMPRIMATUR_PROT: "1" }, "settings", "did you mean IMPRIMATUR_PORT?"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://127.0.0.1:1/x" }, "database", "connect ECONNREFUSED 127.0.0.1:1"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://127.0.0.1:1/x" }, "signing key", "can't be looked at without the database"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://127.0.0.1:1/x" }, "cloud", "isn't known"],
  [{ IMPRIMATUR_DATABASE_URL: "postgres://127.0.0.1:1/x", IMPRIMATUR_PORT: "2" }, "cloud", "ECONNREFUSED"],
  [{ IMPRIMATUR_MQTT_URL: "mqtt://127.0.0.1:1" }, "broker", "127.0.0.1:1 doesn't take us"],
  [{ IMPRIMATUR_DATA_DIR: join(root, "nowhere") }, "database", "doesn't exist"],
])("with %j the check of the %s says so", async (env, check, says) => {
  const said = await doctor({ ...settings(dataDir), ...env });
  expect(notOk(said)).toContainEqual(expect.objectContaining({ check, says: expect.stringContaining(says) }));
  expect(said.out).not.toContain("The store can't answer now"); // worded for callers of the API
});

test.runIf(process.getuid?.() === 0)("another user's folder isn't said to be empty", async () => {
  const nobody = { uid: 65_534, gid: 65_534, env: { ...process.env, ...settings(dataDir) } };
  const out = await new Promise<string>((resolve) =>
    execFile(process.execPath, ["cloud/doctor.ts"], nobody, (_, stdout) => resolve(stdout)),
  );
  for (const check of ["data folder", "database", "signing key", "cloud"])
    expect(out).toMatch(new RegExp(`FAIL ${check}: EACCES: [^\n]*${dataDir}[^\n]*; run it as the user that the cloud runs as`));
});

test.runIf(process.getuid?.() === 0)("nor is one that may be looked into, but not written", async () => {
  const folder = mkdtempSync(join(root, "shown-"));
  cpSync(dataDir, folder, { recursive: true });
  chmodSync(folder, 0o755);
  chmodSync(join(folder, "imprimatur.db"), 0o644);
  chmodSync(root, 0o755);
  const nobody = { uid: 65_534, gid: 65_534, env: { ...process.env, ...settings(folder) }, encoding: "utf8" } as const;
  const { stdout } = spawnSync(process.execPath, ["cloud/doctor.ts"], nobody);
  chmodSync(root, 0o700);
  for (const named of [`database: ${folder}/imprimatur.db can't be opened`, `cloud: the lock ${folder}/lock can't be taken`])
    expect(stdout).toMatch(new RegExp(`FAIL ${named}[^\n]*; run it as the user that the cloud runs as`));
});

test("on a disk without room each line says to make some", async (t) => {
  const disk = diskOf(t, 16);
  const folder = join(disk.folder, "node");
  cpSync(dataDir, folder, { recursive: true });
  for (const end of ["-shm", "-wal"]) rmSync(join(folder, `imprimatur.db${end}`), { force: true }); // as a cloud that ended leaves it
  disk.fill();
  const said = await doctor(settings(folder));
  for (const check of ["disk", "fsync", "database", "cloud"])
    expect(said.lines).toContainEqual(expect.objectContaining({ check, mark: "FAIL", todo: expect.stringContaining("make room") }));
});

test.runIf(process.getuid?.() === 0)("what a copy or a start as another user has left behind is named", async () => {
  const folder = mkdtempSync(join(root, "left-"));
  cpSync(dataDir, folder, { recursive: true });
  for (const name of ["", ...readdirSync(folder, { recursive: true, encoding: "utf8" })]) chownSync(join(folder, name), 65_534, 65_534);
  const [database, keys] = [join(folder, "imprimatur.db"), join(folder, "keys")];
  chmodSync(keys, 0o700);
  mkdirSync(join(folder, "lost+found"), { mode: 0o700 });
  expect(notOk(await doctor(settings(folder))).filter(({ check }) => check === "data folder")).toEqual([]);
  chownSync(keys, 0, 0);
  expect(notOk(await doctor(settings(folder)))).toContainEqual(
    expect.objectContaining({ mark: "warn", check: "data folder", says: `${keys} is of another user than the folder` }),
  );
  chmodSync(database, 0o444);
  chmodSync(root, 0o755);
  const nobody = { uid: 65_534, gid: 65_534, env: { ...process.env, ...settings(folder) }, encoding: "utf8" } as const;
  const { stdout, status } = spawnSync(process.execPath, ["cloud/doctor.ts"], nobody);
  chmodSync(root, 0o700);
  expect([status, stdout]).toEqual([1, expect.stringContaining(`FAIL data folder: this user may not write ${database}`)]);
});

test("it says which keys are still needed, and by how many secrets", async () => {
  const folder = mkdtempSync(join(root, "changed-"));
  cpSync(dataDir, folder, { recursive: true });
  const saysOf = ({ lines }: Said) => lines.find(({ check }) => check === "sealing key");
  expect(saysOf(await doctor(settings(folder)))?.says).toBe(
    "1 webhook secrets, 1 serial secrets, 1 signing keys can be opened, all with the newest key",
  );
  const file = join(folder, "sealing-key");
  writeFileSync(file, `${Buffer.alloc(32, 7).toString("base64")}\n${readFileSync(file, "utf8")}`);
  expect(saysOf(await doctor(settings(folder)))).toEqual({
    check: "sealing key",
    mark: "ok",
    says: "1 webhook secrets, 1 serial secrets, 1 signing keys can be opened; 3 still need key 2, counted from the newest",
  });
  const cloud = await startProgram("cloud/main.ts", settings(folder));
  await expect.poll(async () => saysOf(await doctor(settings(folder)))?.says).toContain("all with the newest key");
  expect(await cloud.end()).toBe(0);
  rmSync(folder, { recursive: true });
});

test("on PostgreSQL it looks at the same things", async () => {
  const folder = join(root, "postgres");
  const env = {
    ...settings(folder),
    IMPRIMATUR_DATABASE_URL: (await freshDatabase("postgres")) ?? "",
    IMPRIMATUR_SEALING_KEY: "a sealing key of this test",
    IMPRIMATUR_PUBLIC_URL: "https://imprimatur.example",
  };
  const cloud = await startProgram("cloud/main.ts", env);
  const look = () => doctor({ ...env, IMPRIMATUR_PORT: new URL(cloud.url).port });
  const said = await look();
  await onServer(env.IMPRIMATUR_DATABASE_URL, "DELETE FROM migrations WHERE version = (SELECT MAX(version) FROM migrations)");
  const todo = "the next start runs the others; old nodes go on meanwhile";
  expect(notOk(await look())).toContainEqual(expect.objectContaining({ check: "database", todo }));
  await cloud.end();
  expect([said.code, notOk(said).filter(isOurs)]).toEqual([0, []]);
  expect(said.lines.find(({ check }) => check === "database")?.says).toContain("postgres answers");
});

test("nodes on one database that were told different public URLs say so in their logs, and the doctor does, until one is gone", async (t) => {
  const databaseUrl = (await freshDatabase("postgres")) ?? "";
  const [one, other] = ["https://labels.example", "https://lables.example"];
  const node = async (origin: string) => {
    const world = await startWorld({ databaseUrl, settings: { IMPRIMATUR_PUBLIC_URL: origin, IMPRIMATUR_SEALING_KEY: "a sealing key of this test" } });
    t.onTestFinished(world.end);
    return world;
  };
  const tells = ({ logged }: World, event: string) => logged().filter((line) => line.includes(`"event":"public-urls-${event}"`));
  const look = async () => {
    const env = { IMPRIMATUR_DATABASE_URL: databaseUrl, IMPRIMATUR_PUBLIC_URL: one };
    return (await doctor({ ...settings(join(root, "named")), ...env })).lines.find(({ check }) => check === "public URL");
  };
  const first = await node(one);
  await node(one);
  await expect.poll(async () => (await look())?.says).toBe(`all nodes name ${one}`);
  const stray = await node(other);
  await expect.poll(() => tells(stray, "differ")).toEqual([expect.stringContaining(`name ${other} here, and ${one} on nodes`)]);
  await expect.poll(() => tells(first, "differ"), { timeout: 30_000 }).toEqual([expect.stringContaining(`name ${one} here, and ${other} on nodes`)]);
  expect(await look()).toMatchObject({ mark: "warn", says: expect.stringContaining(`${one}, ${other}`), todo: expect.stringContaining("IMPRIMATUR_PUBLIC_URL") });
  await stray.end();
  first.later(120_000);
  await expect.poll(() => tells(first, "agree"), { timeout: 30_000 }).toHaveLength(1);
}, 120_000); // oxfmt-ignore

test("a node whose clock isn't its database's says so in its log, once, and when they agree again", async (t) => {
  const world = await startWorld({ databaseUrl: (await freshDatabase("postgres")) ?? "" });
  t.onTestFinished(world.end);
  const told = () => world.logged().flatMap((line) => /"event":"(clock-\w+)"/.exec(line)?.[1] ?? []);
  await expect.poll(() => world.store.read("nodes", ({ db }) => db.select().from(nodes))).toHaveLength(1);
  expect(told()).toEqual([]);
  world.later(3_600_000);
  await expect.poll(told, { timeout: 30_000 }).toEqual(["clock-off"]);
  expect(world.logged().find((line) => line.includes("clock-off"))).toMatch(/this machine's clock and the database's are (3599\d\d\d|3600000) ms apart/);
  world.later(-3_600_000);
  await expect.poll(told, { timeout: 30_000 }).toEqual(["clock-off", "clock-agrees"]);
}, 90_000); // oxfmt-ignore

test("of a PostgreSQL that no cloud has used yet it says what makes its tables", async () => {
  const said = await doctor({ ...settings(dataDir), IMPRIMATUR_DATABASE_URL: (await freshDatabase("postgres")) ?? "" });
  const todo = expect.stringContaining("start the cloud once: it makes its tables");
  expect(said.lines.filter(({ mark }) => mark === "FAIL")).toEqual([expect.objectContaining({ check: "database", todo })]);
});

test("a PostgreSQL of another program's is told as its start would tell it", async () => {
  const url = (await freshDatabase("postgres")) ?? "";
  await onServer(url, "CREATE TABLE migrations (id BIGINT, applied_at TEXT)");
  const said = await doctor({ ...settings(dataDir), IMPRIMATUR_DATABASE_URL: url });
  expect(said.lines.filter(({ mark }) => mark === "FAIL")).toEqual([
    {
      check: "database",
      mark: "FAIL",
      says: "the database is another program's, with the tables migrations",
      todo: "name one of our own with IMPRIMATUR_DATABASE_URL",
    },
  ]);
});

test("a folder that isn't there is named whole: it may be meant from another one", async () => {
  const { lines } = await doctor(settings("no-such-folder"));
  expect(lines.find(({ check }) => check === "data folder")?.says).toBe(`${process.cwd()}/no-such-folder doesn't exist`);
});

test("what answers at the cloud's port and is none isn't called ready", async (t) => {
  const page = createServer((_request, response) => response.end("<h1>ready</h1>"));
  const port = await listening(page);
  t.onTestFinished(() => void page.close());
  const env = { ...settings(dataDir), IMPRIMATUR_DATABASE_URL: "postgres://127.0.0.1:1/x", IMPRIMATUR_PORT: String(port) };
  expect((await doctor(env)).lines.find(({ check }) => check === "cloud")).toMatchObject({
    mark: "warn",
    says: expect.stringContaining("is no cloud"),
  });
});

test("a first start that the disk had no room for is told as that, once, and nothing is said of tables that nobody has made", async (t) => {
  const { folder } = diskOf(t, 1);
  writeFileSync(join(folder, "ballast"), "x".repeat(800_000));
  const env = settings(join(folder, "node"));
  const { status, stderr } = spawnSync(process.execPath, ["cloud/main.ts"], { env: { ...process.env, ...env }, encoding: "utf8" });
  expect([status, stderr]).toEqual([1, expect.stringContaining("couldn't be brought up to date")]);
  const said = await doctor(env);
  const todo = expect.stringContaining("start the cloud");
  expect(said.lines.filter(({ check, mark }) => mark === "FAIL" && check !== "disk")).toEqual([
    expect.objectContaining({ check: "database", todo }),
  ]);
  expect(said.out).not.toContain("the version before");
});

test("an option that there isn't is answered with the one that was meant", async () => {
  expect(await doctor({}, ["--jason"])).toMatchObject({
    code: 2,
    out: expect.stringContaining("did you mean --json? (usage: imprimatur doctor"),
  });
});
