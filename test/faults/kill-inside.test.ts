// SIGKILL where it hurts most: in the middle of a commit, of a checkpoint, of a migration. What was answered is there, what wasn't is there whole or not at all.
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { client } from "../../fixtures/client.ts";
import { random } from "../../fixtures/random.ts";
import { cloudSettings, startProgram } from "../../fixtures/program.ts";
import { straceMissing, tamper, tamperingArgs } from "../../fixtures/strace.ts";
import { migrationsIn } from "../../cloud/store/migrate.ts";
import { freshFolder } from "../endings.ts";
import { size, timeout } from "./size.ts";

const WRITERS = 8;
const adminKey = "a-key-for-the-kill-test-0002";

/** Asks until the server is gone: which keys were answered well, and which never. */
async function askUntilDead(ask: (key: string) => Promise<number>, name: string) {
  const [answered, unknown]: [string[], string[]] = [[], []];
  let alive = true;
  const writer = async (n: number) => {
    for (let i = 0; alive; i += 1) {
      const key = `${name}-${n}-${i}`;
      const status = await ask(key).catch(() => 0);
      if (status === 201) answered.push(key);
      else if (status === 0) unknown.push(key);
      if (status === 0) alive = false;
    }
  };
  await Promise.all(Array.from({ length: WRITERS }, (_, n) => writer(n)));
  return { answered, unknown };
}

const IN_COMMIT = [
  ["pwrite64", 1],
  ["fsync", 1],
  ["pwrite64", 2],
  ["fsync", 5],
  ["pwrite64", 23],
  ["fsync", 9],
  ["pwrite64", 97],
  ["fsync", 14],
] as const;
/** Anywhere else, by chance; the pages of a commit come by the dozen, its syncs one by one. */
function* anywhere(count: number) {
  const chance = random(SEED);
  for (let i = 0; i < count; i += 1) {
    const call = chance() < 0.5 ? "pwrite64" : "fsync";
    yield [call, 1 + Math.floor(chance() * (call === "fsync" ? 40 : 300))] as const;
  }
}
const SEED = Number(process.env["CHAOS_SEED"] ?? 1);
const AT_THE_END = [
  ["pwrite64", 1],
  ["pwrite64", 20],
  ["fsync", 1],
] as const;

test.skipIf(straceMissing)(
  "killed inside commits and inside the last checkpoint, the cloud keeps all that it answered and half of nothing",
  { timeout: timeout(180_000) },
  async () => {
    const folder = freshFolder("kill");
    const env = cloudSettings(folder, adminKey, { IMPRIMATUR_LOG_LEVEL: "warn" });
    const file = join(folder, "imprimatur.db");
    let cloud = await startProgram("cloud/main.ts", env);
    const admin = client(() => cloud.url, { authorization: `Bearer ${adminKey}` });
    const make = (key: string) => admin.post("/oauth/clients", { name: key, scopes: ["aidc:read"] }, { "idempotency-key": key });
    const [answered, unknown]: [string[], string[]] = [[], []];
    for (const [call, when] of [...IN_COMMIT, ...anywhere(size(0, 100))]) {
      await tamper(cloud.pid, { file: `${file}-wal`, inject: `${call}:signal=KILL:when=${when}` });
      const heard = await askUntilDead(async (key) => (await make(key)).status, `${call}-${when}-${answered.length}`);
      answered.push(...heard.answered);
      unknown.push(...heard.unknown);
      expect(await cloud.ended).toBe("SIGKILL");
      cloud = await startProgram("cloud/main.ts", env);
    }
    for (const [call, when] of AT_THE_END) {
      for (let i = 0; i < 20; i += 1) {
        const key = `end-${call}-${when}-${i}`;
        expect((await make(key)).status).toBe(201);
        answered.push(key);
      }
      await tamper(cloud.pid, { file, inject: `${call}:signal=KILL:when=${when}` });
      expect(await cloud.end()).toBe("SIGKILL");
      cloud = await startProgram("cloud/main.ts", env);
    }
    expect([answered.length, unknown.length]).toEqual([expect.toSatisfy((n) => n > 60), expect.toSatisfy((n) => n > 0)]);
    for (const key of answered) expect((await make(key)).headers.get("idempotency-replayed")).toBe("true");
    for (const key of unknown) expect((await make(key)).status).toBe(201); // there or not: the same key gives the one true answer
    const rows = new Database(file, { readonly: true });
    const count = (table: string) => rows.prepare(`SELECT count(*) FROM ${table}`).pluck().get();
    expect(count("oauth_clients")).toBe(answered.length + unknown.length);
    expect(count("audit_log WHERE action = 'auth.client_created'")).toBe(answered.length + unknown.length);
    rows.close();
    expect((await admin.get("/audit-logs/verify")).body.valid).toBe(true);
    await cloud.end();
  },
);

