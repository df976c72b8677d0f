// A backup that is taken while labels are printed holds all that was answered before it, and comes back as a node that goes on.
import { execFile, spawn, spawnSync } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { digestOfFile, type Manifest, pack, unpack } from "../../cloud/backup/archive.ts";
import { restoreBackup, verifyBackup } from "../../cloud/backup/restore.ts";
import { createLog } from "../../cloud/log.ts";
import { copyDatabase, integrityFault } from "../../cloud/store/copy.ts";
import { client } from "../../fixtures/client.ts";
import { type Claim, printShop } from "../../fixtures/print-shop.ts";
import { cloudSettings, type Program, startProgram } from "../../fixtures/program.ts";
import { straceMissing, tamperingArgs } from "../../fixtures/strace.ts";
import { diskOf } from "../../fixtures/tmpfs.ts";

const root = mkdtempSync(join(tmpdir(), "imprimatur-backup-"));
const dataDir = join(root, "node");
const file = join(root, "node.backup");
const log = createLog("silent");
const PATIENCE = { timeout: 30_000 };
const adminKey = "a-key-for-the-backup-test-01";
const env = (folder: string) => cloudSettings(folder, adminKey, { IMPRIMATUR_DATABASE_URL: "" });
const as = (url: string, secret: string) => client(() => url, { authorization: `Bearer ${secret}` });
const worldOf = ({ url }: Program) => ({ url, admin: as(url, adminKey), as: (secret: string) => as(url, secret) });

type Ended = { code: number; out: string };
const SLOW = /^\{.*"event":"slow-unit".*\n/gm; // what a busy machine has said besides
const imprimatur = (args: string[], more: Record<string, string> = {}) =>
  new Promise<Ended>((resolve) => {
    const [command = "", ...rest] = args;
    execFile(process.execPath, [`cloud/${command}.ts`, ...rest], { env: { ...process.env, ...more }, timeout: 60_000 }, (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), out: (out + err).replaceAll(SLOW, "") }),
    );
  });

const clouds: Program[] = [];
async function startCloud(settings: Parameters<typeof startProgram>[1]): Promise<Program> {
  const cloud = await startProgram("cloud/main.ts", settings);
  clouds.push(cloud);
  return cloud;
}
afterAll(async () => {
  for (const { end } of clouds) await end("SIGKILL"); // one that a failed test left
  rmSync(root, { recursive: true, force: true });
});

type Sealed = { ref: string; serial: string };
const before: Sealed[] = [];
let adminSecret = "";
let serialsAfter: string[] = [];
let logSize = 0;
let gtin = "";
let openJob = "";
let unprinted: string[] = [];
let signedOut = ""; // the cookie of a session that was ended after the backup

beforeAll(async () => {
  const cloud = await startCloud(env(dataDir));
  const shop = await printShop(worldOf(cloud), { sandbox: false });
  adminSecret = shop.adminKey;
  ({ gtin } = shop);
  openJob = (await shop.issue({ priority: -1, station: "nowhere" })).job_ref;
  unprinted = await shop.allocate(2);
  let isOver = false;
  const sealed: Sealed[] = [];
  const line = async () => {
    while (!isOver) {
      await shop.issue();
      const claimed = await shop.device.claim();
      const { status } = await shop.device.seal(claimed);
      if (status === 200) sealed.push({ ref: claimed.job.job_ref, serial: String(claimed.job["serial"]) });
    }
  };
  const lines = Array.from({ length: 4 }, line);
  await vi.waitUntil(() => sealed.length > 10, PATIENCE);
  before.push(...sealed);
  const begun = await shop.admin.post("//console/session", { key: adminSecret });
  signedOut = begun.headers.get("set-cookie")?.split(";")[0] ?? "";
  const taken = await imprimatur(["backup", "--to", file], env(dataDir));
  expect(taken.out).toContain("taken and checked");
  const home = { cookie: signedOut, origin: cloud.url, "content-type": "application/json" };
  expect((await fetch(`${cloud.url}/console/session`, { method: "DELETE", headers: home })).status).toBe(204);
  const then = sealed.length;
  await vi.waitUntil(() => sealed.length > then + 5, PATIENCE); // it went on all the while
  isOver = true;
  await Promise.all(lines);
  await shop.admin.post("/aidc/jobs", { gtin, serial: unprinted[0] });
  expect((await shop.device.seal(await shop.device.claim())).body.serial).toBe(unprinted[0]);
  serialsAfter = await shop.allocate(500);
  logSize = Number((await shop.admin.get("/log/checkpoint")).text.split("\n")[1]);
  expect(await cloud.end()).toBe(0);
});

test("the backup is its owner's alone, leaves nothing beside it, and isn't written over", async () => {
  expect(statSync(file).mode & 0o777).toBe(0o600);
  expect(readdirSync(root).toSorted()).toEqual(["node", "node.backup"]);
  const again = await imprimatur(["backup", "--to", file], env(dataDir));
  expect([again.code, again.out]).toEqual([1, expect.stringContaining("exists: name a file that doesn't")]);
  const inFolder = await imprimatur(["backup", "--to", `${root}/elsewhere/`], env(dataDir));
  expect([inFolder.code, inFolder.out]).toEqual([1, expect.stringContaining("is the name of a folder")]);
  expect(readdirSync(root)).not.toContain("elsewhere");
});

