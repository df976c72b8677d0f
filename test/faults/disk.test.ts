// The disk fails in every way that a disk can: full for a while, full for real, broken in a write, broken in a sync. Nothing is answered that isn't kept.
import { mkdirSync, readdirSync, renameSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, expect, test } from "vitest";
import { writeDurably } from "../../cloud/files.ts";
import { type Answer, client } from "../../fixtures/client.ts";
import { cloudSettings, startProgram } from "../../fixtures/program.ts";
import { straceMissing, tamper } from "../../fixtures/strace.ts";
import { smallDisk } from "../../fixtures/tmpfs.ts";
import { freshFolder } from "../endings.ts";

const adminKey = "a-key-for-the-disk-test-0001";

async function cloudIn(folder: string) {
  const program = await startProgram("cloud/main.ts", cloudSettings(folder, adminKey, { IMPRIMATUR_LOG_LEVEL: "fatal" }));
  const admin = client(() => program.url, { authorization: `Bearer ${adminKey}` });
  const kept: string[] = [];
  let n = 0;
  return {
    program,
    admin,
    kept,
    file: join(folder, "imprimatur.db"),
    /** Writes; what was answered well is noted. */
    write: async (): Promise<Answer> => {
      const name = `n${(n += 1)}`;
      const answer = await admin.post("/oauth/clients", { name, scopes: ["aidc:read"] });
      if (answer.status === 201) kept.push(name);
      return answer;
    },
  };
}
const refusal = ({ status, body, headers }: Answer) => [status, body.error?.code, headers.get("retry-after")];
const REFUSED = [503, "STORE_UNAVAILABLE", "1"];

/** What was answered and isn't in the file, which has to be whole. */
function missingIn({ file, kept }: { file: string; kept: readonly string[] }): string[] {
  const rows = new Database(file);
  expect(rows.pragma("integrity_check", { simple: true })).toBe("ok");
  const there = new Set(rows.prepare("SELECT name FROM oauth_clients").pluck().all());
  rows.close();
  return kept.filter((name) => !there.has(name));
}

/** There is room again: the same process writes, and of all that it ever answered nothing is missing. */
async function goesOn(cloud: Awaited<ReturnType<typeof cloudIn>>): Promise<void> {
  expect((await cloud.write()).status).toBe(201);
  expect((await cloud.admin.get("/audit-logs/verify")).body.valid).toBe(true);
  expect(await cloud.program.end()).toBe(0);
  expect(missingIn(cloud)).toEqual([]);
}

test.skipIf(straceMissing)(
  "no room in the middle of commits: 503 each, reads go on, and the same process goes on when there is room",
  { timeout: 60_000 },
  async () => {
    const cloud = await cloudIn(freshFolder("disk"));
    for (let i = 0; i < 5; i += 1) expect((await cloud.write()).status).toBe(201);
    const full = await tamper(cloud.program.pid, { file: `${cloud.file}-wal`, inject: "pwrite64:error=ENOSPC:when=3+5" });
    const answers: Answer[] = [];
    for (let i = 0; i < 12; i += 1) answers.push(await cloud.write());
    const refused = answers.filter(({ status }) => status !== 201);
    expect(refused.length).toBeGreaterThan(2);
    for (const answer of refused) expect(refusal(answer)).toEqual(REFUSED);
    expect((await cloud.admin.get("/oauth/clients")).body.data.length).toBeGreaterThanOrEqual(5);
    expect((await cloud.admin.get("//healthz")).status).toBe(200);
    await full.letGo();
    await goesOn(cloud);
  },
);

test.skipIf(straceMissing).each([
  ["a write of a commit", "-wal", "pwrite64:error=EIO:when=4"],
  ["the sync of a commit", "-wal", "fsync:error=EIO:when=2"],
])("%s that fails with EIO isn't answered well; all that was is there after a restart", async (_what, suffix, inject) => {
  const folder = freshFolder("disk");
  const cloud = await cloudIn(folder);
  expect((await cloud.write()).status).toBe(201);
  await tamper(cloud.program.pid, { file: cloud.file + suffix, inject });
  let last: number = 201;
  for (let i = 0; i < 20 && last === 201; i += 1)
    last = await cloud.write().then(
      ({ status }) => status,
      () => 0,
    );
  expect(last).not.toBe(201);
  expect(await cloud.program.ended).toBe(74); // the kernel may have dropped the pages: what it says next would be a guess
  expect(cloud.program.complaints()).toContain("disk can't be trusted");
  const next = await cloudIn(folder);
  expect((await next.write()).status).toBe(201);
  await next.program.end();
  expect(missingIn(cloud)).toEqual([]);
});

test.skipIf(straceMissing).each([
  ["a sync that fails", "fsync:error=EIO:when=1", 74],
  ["a write that fails", "pwrite64:error=EIO:when=2", 74],
  ["no room", "pwrite64:error=ENOSPC:when=2", 0],
])("in the last checkpoint, %s loses nothing: it all stands in the log", async (_what, inject, code) => {
  const cloud = await cloudIn(freshFolder("disk"));
  for (let i = 0; i < 10; i += 1) expect((await cloud.write()).status).toBe(201);
  await tamper(cloud.program.pid, { file: cloud.file, inject });
  expect(await cloud.program.end()).toBe(code);
  expect(missingIn(cloud)).toEqual([]);
  expect(cloud.kept).toHaveLength(10);
});

