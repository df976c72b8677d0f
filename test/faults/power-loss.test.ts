// The power fails at any moment: of what wasn't synced any part may be missing, in any order, torn; the database is whole and holds all that was answered.
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { basename, join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { client } from "../../fixtures/client.ts";
import { actsIn, disk } from "../../fixtures/power.ts";
import { startProgram } from "../../fixtures/program.ts";
import { random } from "../../fixtures/random.ts";
import { record, straceMissing } from "../../fixtures/strace.ts";
import { startWorld } from "../../fixtures/world.ts";
import { freshFolder } from "../endings.ts";

const SEED = 20_261_121;
const IMAGES = 240;
const WRITERS = 4;
const ANSWERS = 60;
const MANY_ANSWERS = 240;
const TRIES = 5;
const root = freshFolder("power");

type Recorded = { folder: string; base: string; trace: string; database: string };

/** Runs a server, and once it is ready writes down all that it does to its database and says to its clients, to its orderly end. */
async function recorded(
  program: string,
  database: string,
  env: Record<string, string>,
  ask: (url: string, key: string) => Promise<number>,
  answers = ANSWERS,
) {
  const folder = mkdtempSync(join(root, "run-"));
  const base = mkdtempSync(join(root, "base-"));
  const all = { ...env, IMPRIMATUR_DATA_DIR: folder, CONTROL_FOLDER: folder };
  await (await startProgram(program, all)).end(); // the tables are made
  const server = await startProgram(program, all);
  const trace = join(base, "trace");
  await record(server.pid, trace);
  // Watched first and copied then: what is written in between is done to the copy once more, and changes nothing.
  for (const file of [database, `${database}-wal`]) copyFileSync(join(folder, file), join(base, file));
  const write = async (n: number) => {
    for (let i = 0; i < answers / WRITERS; i += 1) expect(await ask(server.url, `k${n}-${i}`)).toBe(201);
  };
  await Promise.all(Array.from({ length: WRITERS }, (_, n) => write(n)));
  await server.end();
  return { folder, base, trace, database };
}

/** Cuts the power at chosen moments, in three ways each; says what was found wrong and how often it looked. */
function cutPower({ folder, base, trace, database }: Recorded, noteIn: RegExp, namesIn: (rows: Database.Database) => unknown[]) {
  const acts = actsIn(trace);
  const chance = random(SEED);
  const image = mkdtempSync(join(root, "image-"));
  const platter = disk(Object.fromEntries([database, `${database}-wal`].map((file) => [join(folder, file), join(base, file)])));
  const answered = new Set<string>();
  const wrong: string[] = [];
  const share = IMAGES / 3 / acts.length;
  let looks = 0;
  for (const [moment, act] of acts.entries()) {
    platter.happen(act);
    if (act.do === "say") for (const [, name = ""] of act.text.matchAll(noteIn)) answered.add(name);
    if (chance() > share && moment !== acts.length - 1) continue;
    for (const loss of ["all", "none", "some"] as const) {
      looks += 1;
      platter.lose(loss, chance, (file) => join(image, basename(file)));
      rmSync(join(image, `${database}-shm`), { force: true });
      const rows = new Database(join(image, database));
      const verdict = rows.pragma("integrity_check", { simple: true });
      const there = new Set(verdict === "ok" ? namesIn(rows) : []);
      rows.close();
      const lost = [...answered].filter((name) => !there.has(name));
      if (verdict !== "ok" || lost.length > 0)
        wrong.push(`at ${moment}, ${loss} of it lost: ${String(verdict)}, ${lost.length} answers gone`);
    }
  }
  return { wrong, looks, answered: answered.size, image };
}

const adminKey = "a-key-for-the-power-test-001";
const settings = { IMPRIMATUR_BOOTSTRAP_KEY: adminKey, IMPRIMATUR_RATE_LIMIT: "off", IMPRIMATUR_LOG_LEVEL: "error" };

test.skipIf(straceMissing)(
  "whenever the power fails, the cloud's database is whole, holds every answer, and its audit chain verifies",
  { timeout: 120_000 },
  async () => {
    const ask = async (url: string, name: string) =>
      (await client(() => url, { authorization: `Bearer ${adminKey}` }).post("/oauth/clients", { name, scopes: ["aidc:read"] })).status;
    const env = { ...settings, IMPRIMATUR_PORT: "0", IMPRIMATUR_MQTT_PORT: "0" };
    const run = await recorded("cloud/main.ts", "imprimatur.db", env, ask);
    const names = (rows: Database.Database) => rows.prepare("SELECT name FROM oauth_clients").pluck().all();
    const { wrong, looks, answered, image } = cutPower(run, /"name":"(k[\d-]+)"/g, names);
    expect(wrong).toEqual([]);
    expect([looks > IMAGES / 2, answered]).toEqual([true, ANSWERS]);
    const world = await startWorld({ dataDir: image }); // the last image of all: what a machine wakes up with
    expect((await world.admin.get("/audit-logs/verify")).body).toMatchObject({ valid: true });
    await world.end();
  },
);

const askControl = async (url: string, name: string) => (await client(() => url).post(`//${name}`)).status;
const NOTED = /x-note: \/(k[\d-]+)/gi;
const notes = (rows: Database.Database) => rows.prepare("SELECT substr(text, 2) FROM notes").pluck().all();

/** That wrote to the database. */
function threadsIn({ folder, database, trace }: Recorded): number {
  const spelled = Buffer.from(join(folder, database)).toString("hex").replaceAll(/../g, "\\x$&"); // as strace does
  const lines = readFileSync(trace, "latin1").split("\n");
  return new Set(lines.filter((line) => line.includes(`<${spelled}>`)).map((line) => line.split(" ")[0])).size;
}

test.skipIf(straceMissing)("nor is anything lost while a thread works off the log beside the writer", { timeout: 90_000 }, async () => {
  const env = { CONTROL_SYNCHRONOUS: "FULL", CONTROL_CHECKPOINT: "40" };
  const once = () => recorded("fixtures/unsafe-cloud.ts", "control.db", env, askControl, MANY_ANSWERS);
  let run = await once();
  for (let tries = 1; threadsIn(run) < 2 && tries < TRIES; tries += 1) run = await once(); // on a busy machine its turn may not have come
  expect(threadsIn(run)).toBe(2);
  expect(cutPower(run, NOTED, notes)).toMatchObject({ wrong: [], answered: MANY_ANSWERS });
});

test.skipIf(straceMissing)(
  "the control: with synchronous=NORMAL the same cuts lose answers, with FULL none",
  { timeout: 90_000 },
  async () => {
    const lost = async (synchronous: string) => {
      const run = await recorded("fixtures/unsafe-cloud.ts", "control.db", { CONTROL_SYNCHRONOUS: synchronous }, askControl);
      return cutPower(run, NOTED, notes);
    };
    expect(await lost("FULL")).toMatchObject({ wrong: [], answered: ANSWERS });
    expect((await lost("NORMAL")).wrong.join("\n")).toMatch(/ok, [1-9]\d* answers gone/);
  },
);