test("nor is a link written over, though it leads nowhere yet: what lies there would be found where nobody meant it", async () => {
  const link = join(root, "latest");
  symlinkSync(join(root, "not-there-yet"), link);
  const { code, out } = await imprimatur(["backup", "--to", link], env(dataDir));
  expect([code, out]).toEqual([1, expect.stringContaining("exists: name a file that doesn't")]);
  expect(lstatSync(link).isSymbolicLink()).toBe(true);
  rmSync(link);
});

test("--verify says how far it goes", async () => {
  const { code, out } = await imprimatur(["backup", "--verify", file]);
  expect([code, out]).toEqual([0, expect.stringMatching(/all of it holds; it goes to \d{4}-.*Z: a log of \d+ leaves/)]);
});

test("with a signing key that was made since the copy, what is taken can be restored; with none that the copy knows, nothing is taken", async () => {
  const [from, kept] = [join(root, "renewed"), join(root, "renewed.backup")];
  cpSync(dataDir, from, { recursive: true });
  const old = readdirSync(join(from, "keys"));
  const pem = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
  writeFileSync(join(from, "keys", `${Date.now()}.pem`), pem, { mode: 0o600 });
  expect((await imprimatur(["backup", "--to", kept], env(from))).code).toBe(0);
  const verified = await imprimatur(["backup", "--verify", kept]);
  expect(verified).toEqual({ code: 0, out: expect.stringContaining("all of it holds") });
  for (const name of old) rmSync(join(from, "keys", name));
  const refused = await imprimatur(["backup", "--to", `${kept}-2`], env(from));
  expect(refused).toEqual({ code: 1, out: expect.stringContaining("start the cloud once, and take the backup then") });
  for (const made of [from, kept]) rmSync(made, { recursive: true });
});

test("a file that its operator emptied is taken as it is, and the backup can be restored", async () => {
  const [from, kept] = [join(root, "emptied"), join(root, "emptied.backup")];
  cpSync(dataDir, from, { recursive: true });
  writeFileSync(join(from, "bootstrap-key"), "");
  expect((await imprimatur(["backup", "--to", kept], env(from))).code).toBe(0);
  const verified = await imprimatur(["backup", "--verify", kept]);
  expect(verified).toEqual({ code: 0, out: expect.stringContaining("all of it holds") });
  for (const made of [from, kept]) rmSync(made, { recursive: true });
});

test.each([
  ["before its first table", ""],
  ["before its tables were made", "CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, digest TEXT NOT NULL)"],
])("of a first start that was cut off %s it says what makes a backup possible", async (_, made) => {
  const [from, kept] = [mkdtempSync(join(root, "tableless-")), join(root, "tableless.backup")];
  const begun = new DatabaseSync(join(from, "imprimatur.db"));
  begun.exec(`PRAGMA journal_mode = WAL; ${made}`);
  begun.close();
  const { code, out } = await imprimatur(["backup", "--to", kept], env(from));
  expect([code, out]).toEqual([
    1,
    expect.stringMatching(/ has no tables yet: start the cloud once, which makes them, and take the backup then\n$/),
  ]);
  rmSync(from, { recursive: true });
});

test("a dash isn't the name of a file: stdout takes no backup", async () => {
  const { code, out } = await imprimatur(["backup", "--to", "-"], env(dataDir));
  expect([code, out, existsSync("-")]).toEqual([2, expect.stringContaining("--to names a file"), false]);
});

test("restored, all that was answered before the backup is there, the chains hold, nothing is given out twice, and the node goes on", async () => {
  const folder = join(root, "restored");
  const notYet = { IMPRIMATUR_SEALING_KEY_FILE: join(root, "not here yet") }; // a restore needs no settings
  const { code, out } = await imprimatur(["restore", "--from", file, "--data", folder], notYet);
  expect([code, out]).toEqual([
    0,
    expect.stringMatching(
      /is restored from [^]*Before any serial is printed next, .* since\..* imprimatur agent missing --since that time, .*\.\n$/,
    ),
  ]);
  const cloud = await startCloud(env(folder));
  const admin = as(cloud.url, adminSecret);
  for (const { ref } of before) expect((await admin.get(`/aidc/jobs/${ref}`)).body.state).toBe("SEALED");
  expect((await fetch(`${cloud.url}/console/session`, { headers: { cookie: signedOut } })).status).toBe(401);
  expect((await admin.get("/audit-logs/verify")).body).toMatchObject({ valid: true });
  const { action, details } = (await admin.get("/audit-logs")).body.data[0];
  expect([action, Number.isFinite(Date.parse(details.takenAt)), details.logSize]).toEqual(["tenant.restored", true, expect.any(Number)]);
  const size = Number((await admin.get("/log/checkpoint")).text.split("\n")[1]);
  expect([size >= before.length, size < logSize]).toEqual([true, true]);

  const { data: products } = (await admin.get("/products")).body;
  const fresh = (await admin.post("/carriers/batch", { productId: products[0].id, count: 500 })).body.serials as string[];
  expect(fresh.filter((serial) => serialsAfter.includes(serial))).toEqual([]);
  const lost = { labels: serialsAfter.map((serial) => ({ gtin, serial })) };
  const { results } = (await admin.post("/carriers/recover", lost)).body; // as if they had been printed
  expect(results).toEqual(serialsAfter.map((serial) => ({ serial, outcome: "recovered", message: null })));
  const { digital_link: link } = (await admin.get(`/carriers/${serialsAfter[0]}`)).body;
  expect((await fetch(link, { redirect: "manual" })).status).toBe(302);
  const device = (await admin.post("/devices", { name: "line 2", station: "line-1", capabilities: ["qr", "rfid"] })).body;
  const floor = as(cloud.url, device.key.secret);
  const job = (await admin.post("/aidc/jobs", { gtin, serial: fresh[0], priority: 9 })).body;
  const claimed = (await floor.post("/aidc/jobs/claim", { needs: ["qr", "rfid"] })).body;
  expect([claimed.job.job_ref, claimed.job.duplicate_risk]).toEqual([job.job_ref, false]);
  expect((await admin.get(`/aidc/jobs/${openJob}`)).body.duplicate_risk).toBe(true); // it may have been printed since
  const { claims } = (await floor.post("/aidc/jobs/claim/batch", { needs: ["qr", "rfid"], station: "nowhere", max: 100 })).body;
  const { attempt_id } = (claims as Claim[]).find((held) => held.job.job_ref === openJob) as Claim;
  const gone = { job_ref: openJob, attempt_id, evidence: {}, disposition: "destroyed", actor: { kind: "operator", id: "op-7" } };
  await floor.post(`/aidc/jobs/${openJob}/result`, { attempt_id, status: "FAILED", reason: "jam" });
  expect((await admin.post("/aidc/orphans", gone)).status).toBe(201);
  expect((await admin.get(`/aidc/jobs/${openJob}`)).body.duplicate_risk).toBe(true); // that was another label
  const again = { reprint: true, reason: "of the test" };
  for (const serial of [...unprinted, before[0]?.serial]) {
    const { status, body } = await admin.post("/aidc/jobs", { gtin, serial, ...again });
    expect([status, body.duplicate_risk]).toEqual([201, true]); // so may any serial, sealed or not
  }
  expect(await cloud.end()).toBe(0);
});