test.skipIf(straceMissing)(
  "killed inside any migration, none of them ran, and the next start begins anew",
  { timeout: 120_000 },
  async () => {
    const all = migrationsIn().length;
    const folder = freshFolder("kill");
    const file = join(folder, "imprimatur.db");
    const env = cloudSettings(folder, adminKey);
    const applied: number[] = [];
    for (const when of [30, 100, 200]) {
      const under = ["strace", "-f", ...tamperingArgs({ file: `${file}-wal`, inject: `pwrite64:signal=KILL:when=${when}` })];
      await expect(startProgram("cloud/main.ts", env, under)).rejects.toThrow(/ended before it was ready/);
      const rows = new Database(file);
      expect(rows.pragma("integrity_check", { simple: true })).toBe("ok");
      const isMade = rows.prepare("SELECT 1 FROM sqlite_master WHERE name = 'migrations'").get() !== undefined;
      applied.push(isMade ? (rows.prepare("SELECT count(*) FROM migrations").pluck().get() as number) : 0);
      rows.close();
    }
    expect(applied).toEqual([0, 0, 0]);
    const cloud = await startProgram("cloud/main.ts", env);
    expect((await client(() => cloud.url, { authorization: `Bearer ${adminKey}` }).get("/tenant")).status).toBe(200);
    await cloud.end();
    const rows = new Database(file, { readonly: true });
    expect(rows.prepare("SELECT count(*) FROM migrations").pluck().get()).toBe(all);
    rows.close();
  },
);

/** Kills a server of notes on our store at each of the points, one after another in one folder: what was answered and isn't there. */
async function lostNotes(env: Record<string, string>, points: readonly (readonly [file: string, call: string, when: number])[]) {
  const folder = freshFolder("kill");
  const answered: string[] = [];
  for (const [file, call, when] of points) {
    const server = await startProgram("fixtures/unsafe-cloud.ts", { CONTROL_SYNCHRONOUS: "FULL", CONTROL_FOLDER: folder, ...env });
    await tamper(server.pid, { file: join(folder, file), inject: `${call}:signal=KILL:when=${when}` });
    const api = client(() => server.url);
    const note = (key: string) => `/${file}-${call}-${when}-${key}`;
    const heard = await askUntilDead(async (key) => (await api.post(`/${note(key)}`)).status, "n");
    answered.push(...heard.answered.map(note));
    expect(await server.ended).toBe("SIGKILL");
  }
  const rows = new Database(join(folder, "control.db"));
  expect(rows.pragma("integrity_check", { simple: true })).toBe("ok");
  const there = new Set(rows.prepare("SELECT text FROM notes").pluck().all());
  rows.close();
  return { answered: answered.length, lost: answered.filter((key) => !there.has(key)).length };
}

test.skipIf(straceMissing)("killed inside checkpoints under load, nothing answered is lost", { timeout: 90_000 }, async () => {
  // The thread writes and syncs the database first, the writer what came meanwhile; each counts its own calls.
  const points = (["pwrite64", "fsync"] as const).flatMap((call) => [1, 2, 4, 9].map((when) => ["control.db", call, when] as const));
  const { answered, lost } = await lostNotes({ CONTROL_CHECKPOINT: "40" }, points);
  expect(lost).toBe(0);
  expect(answered).toBeGreaterThan(120);
});

test.skipIf(straceMissing)(
  "the control: a server that answers before the commit loses answered writes to the same kills",
  { timeout: 60_000 },
  async () => {
    const points = [3, 9, 21].map((when) => ["control.db-wal", "pwrite64", when] as const);
    expect((await lostNotes({}, points)).lost).toBe(0);
    expect((await lostNotes({ CONTROL_ANSWER: "early" }, points)).lost).toBeGreaterThan(0);
  },
);