/** A server of notes on our store that works off its log every forty pages. */
async function notesIn(folder: string) {
  const program = await startProgram("fixtures/unsafe-cloud.ts", {
    CONTROL_FOLDER: folder,
    CONTROL_SYNCHRONOUS: "FULL",
    CONTROL_CHECKPOINT: "40",
  });
  const api = client(() => program.url);
  const write = async (count: number) => {
    for (let i = 0; i < count; i += 1) expect((await api.post(`//note-${i}`)).status).toBe(201);
  };
  return { program, write };
}

test.skipIf(straceMissing)("a sync that fails in the thread beside the writer is heard as one of the writer's own", async () => {
  const folder = freshFolder("disk");
  const { program, write } = await notesIn(folder);
  await tamper(program.pid, { file: join(folder, "control.db"), inject: "fsync:error=EIO:when=1" });
  await write(60);
  await expect.poll(() => program.complaints()).toMatch(/a checkpoint couldn't be made durable \((EIO|SQLITE_IOERR_FSYNC)\)/);
  await program.end("SIGKILL");
});

test("where the thread can't do it, the writer works off its log alone", async () => {
  const folder = freshFolder("disk");
  const { program, write } = await notesIn(folder);
  const moved = join(folder, "moved.db");
  renameSync(join(folder, "control.db"), moved); // who has it open still has it
  const before = statSync(moved).size;
  const after = async () => {
    await write(40);
    return statSync(moved).size;
  };
  await expect.poll(after, { timeout: 20_000 }).toBeGreaterThan(before);
  expect(program.complaints()).toMatch(/a checkpoint beside the writer failed/);
  await program.end("SIGKILL");
});

const disk = smallDisk(24);
afterAll(() => typeof disk === "string" || disk.end());
if (typeof disk === "string") process.stdout.write(`skipped: ${disk}; the test of a disk that is really full needs one\n`);

test.skipIf(typeof disk === "string")("a key that doesn't fit on the disk leaves nothing of itself there", () => {
  const small = disk as Exclude<typeof disk, string>;
  const folder = join(small.folder, "keys");
  mkdirSync(folder);
  small.fill();
  try {
    expect(() => writeDurably(join(folder, "seal.key"), "k".repeat(9_000))).toThrow("ENOSPC");
    expect(readdirSync(folder)).toEqual([]);
  } finally {
    small.free();
  }
});

test.skipIf(typeof disk === "string")("a start on a disk without room says how much there is, and what to do", async () => {
  if (typeof disk === "string") return;
  disk.fill();
  truncateSync(join(disk.folder, "ballast"), statSync(join(disk.folder, "ballast")).size - 32_768);
  await expect(cloudIn(join(disk.folder, "first"))).rejects.toThrow(
    /can't start: .*(disk I\/O error|database or disk is full); \d+ kB are free under .*first: make room, or see IMPRIMATUR_DATA_DIR/,
  );
  rmSync(join(disk.folder, "first"), { recursive: true });
  disk.free();
});

test.skipIf(typeof disk === "string")(
  "a disk that is really full: 503 each, reads go on, and writes too once there is room, without a restart",
  async () => {
    if (typeof disk === "string") return;
    const cloud = await cloudIn(join(disk.folder, "data"));
    expect((await cloud.write()).status).toBe(201);
    disk.fill();
    const answers: Answer[] = [];
    for (let i = 0; i < 40; i += 1) answers.push(await cloud.write());
    expect(refusal(answers.at(-1) as Answer)).toEqual(REFUSED);
    for (const answer of answers) if (answer.status !== 201) expect(refusal(answer)).toEqual(REFUSED);
    expect((await cloud.admin.get("/tenant")).status).toBe(200);
    expect((await cloud.admin.get("//healthz")).status).toBe(200);
    disk.free();
    await goesOn(cloud);
  },
);

test.skipIf(straceMissing)(
  "the control: a server that answers before the commit says 201 to a full disk, and the check finds what isn't there",
  async () => {
    const folder = freshFolder("disk");
    const lost = async (answer: string) => {
      const server = await startProgram("fixtures/unsafe-cloud.ts", {
        CONTROL_FOLDER: folder,
        CONTROL_SYNCHRONOUS: "FULL",
        CONTROL_ANSWER: answer,
      });
      await tamper(server.pid, { file: join(folder, "control.db-wal"), inject: "pwrite64:error=ENOSPC:when=3+" });
      const kept: string[] = [];
      for (let i = 0; i < 10; i += 1) {
        const note = `/${answer}-${i}`;
        if ((await client(() => server.url).post(`/${note}`)).status === 201) kept.push(note);
      }
      await server.end();
      const rows = new Database(join(folder, "control.db"));
      const there = new Set(rows.prepare("SELECT text FROM notes").pluck().all());
      rows.close();
      return kept.filter((text) => !there.has(text)).length;
    };
    expect(await lost("after")).toBe(0);
    expect(await lost("early")).toBeGreaterThan(0);
  },
);