test("restored a second time, it gives out nothing that went out after the first", async () => {
  const given: { serials: string[]; bit: string }[] = [];
  for (const name of ["once", "again"]) {
    const folder = join(root, name);
    await imprimatur(["restore", "--from", file, "--data", folder]);
    const cloud = await startCloud(env(folder));
    const shop = await printShop(worldOf(cloud));
    const admin = as(cloud.url, adminSecret);
    const { data: products } = (await admin.get("/products")).body;
    const { serials } = (await admin.post("/carriers/batch", { productId: products[0].id, count: 100 })).body;
    const { credential } = (await shop.admin.get(`/passports/${shop.passportId}`)).body;
    const { credentialStatus } = JSON.parse(Buffer.from(String(credential).split(".")[1] ?? "", "base64url").toString());
    given.push({ serials, bit: credentialStatus.id });
    expect(await cloud.end()).toBe(0);
  }
  const [once, again] = given;
  expect(again?.serials.filter((serial) => once?.serials.includes(serial))).toEqual([]);
  expect(again?.bit).not.toBe(once?.bit);
});

const GIVING_OUT =
  "UPDATE serial_counters SET next = next + 50000000; UPDATE counters SET value = value + 50000000 WHERE name = 'credential_status'";
function givenOut(before: DatabaseSync): { id: string; next: number }[] {
  const serials = before.prepare("SELECT tenant_id AS id, next FROM serial_counters ORDER BY id").all();
  const places = before.prepare("SELECT name AS id, value AS next FROM counters WHERE name = 'credential_status'").all();
  before.close();
  return [...serials, ...places] as { id: string; next: number }[];
}
test("restored over a life that gave out more than a restore leaves out, it goes on after all of that", async () => {
  const folder = join(root, "busy");
  await imprimatur(["restore", "--from", file, "--data", folder]);
  const database = () => new DatabaseSync(join(folder, "imprimatur.db"));
  const busy = database();
  busy.exec(GIVING_OUT);
  const before = givenOut(busy);
  for (const over of ["that life", "what is no database any more"]) {
    expect((await imprimatur(["restore", "--from", file, "--data", folder, "--force"])).code).toBe(0);
    expect([over, givenOut(database()).map(({ id, next }, i) => [id, next >= (before[i]?.next ?? 0)])]).toEqual([
      over,
      before.map(({ id }) => [id, true]),
    ]);
    truncateSync(join(folder, "imprimatur.db"), 10_000); // its own is lost, and what was put aside before it still tells
  }
});

test.skipIf(straceMissing)(
  "killed between a database that it puts aside and the log of it, and begun again, it still goes on after all that was given out",
  async () => {
    const [live, folder] = [join(root, "logged"), join(root, "half-aside")];
    await imprimatur(["restore", "--from", file, "--data", live]);
    const busy = new DatabaseSync(join(live, "imprimatur.db"));
    busy.exec(`PRAGMA wal_autocheckpoint = 0; ${GIVING_OUT}`);
    cpSync(live, folder, { recursive: true }); // as a cloud leaves it that is killed
    const before = givenOut(busy);
    const args = ["cloud/restore.ts", "--from", file, "--data", folder, "--force"];
    const killed = tamperingArgs({ file: join(folder, "imprimatur.db-wal"), inject: "rename:signal=KILL:when=1" });
    spawnSync("strace", ["-f", ...killed, process.execPath, ...args]);
    expect(existsSync(join(folder, "imprimatur.db"))).toBe(false);
    expect((await imprimatur(["restore", ...args.slice(1)])).code).toBe(0);
    const after = givenOut(new DatabaseSync(join(folder, "imprimatur.db")));
    expect(after.map(({ id, next }, i) => [id, next >= (before[i]?.next ?? 0)])).toEqual(before.map(({ id }) => [id, true]));
    const asides = readdirSync(folder).filter((name) => name.startsWith("before-restore-"));
    expect(asides.map((name) => readdirSync(join(folder, name)))).toEqual([
      expect.arrayContaining(["imprimatur.db", "keys", "sealing-key"]),
    ]);
  },
);

