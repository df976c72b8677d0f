// No answer leaves before its fsync, seen from outside with strace; synchronous=NORMAL is the control that must fail.
import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { sql } from "drizzle-orm";
import { expect, test } from "vitest";
import { client } from "../../fixtures/client.ts";
import { settingsFile, startFloor } from "../../fixtures/floor.ts";
import { printShop } from "../../fixtures/print-shop.ts";
import { startProgram } from "../../fixtures/program.ts";
import { startWorld } from "../../fixtures/world.ts";
import { connect, durabilityFaults } from "../../cloud/store/sqlite.ts";
import { sealed } from "../agent/floor.ts";
import { freshFolder } from "../endings.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const traces = spawnSync("strace", ["-c", "-o", "/dev/null", "true"]).status === 0;
if (!traces) process.stdout.write("skipped: strace isn't here or may not trace; the tests that watch fsync need it\n");

/** Answers with 201 that left without an fsync finished since the answer before them, among all of them. */
function early(trace: string): { answers: number; early: number } {
  let synced = false;
  let answers = 0;
  let count = 0;
  for (const line of trace.split("\n")) {
    if (/(fsync|fdatasync)(\(| resumed).*= 0/.test(line)) synced = true;
    if (!/HTTP\/1\.1 201/.test(line)) continue;
    answers += 1;
    if (!synced) count += 1;
    synced = false; // one caller, one request at a time: each answer needs an fsync of its own
  }
  return { answers, early: count };
}

async function traced(
  file: string,
  env: Record<string, string>,
  load: (url: string) => Promise<void>,
): Promise<{ answers: number; early: number }> {
  const folder = freshFolder("trace");
  const out = join(folder, "trace");
  const program = await startProgram(file, { ...env, IMPRIMATUR_DATA_DIR: folder, CONTROL_FOLDER: folder }, [
    "strace",
    "-f",
    "-s",
    "40",
    "-e",
    "trace=fsync,fdatasync,write,writev,sendto,sendmsg",
    "-o",
    out,
  ]);
  await load(program.url);
  await program.end("SIGKILL");
  return early(readFileSync(out, "utf8"));
}

const adminKey = "a-key-for-the-fsync-test-001";
const settings = { IMPRIMATUR_PORT: "0", IMPRIMATUR_BOOTSTRAP_KEY: adminKey, IMPRIMATUR_RATE_LIMIT: "off" };
const ANSWERS = 100;

test.skipIf(!traces)("no 201 of the cloud leaves before its fsync", async () => {
  const seen = await traced("cloud/main.ts", settings, async (url) => {
    const admin = client(() => url, { authorization: `Bearer ${adminKey}` });
    for (let i = 0; i < ANSWERS; i += 1)
      expect((await admin.post("/oauth/clients", { name: "x", scopes: ["aidc:read"] })).status).toBe(201);
  });
  expect(seen).toEqual({ answers: ANSWERS, early: 0 });
});

const load = async (url: string) => {
  const nobody = client(() => url);
  for (let i = 0; i < ANSWERS; i += 1) await nobody.post("//");
};

test.skipIf(!traces)("the control: with synchronous=NORMAL they do, so the test can fail", async () => {
  const full = await traced("fixtures/unsafe-cloud.ts", { CONTROL_SYNCHRONOUS: "FULL" }, load);
  expect(full).toEqual({ answers: ANSWERS, early: 0 });
  const normal = await traced("fixtures/unsafe-cloud.ts", { CONTROL_SYNCHRONOUS: "NORMAL" }, load);
  expect(normal.early).toBeGreaterThan(ANSWERS / 2);
});

/** Labels that left although nothing was synced in the station's buffer since the one before; how many times it was synced. */
function unwritten(trace: string): { labels: number; early: number; syncs: number } {
  const seen = { labels: 0, early: 0, syncs: 0 };
  let synced = false;
  for (const line of trace.split("\n")) {
    if (/(fsync|fdatasync)\(\d+<[^>]*station\.db-wal>/.test(line)) {
      synced = true;
      seen.syncs += 1;
    }
    if (!/writev?\(\d+<(socket|TCP)[^>]*>.*\^GF/.test(line)) continue;
    seen.labels += 1;
    if (!synced) seen.early += 1;
    synced = false;
  }
  return seen;
}

test.skipIf(!traces)("no label leaves a station before its intent is synced, and each of its reports is", async (t) => {
  const world = await startWorld();
  t.onTestFinished(() => world.end());
  const shop = await printShop(world);
  const floor = await startFloor(world.url, shop.device.secret);
  t.onTestFinished(floor.end);
  const [file, trace] = [settingsFile(floor), join(floor.folder, "trace")];
  const under = ["strace", "-f", "-y", "-s", "400", "-e", "trace=fsync,fdatasync,write,writev", "-o", trace];
  const agent = await startProgram("agent/main.ts", {}, under, ["--config", file]);
  for (let i = 0; i < 3; i += 1) await sealed(shop, (await shop.issue()).job_ref);
  await agent.end("SIGKILL");
  const { labels, early, syncs } = unwritten(readFileSync(trace, "utf8"));
  expect([labels, early]).toEqual([3, 0]);
  expect(syncs).toBeGreaterThan(3 * 5); // claimed, drawn, begun, sent, attested, sealed
});

test.skipIf(!traces)("a failed fsync ends the process with a clear line, and the write it was for isn't answered", async () => {
  const folder = freshFolder("eio");
  const env = { ...settings, IMPRIMATUR_DATA_DIR: folder };
  await (await startProgram("cloud/main.ts", env)).end(); // the tables are there: the start that counts has little to write
  const cloud = await startProgram("cloud/main.ts", env, [
    "strace",
    "-f",
    "-o",
    join(folder, "trace"),
    "-e",
    "trace=fsync,fdatasync",
    "-e",
    "inject=fsync,fdatasync:error=EIO:when=20+",
  ]);
  const admin = client(() => cloud.url, { authorization: `Bearer ${adminKey}` });
  let last = 201;
  for (let i = 0; i < 60 && last === 201; i += 1)
    last = await admin.post("/oauth/clients", { name: "x", scopes: ["aidc:read"] }).then(
      ({ status }) => status,
      () => 0,
    );
  expect(last).not.toBe(201);
  expect(await cloud.ended).toBe(74);
  expect(cloud.complaints()).toMatch(/disk can't be trusted/);
});

test("what durability rests on is asserted: each missing part is named", () => {
  const folder = freshFolder("faults");
  const writer = connect(join(folder, "a.db"), "write");
  const reader = connect(join(folder, "a.db"), "read");
  expect(durabilityFaults(writer, reader)).toEqual([]);
  reader.pragma("synchronous = NORMAL");
  writer.pragma("foreign_keys = OFF");
  expect(durabilityFaults(writer, reader).join()).toMatch(/writing connection doesn't enforce.*reading connection has synchronous=1/);
  writer.close();
  reader.close();
  const old = new Database(join(folder, "b.db"));
  expect(durabilityFaults(old, old).join()).toMatch(/journal_mode=delete/);
  old.close();
});

test("the WAL is worked off by its size: a hundred units of a megabyte each leave it small", async () => {
  const dataDir = freshFolder("wal");
  const world = await startWorld({ dataDir });
  const megabyte = "x".repeat(1_048_576);
  const insert = (n: number) => sql`INSERT INTO signing_keys (kid, public_jwk, created_at) VALUES (${`k${n}`}, ${megabyte}, 1)`;
  for (let n = 0; n < 100; n += 1) await world.store.write("large", async ({ db }) => void (await db.run(insert(n))));
  expect(statSync(join(dataDir, "imprimatur.db-wal")).size).toBeLessThan(52 * 1_048_576);
  await world.end();
});

test("a program that has nothing else to do closes its store whole while the thread is at work", () => {
  const folder = freshFolder("wal");
  const program = `
    import { openSqlite } from "./cloud/store/sqlite.ts";
    const engine = openSqlite({ file: ${JSON.stringify(join(folder, "a.db"))}, onFatal: console.error, walFrames: 40 });
    await engine.script("CREATE TABLE a (x TEXT)");
    for (let i = 0; i < 60; i += 1) await engine.transact("write", ({ execute }) => execute("INSERT INTO a VALUES (?)", ["x".repeat(9_000)], "run"), false);
    await engine.close();
    console.log("closed");`;
  const { stdout, status } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8", cwd: root });
  expect([stdout.trim(), status]).toEqual(["closed", 0]);
});

test("a full disk is a 503 with Retry-After, reads go on, and it recovers without a restart", async () => {
  const world = await startWorld();
  const pages = (count: number) => world.store.write("pages", async ({ db }) => void (await db.values(`PRAGMA max_page_count = ${count}`)));
  await pages(1);
  let full = await world.admin.post("/oauth/clients", { name: "x".repeat(190), scopes: ["aidc:read"] });
  for (let i = 0; i < 200 && full.status === 201; i += 1)
    full = await world.admin.post("/oauth/clients", { name: "x".repeat(190), scopes: ["aidc:read"] });
  expect([full.status, full.body.error.code, full.headers.get("retry-after")]).toEqual([503, "STORE_UNAVAILABLE", "1"]);
  expect((await world.admin.get("/tenant")).status).toBe(200);
  await pages(1_000_000);
  expect((await world.admin.post("/oauth/clients", { name: "x", scopes: ["aidc:read"] })).status).toBe(201);
  await world.end();
});