test("nothing that signs or makes serials can be read in it, and with its sealing key the same key signs on", async () => {
  const content = readFileSync(file);
  expect([content.includes("imprimatur.db"), content.includes("PRIVATE KEY")]).toEqual([true, false]);
  const database = new DatabaseSync(join(dataDir, "imprimatur.db"), { readOnly: true });
  const rows = database.prepare("SELECT length(secret) AS clear, substr(sealed, 1, 8) AS id FROM serial_counters").all();
  const kids = database.prepare("SELECT kid FROM signing_keys").all();
  database.close();
  const isSealed = { clear: 0, id: expect.stringMatching(/^[0-9a-f]{8}$/) };
  expect(rows).toEqual([isSealed, isSealed]); // the shop's, and the first tenant's
  const there = new DatabaseSync(join(root, "restored", "imprimatur.db"), { readOnly: true });
  expect([kids.length, there.prepare("SELECT kid FROM signing_keys").all()]).toEqual([1, kids]); // no new one was needed
  there.close();
});

test("sealed with a setting, it is taken with that setting only, and goes on with it only", async () => {
  const key = { IMPRIMATUR_SEALING_KEY: "the sealing key of this node, long enough" };
  const [from, to, kept] = [join(root, "set"), join(root, "set-restored"), join(root, "set.backup")];
  const first = await startCloud({ ...env(from), ...key });
  const shop = await printShop(worldOf(first), { sandbox: false });
  const drawn = await shop.allocate(100);
  expect(await first.end()).toBe(0);
  const without = await imprimatur(["backup", "--to", kept], env(from));
  expect(without).toEqual({
    code: 1,
    out: expect.stringMatching(/^imprimatur: no key in .*keys can be opened: set IMPRIMATUR_SEALING_KEY .*\n$/),
  });
  const taken = await imprimatur(["backup", "--to", kept], { ...env(from), ...key });
  expect(taken).toEqual({ code: 0, out: expect.stringContaining("it needs IMPRIMATUR_SEALING_KEY as set when it was taken") });
  expect((await imprimatur(["restore", "--from", kept, "--data", to])).code).toBe(0);

  const draw = ({ url }: Program) => as(url, shop.adminKey).post("/carriers/batch", { productId: shop.product.id, count: 100 });
  const lacking = await startCloud(env(to));
  expect((await draw(lacking)).body.error.code).toBe("SERIALS_UNAVAILABLE");
  expect(lacking.said()).toContain("signing-key-unopenable");
  expect(await lacking.end()).toBe(0);
  const second = await startCloud({ ...env(to), ...key });
  const more = await draw(second);
  expect([more.status, new Set([...drawn, ...more.body.serials]).size]).toEqual([201, 200]);
  expect(await second.end()).toBe(0);
});

test("a folder that holds something is refused without --force; with it, what was there is put aside", async () => {
  const folder = join(root, "restored");
  const refused = await imprimatur(["restore", "--from", file, "--data", folder]);
  expect([refused.code, refused.out]).toEqual([1, expect.stringContaining("isn't empty")]);
  const forced = await imprimatur(["restore", "--from", file, "--data", folder, "--force"]);
  expect([forced.code, forced.out]).toEqual([0, expect.stringContaining("what was there lies in")]);
  const aside = readdirSync(folder).find((name) => name.startsWith("before-restore-")) ?? "";
  expect(readdirSync(join(folder, aside))).toEqual(expect.arrayContaining(["imprimatur.db", "keys"]));
});

test("a folder of other things isn't put aside, --force or not, and nothing is left in it", async () => {
  const folder = join(root, "home");
  mkdirSync(join(folder, "letters"), { recursive: true });
  for (const more of [[], ["--force"]]) {
    const { code, out } = await imprimatur(["restore", "--from", file, "--data", folder, ...more]);
    expect([code, out]).toEqual([1, expect.stringMatching(/holds what isn't a cloud's \(letters\): name a folder that is empty/)]);
  }
  expect(readdirSync(folder)).toEqual(["letters"]);
});

test("what root restores into another user's folder is that user's", async (t) => {
  if (process.getuid?.() !== 0) return t.skip("only root restores for others");
  const folder = join(root, "anothers");
  mkdirSync(folder);
  chownSync(folder, 1234, 1234);
  for (const force of [false, true]) {
    await restoreBackup({ from: file, dataDir: folder, force, log, now: 0 });
    const theirs = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((name) => statSync(join(folder, name)).uid !== 1234);
    expect(theirs).toEqual([]);
  }
  if (straceMissing) return;
  const args = ["--from", file, "--data", folder, "--force"];
  spawnSync("strace", [
    "-f",
    ...tamperingArgs({ file: join(folder, "keys"), inject: "lchown:signal=KILL:when=1" }),
    process.execPath,
    "cloud/restore.ts",
    ...args,
  ]);
  expect(existsSync(join(folder, "restore-under-way")), "killed before all is that user's, it hasn't ended").toBe(true);
});

test("root gives away and overwrites nothing that lies outside of that folder, whatever leads there", async (t) => {
  if (process.getuid?.() !== 0) return t.skip("only root can give files away");
  const [folder, outside] = [join(root, "with-links"), join(root, "outside")];
  for (const made of [folder, outside]) mkdirSync(made);
  writeFileSync(join(folder, "imprimatur.db"), "");
  writeFileSync(join(outside, "shadow"), "root's own");
  symlinkSync(outside, join(folder, "to-a-folder"));
  symlinkSync(join(outside, "shadow"), join(folder, "to-a-file"));
  symlinkSync(join(outside, "shadow"), join(folder, `restore-under-way.${process.pid}.new`));
  chownSync(folder, 1234, 1234);
  await restoreBackup({ from: file, dataDir: folder, force: true, log, now: 0 });
  expect([outside, join(outside, "shadow")].map((name) => statSync(name).uid)).toEqual([0, 0]);
  expect(readFileSync(join(outside, "shadow"), "utf8")).toBe("root's own");
});

test("a disk's own folder is no reason to refuse it; where another's folder can't be put aside, all stays where it was", async (t) => {
  if (process.getuid?.() !== 0) return t.skip("only root can be somebody else");
  chmodSync(root, 0o755);
  const [folder, theirs] = [join(root, "fresh-disk"), join(root, "theirs.backup")];
  mkdirSync(join(folder, "lost+found"), { recursive: true, mode: 0o700 });
  chmodSync(folder, 0o700);
  cpSync(file, theirs);
  for (const given of [folder, theirs]) chownSync(given, 65_534, 65_534);
  const restore = (...more: string[]) =>
    spawnSync(process.execPath, ["cloud/restore.ts", "--from", theirs, "--data", folder, ...more], {
      uid: 65_534,
      gid: 65_534,
      encoding: "utf8",
    });
  expect(restore().stderr).toBe("");
  chownSync(join(folder, "keys"), 0, 0);
  const there = readdirSync(folder).toSorted();
  const { status, stderr } = restore("--force");
  expect([status, stderr]).toEqual([1, expect.stringContaining("EACCES")]);
  expect(readdirSync(folder).toSorted()).toEqual(there);
  await restoreBackup({ from: file, dataDir: folder, force: true, log, now: 0 });
  expect(statSync(join(folder, "lost+found")).uid).toBe(0);
});

test("a database that this user may not read is named, with the reason", async (t) => {
  if (process.getuid?.() !== 0) return t.skip("only root can be somebody else");
  chmodSync(root, 0o755);
  chmodSync(dataDir, 0o755); // to the file, and no further
  const nobody = { uid: 65_534, gid: 65_534, env: { ...process.env, ...env(dataDir) }, encoding: "utf8" } as const;
  const { stderr } = spawnSync(process.execPath, ["cloud/backup.ts", "--to", join(tmpdir(), "nobodys.backup")], nobody);
  chmodSync(dataDir, 0o700);
  expect(stderr).toMatch(/^imprimatur: EACCES: permission denied, access '.*imprimatur\.db'\n$/);
});

test("a folder in which a cloud works is refused, --force or not", async () => {
  const cloud = await startCloud(env(dataDir));
  const { code, out } = await imprimatur(["restore", "--from", file, "--data", dataDir, "--force"]);
  expect([code, out]).toEqual([1, expect.stringContaining("another Imprimatur cloud works in")]);
  expect(await cloud.end()).toBe(0);
});

test("of a store that the version before left a backup is taken, and one that it took is restored", async () => {
  const [left, old, fresh] = ["left", "old.backup", "from-old"].map((name) => join(root, name)) as [string, string, string];
  cpSync(dataDir, left, { recursive: true });
  const database = new DatabaseSync(join(left, "imprimatur.db"));
  database.exec(
    "DROP TABLE nodes; DROP TABLE retired_keys; DROP INDEX issued_credentials_by_tenant; DROP INDEX outbox_by_tenant; DROP INDEX print_jobs_look; ALTER TABLE print_jobs DROP COLUMN look_at; DELETE FROM migrations WHERE version >= 24",
  );
  database.close();
  expect(await imprimatur(["backup", "--to", old], env(left))).toEqual({ code: 0, out: expect.stringContaining("taken and checked") });
  expect(await imprimatur(["restore", "--from", old, "--data", fresh], { IMPRIMATUR_DATABASE_URL: "postgres://elsewhere/cloud" })).toEqual({
    code: 0,
    out: expect.stringMatching(/is restored from [^]*IMPRIMATUR_DATABASE_URL is set here: a cloud .* works on that database/),
  });
  const cloud = await startCloud(env(fresh));
  const { admin } = worldOf(cloud);
  expect((await admin.get("/tenant")).status).toBe(200);
  const { ref } = before[0] as Sealed;
  expect((await as(cloud.url, adminSecret).get(`/aidc/jobs/${ref}/evidence`)).body.fault).toBeUndefined();
  expect(await cloud.end()).toBe(0);
});

test("of the store of a newer version this one makes no backup", async () => {
  const folder = join(root, "newer");
  cpSync(dataDir, folder, { recursive: true });
  const database = new DatabaseSync(join(folder, "imprimatur.db"));
  database.exec(`INSERT INTO migrations VALUES (9000, '9000-later.sql', '')`);
  database.close();
  const { code, out } = await imprimatur(["backup", "--to", join(root, "newer.backup")], env(folder));
  expect([code, out]).toEqual([1, expect.stringContaining("a newer Imprimatur made it (migration 9000, this one knows")]);
  expect(existsSync(join(root, "newer.backup"))).toBe(false);
});

test.each([
  ["while it put things in their place", ["restore-under-way", ".restoring-a1b2c3"], /was cut off: run it again with --force\n$/],
  ["before it touched anything", [".restoring-a1b2c3"], /was cut off: run it again with --force, or remove \S+\.restoring-a1b2c3 to go on/],
])("a restore that was cut off %s stops the start", async (_when, left, says) => {
  const folder = mkdtempSync(join(root, "half-"));
  for (const name of left) writeFileSync(join(folder, name), "");
  const { code, out } = await imprimatur(["main"], env(folder));
  expect({ code, out }).toEqual({ code: 1, out: expect.stringMatching(says) });
  expect((await imprimatur(["restore", "--from", file, "--data", folder, "--force"])).code).toBe(0);
  expect(readdirSync(folder).filter((name) => name.includes("restor"))).toEqual([]);
});

const bytes = () => readFileSync(file);
const put = (name: string, content: Buffer) => {
  const to = join(root, name);
  writeFileSync(to, content);
  return to;
};
const flipped = (at: (content: Buffer) => number) => () => {
  const content = bytes();
  const place = at(content);
  content.writeUInt8(content.readUInt8(place) ^ 1, place);
  return content;
};
/** The same backup with its database changed by SQL, and a manifest that fits it byte for byte. */
const rewritten = (sql: string) => async () => {
  const folder = mkdtempSync(join(root, "forged-"));
  const manifest = await unpack(file, folder);
  const database = new DatabaseSync(join(folder, "imprimatur.db"));
  database.exec(`${sql}; PRAGMA wal_checkpoint(TRUNCATE)`);
  database.close();
  for (const entry of manifest.files) Object.assign(entry, await digestOfFile(join(folder, entry.name)));
  await pack(join(folder, "whole"), folder, manifest);
  const content = readFileSync(join(folder, "whole"));
  rmSync(folder, { recursive: true });
  return content;
};
const shortened = (by: number) => () => {
  const to = put("short", bytes());
  truncateSync(to, statSync(to).size - by);
  return readFileSync(to);
};

test.each<[string, () => Buffer | Promise<Buffer>, string]>([
  ["whose end is missing", shortened(1), "was cut off"],
  ["of which only the beginning is left", () => bytes().subarray(0, 100), "was cut off in its manifest"],
  ["with something behind it", () => Buffer.concat([bytes(), Buffer.from("x")]), "1 bytes follow its end"],
  ["with another manifest", flipped((content) => content.indexOf('"takenAt"') + 12), "manifest was changed"],
  [
    "with a flipped bit in the database",
    flipped((content) => content.indexOf("SQLite format 3") + 9_000),
    "imprimatur.db in it was changed",
  ],
  ["with a flipped bit in a key", flipped((content) => content.length - statSync(join(dataDir, "sealing-key")).size - 20), "keys/"],
  ["that is something else", () => Buffer.from("hello\n"), "isn't a backup"],
  ["of a newer version", rewritten(`INSERT INTO migrations VALUES (9000, '9000-later.sql', '')`), "a newer Imprimatur made it"],
  ["with an audit row written anew", rewritten("UPDATE audit_log SET subject = 'x' WHERE seq = 2"), "audit chain"],
  ["without the heads of its audit chains", rewritten("DELETE FROM audit_heads"), "breaks at row 1"],
  ["with its last audit row cut off", rewritten("DELETE FROM audit_log WHERE seq = 3"), "audit chain"],
  [
    "with a leaf of the log changed",
    rewritten(`UPDATE log_leaves SET entry = json_set(entry, '$.at', '2020-01-01T00:00:00.000Z') WHERE n = 1`),
    "node 1 at level 0",
  ],
  [
    "with sealed evidence changed",
    rewritten(`UPDATE print_events SET item = json_set(item, '$.evidence.completion.grade', 'B') WHERE to_state = 'PRINTED_ATTESTED'`),
    "was changed after it was sealed",
  ],
  [
    "without a sealed job, and all that it left",
    rewritten("DELETE FROM print_events WHERE to_state = 'SEALED'; DELETE FROM print_jobs WHERE state = 'SEALED'"),
    "sealed evidence is missing",
  ],
  ["whose seals are gone", rewritten("DELETE FROM print_events WHERE to_state = 'SEALED'"), "which digest was sealed"],
  [
    "with a passport changed, and its digest with it",
    rewritten("UPDATE passport_versions SET content = '{}', digest = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'"),
    "isn't what was signed: its credential gives the digest",
  ],
  [
    "with a passport's credential changed",
    rewritten(
      "UPDATE passport_versions SET credential = substr(credential, 1, length(credential) - 1) || iif(credential GLOB '*Q', 'g', 'Q')",
    ),
    "has a credential that",
  ],
  ["with the credential of something else", rewritten("UPDATE passports SET product_id = id"), "has a credential of something else"],
  ["with a version of a passport missing", rewritten("DELETE FROM passport_versions"), "its version 1 is missing"],
  [
    "with a passport's validation changed",
    rewritten("UPDATE validations SET digest = '44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'"),
    "the digest that was validated, 44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a, isn't in the log",
  ],
  ["with a leaf of the log missing", rewritten("DELETE FROM log_leaves WHERE n = 2"), "leaf 2"],
  [
    "whose log was shortened in order, and what it proved with it",
    rewritten(
      "UPDATE print_jobs SET state = 'CANCELLED'; DELETE FROM log_leaves WHERE n > 0; DELETE FROM log_nodes WHERE n > 0 OR level > 0; UPDATE log_head SET size = 1",
    ),
    "its manifest names another",
  ],
  [
    "whose keys were swapped, and whose passports are gone",
    rewritten(
      `UPDATE signing_keys SET public_jwk = json_set(public_jwk, '$.x', 'AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'); DELETE FROM passports`,
    ),
    "signed by none",
  ],
])("a backup %s is refused, and nothing is left of it", async (_, make, says) => {
  const torn = put("torn", await make());
  const folder = join(root, "none");
  await expect(verifyBackup(torn, log)).rejects.toThrow(says);
  await expect(restoreBackup({ from: torn, dataDir: folder, force: false, log, now: 0 })).rejects.toThrow(says);
  expect(existsSync(folder)).toBe(false);
});

test("a disk that takes all but the end of a backup is told, not taken for a whole one", async (t) => {
  const disk = diskOf(t, 1);
  const content = join(root, "bootstrap-key");
  writeFileSync(content, "k".repeat(100_000));
  const manifest = { files: [{ name: "bootstrap-key", ...(await digestOfFile(content)) }] } as unknown as Manifest;
  await pack(join(root, "whole"), root, manifest);
  const { size } = statSync(join(root, "whole"));
  disk.fill();
  const ballast = join(disk.folder, "ballast");
  truncateSync(ballast, statSync(ballast).size - Math.floor(size / 4_096) * 4_096); // room for all whole pages of it
  await expect(pack(join(disk.folder, "cut"), root, manifest)).rejects.toThrow("ENOSPC");
  for (const made of [content, join(root, "whole")]) rmSync(made);
});

test("a machine without the room to look at a backup isn't told that the backup is bad", async (t) => {
  const disk = diskOf(t, 1);
  disk.fill();
  const { code, out } = await imprimatur(["backup", "--verify", file], { TMPDIR: disk.folder });
  expect([code, out]).toEqual([
    1,
    expect.stringMatching(/^imprimatur: .*node\.backup couldn't be looked at: ENOSPC.* TMPDIR names another/),
  ]);
});

test("nor where the room ends once it is unpacked, beside the database", async (t) => {
  const disk = diskOf(t, 64);
  disk.fill();
  const ballast = join(disk.folder, "ballast");
  truncateSync(ballast, statSync(ballast).size - Math.ceil(statSync(file).size / 4_096) * 4_096 - 3 * 4_096); // for four files, and no more
  const { code, out } = await imprimatur(["backup", "--verify", file], { TMPDIR: disk.folder });
  expect([code, out]).toEqual([
    1,
    expect.stringMatching(/^imprimatur: .*node\.backup couldn't be looked at: .*imprimatur\.db can't be opened: .* TMPDIR names another/),
  ]);
});

test("a restore whose room ends as it writes in what it unpacked says that the disk is full, and leaves nothing", async (t) => {
  const disk = diskOf(t, 64);
  disk.fill();
  const ballast = join(disk.folder, "ballast");
  truncateSync(ballast, statSync(ballast).size - Math.ceil(statSync(file).size / 4_096) * 4_096 - 14 * 4_096); // SQLite's own files, and no more
  const { code, out } = await imprimatur(["restore", "--from", file, "--data", join(disk.folder, "node")]);
  expect([code, out]).toEqual([
    1,
    expect.stringMatching(/^imprimatur: .*node\.backup wasn't restored into .*node: database or disk is full\n$/),
  ]);
  expect(readdirSync(disk.folder)).toEqual(["ballast"]);
});

test("a folder that can't be looked into isn't called empty, and a copy that finds no room is named", async (t) => {
  const circle = join(root, "circle");
  symlinkSync(circle, circle);
  t.onTestFinished(() => rmSync(circle));
  expect(await imprimatur(["backup", "--to", join(root, "x")], env(circle))).toMatchObject({
    code: 1,
    out: expect.stringMatching(/^imprimatur: ELOOP: .*circle\/imprimatur\.db'\n$/),
  });
  const disk = diskOf(t, 1);
  writeFileSync(join(disk.folder, "ballast"), "x".repeat(900_000));
  const { code, out } = await imprimatur(["backup", "--to", join(disk.folder, "x")], env(dataDir));
  expect([code, out]).toEqual([1, expect.stringMatching(/^imprimatur: the copy .*\/x\..*\/imprimatur\.db can't be written: .*\n$/)]);
  expect(readdirSync(disk.folder)).toEqual(["ballast"]);
});

test("a backup that is told to end leaves no copy of the keys behind", async () => {
  let code: unknown = 0;
  for (let n = 0; n < 10 && code === 0; n += 1) {
    const folder = mkdtempSync(join(root, "ended-"));
    const child = spawn(process.execPath, ["cloud/backup.ts", "--to", join(folder, "x")], { env: { ...process.env, ...env(dataDir) } });
    const ended = once(child, "exit");
    await vi.waitUntil(() => readdirSync(folder).length > 0, { ...PATIENCE, interval: 1 });
    child.kill();
    [code] = await ended;
    if (code !== 0) expect(readdirSync(folder)).toEqual([]);
  }
  expect(code).toBe(143); // one that was done before it was told is no answer
});

test("a copy is of one moment, though others commit between its steps, and between them whoever tells it to end is heard", async () => {
  const [from, to] = [join(root, "grown.db"), join(root, "grown-copy.db")];
  cpSync(join(dataDir, "imprimatur.db"), from);
  const writer = new DatabaseSync(from);
  writer.exec("CREATE TABLE first (n INTEGER); INSERT INTO first VALUES (0); CREATE TABLE filling AS SELECT zeroblob(50000000) AS bytes");
  writer.exec("CREATE TABLE last (n INTEGER); INSERT INTO last VALUES (0)");
  let [turns, isOver] = [0, false];
  const commits = (async () => {
    for (; !isOver; turns += 1) {
      writer.exec(`BEGIN; UPDATE first SET n = ${turns}; UPDATE last SET n = ${turns}; COMMIT`);
      await setImmediate();
    }
  })();
  await copyDatabase(from, to).finally(() => (isOver = true));
  await commits;
  expect(turns).toBeGreaterThan(7);
  const copy = new DatabaseSync(to, { readOnly: true });
  expect(copy.prepare("SELECT first.n = last.n AS same FROM first, last").get()).toEqual({ same: 1 });
  expect(integrityFault(to)).toBeUndefined();
  for (const database of [writer, copy]) database.close();
  for (const made of readdirSync(root).filter((name) => name.startsWith("grown"))) rmSync(join(root, made));
});

test("a pipe isn't waited for, in which nobody may ever write a backup", async (t) => {
  const pipe = join(root, "pipe");
  if (spawnSync("mkfifo", [pipe]).status !== 0) return t.skip("there is no mkfifo here");
  for (const args of [
    ["backup", "--verify", pipe],
    ["restore", "--from", pipe, "--data", join(root, "from-a-pipe")],
  ])
    expect(await imprimatur(args)).toEqual({ code: 1, out: expect.stringContaining("is a pipe or a device, where a backup is a file") });
  rmSync(pipe);
});

test("a file of before that is put back by hand, twice, and said each time as the cloud has it said, gives out nothing twice", { timeout: 120_000 }, async () => {
  const [folder, database, old] = [join(root, "by-hand"), "imprimatur.db", join(root, "by-hand.db")];
  const first = await startCloud(env(folder));
  const shop = await printShop(worldOf(first));
  await shop.allocate(1); // from here on the row of its serials is the same
  await first.end();
  cpSync(join(folder, database), old);
  const goneOn = async (): Promise<string[]> => {
    const cloud = await startCloud(env(folder));
    const made = await as(cloud.url, shop.adminKey).post("/carriers/batch", { productId: shop.product.id, count: 1_000 }); // fewer than a restore leaves out for the time until the next one
    await cloud.end();
    return made.body.serials;
  };
  const given = await goneOn();
  for (const time of ["first", "second"]) {
    for (const name of readdirSync(folder).filter((one) => one.startsWith(database))) rmSync(join(folder, name));
    cpSync(old, join(folder, database));
    const refused = await imprimatur(["main"], env(folder));
    expect([refused.code, refused.out]).toEqual([1, expect.stringContaining("then imprimatur backup --to FILE, then imprimatur restore --from FILE --data DIR --force")]);
    const kept = join(root, `by-hand-${time}.backup`);
    expect((await imprimatur(["backup", "--to", kept], env(folder))).code).toBe(0);
    expect((await imprimatur(["restore", "--from", kept, "--data", folder, "--force"])).code).toBe(0);
    given.push(...(await goneOn()));
  }
  expect(new Set(given).size).toBe(given.length);
}); // oxfmt-ignore

test("a folder in which a node on PostgreSQL kept in mind how far its store went is a cloud's", async () => {
  const folder = mkdtempSync(join(root, "seen-"));
  writeFileSync(join(folder, "seen.json"), "{}");
  const { code, out } = await imprimatur(["restore", "--from", file, "--data", folder, "--force"]);
  expect([code, out]).toEqual([0, expect.stringContaining("what was there lies in")]);
  rmSync(folder, { recursive: true });
});

test("the commands say what is wrong with a backup in one line", async () => {
  const torn = put("torn", bytes().subarray(0, 100));
  const said = await imprimatur(["backup", "--verify", torn]);
  expect(said).toEqual({ code: 1, out: expect.stringMatching(/^imprimatur: .*torn can't be restored: it was cut off in its manifest\n$/) });
});

test.each([
  [["backup", "--to", "x", "--verify", "y"], 2, "one of --to and --verify is needed (usage: imprimatur backup"],
  [["backup"], 2, "one of --to and --verify is needed"],
  [["backup", "--to"], 2, "usage: imprimatur backup"],
  [["backup", "--to", ""], 2, "--to has nothing behind it (usage: imprimatur backup"],
  [["backup", "--to", "package.json/x"], 1, "package.json is a file where a folder has to be"],
  [["restore", "--from=", "--data", "/dev/null"], 2, "--from has nothing behind it"],
  [["restore", "--from", "x", "--too", "y"], 2, "did you mean"],
  [["restore", "--from", "x"], 2, "--data is missing (usage: imprimatur restore"],
  [["restore", "--from", "/", "--data", "/proc/none"], 1, "mkdir '/proc/none'"],
  [["restore", "--from", "/", "--data", "/dev/null"], 1, "/dev/null is a file where a folder has to be"],
  [["backup", "--verify", "/"], 1, "it is a folder, where a backup is a file"],
])("%j ends with %i and one line: %s", async (args, code, says) => {
  const said = await imprimatur(args);
  expect(said).toEqual({ code, out: expect.stringMatching(/^imprimatur: [^\n]*\n$/) });
  expect(said.out).toContain(says);
});

test.each([["main", "cloud"], ["backup"], ["restore"], ["doctor"], ["verify"], ["../agent/main", "agent"]])(
  "%s --help says how it is used, and does nothing",
  async (file, name = file) => {
    expect(await imprimatur([file, "--help"])).toEqual({ code: 0, out: expect.stringMatching(new RegExp(`^usage: imprimatur ${name} `)) });
  },
);
