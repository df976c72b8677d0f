// Bringing a backup back: unpacked and checked beside what is there, and only then put in its place, with a mark against a restore that was cut off.
import { existsSync, lchownSync, mkdirSync, readdirSync, renameSync, rmdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Logger } from "pino";
import { parseNote } from "#shared/note.ts";
import type { Config } from "../config.ts";
import { chainIds, lastInstant } from "../domain/audit.ts";
import { sizeNow as sizeOfLog } from "../domain/log.ts";
import { afterRestore, type GivenOut, givenOut, openStatesOf, warnOfJobs, warnOfSerials } from "../domain/restored.ts";
import { makeFolder, syncFolder, writeDurably } from "../files.ts";
import { lastSeen, SEEN } from "../seen-store.ts";
import { claimFolder, CUT_OFF, DATABASE, openStore, openToLook, refuseWhileUsed, UNPACKED } from "../store/open.ts";
import type { Store } from "../store/store.ts";
import { headLine } from "../verify/log.ts";
import { type Manifest, unpack } from "./archive.ts";
import { inspect, type Inspected } from "./inspect.ts";
import { inScratch } from "./scratch.ts";

/** Unpacks into a folder and holds everything against everything; throws what doesn't fit. */
async function checked(from: string, folder: string, log: Logger): Promise<Manifest> {
  const manifest = await unpack(from, folder);
  const found = await inspect(join(folder, DATABASE), log);
  for (const part of ["migration", "audit"] as const)
    if (JSON.stringify(found[part]) !== JSON.stringify(manifest[part])) throw new Error(`its manifest and its database disagree: ${part}`);
  refuseOtherHead(manifest, found);
  return manifest;
}

function refuseOtherHead({ log: { size, root, checkpoint } }: Manifest, found: Inspected): void {
  const note = parseNote(checkpoint);
  const same = (head: { size: number; root: string } | undefined) => head?.size === found.log.size && head.root === found.log.root;
  if (!note || !same({ size, root }) || !same({ size: note.head.size, root: note.head.root.toString("hex") }))
    throw new Error(`its log has ${found.log.size} leaves and the root ${found.log.root.slice(0, 16)}…, and its manifest names another`);
  const line = found.keys ? headLine(note, found.keys, "its checkpoint") : undefined;
  if (line?.mark !== "holds") throw new Error(line?.text ?? "its database holds no key to check the checkpoint with");
}

/** Whether it could be restored, without doing it. */
export const verifyBackup = (from: string, log: Logger): Promise<Manifest> =>
  inScratch(join(tmpdir(), "imprimatur-verify-"), (folder) => checked(from, folder, log));

type Options = { from: string; dataDir: string; force: boolean; log: Logger; now: number };
export type Restored = { manifest: Manifest; /** Where what was there before lies now. */ before: string | undefined };

/** Root's own, in every disk that Linux has formatted: it is nobody's data, and can't be moved. */
const OF_THE_DISK = "lost+found";

export async function restoreBackup({ from, dataDir, force, log, now }: Options): Promise<Restored> {
  const isOurs = makeFolder(dataDir, 0o700);
  refuseForeign(dataDir);
  const release = await claimFolder(dataDir, { waitMs: 0, evenCutOff: true });
  try {
    if (thingsIn(dataDir).length > 0 && !force)
      throw new Error(`${dataDir} isn't empty: name another folder, or say --force and it is put aside`);
    finishPuttingAside(dataDir);
    for (const name of readdirSync(dataDir).filter((left) => left.startsWith(UNPACKED))) rmSync(join(dataDir, name), { recursive: true });
    return await inScratch(join(dataDir, UNPACKED), async (fresh) => {
      const taken = await checked(from, fresh, log);
      const manifest = { ...taken, takenAt: await settle(fresh, taken, await givenOutIn(dataDir, log), log) };
      return { manifest, before: putInPlace(fresh, dataDir, now) };
    });
  } finally {
    const isBare = readdirSync(dataDir).every((name) => name.startsWith("lock"));
    if (isOurs && isBare) rmSync(dataDir, { recursive: true }); // nothing came of it; as long as it is ours alone
    release();
  }
}

const thingsIn = (dataDir: string): string[] => readdirSync(dataDir).filter((name) => !name.startsWith("lock") && name !== OF_THE_DISK);
const BEFORE = "before-restore-";
const OURS = [DATABASE, "keys", "sealing-key", "bootstrap-key", SEEN, CUT_OFF, UNPACKED, BEFORE];
/** By a slip of the pen, and root's --force, half a machine would be put aside, or everybody's home. */
function refuseForeign(dataDir: string): void {
  const there = thingsIn(dataDir);
  if (there.length === 0 || there.some((name) => OURS.some((ours) => name.startsWith(ours)))) return;
  throw new Error(
    `${dataDir} holds what isn't a cloud's (${there.slice(0, 3).join(", ")}): name a folder that is empty, or isn't there yet`,
  );
}

const onFatal = (line: string, cause: unknown) => {
  throw new Error(line, { cause });
};

/** What lies there may have given out more than any rate says; what of it can't be read is most likely why somebody restores. */
async function givenOutIn(dataDir: string, log: Logger): Promise<GivenOut[]> {
  const aside = readdirSync(dataDir).filter((name) => name.startsWith(BEFORE));
  const beside = ["-wal", "-shm"].map((end) => join(dataDir, DATABASE + end)).filter((name) => !existsSync(name));
  const all: GivenOut[] = [];
  for (const folder of [dataDir, ...aside.map((name) => join(dataDir, name))]) {
    try {
      const given = await lookInto(folder, log);
      if (given) all.push(given);
    } catch (error) {
      log.warn(
        { event: "restore", folder, err: error },
        "what was given out there can't be read: only what its age lets expect is left out",
      );
    }
  }
  for (const name of beside) rmSync(name, { force: true }); // of the reading's own: the folder is claimed, so that nobody writes there
  return all;
}
async function lookInto(folder: string, log: Logger): Promise<GivenOut | undefined> {
  const store = await openToLook({ dataDir: folder, log });
  try {
    return await store?.read("given out", givenOut);
  } finally {
    await store?.close();
  }
}

/**
 * What was answered after the backup is forgotten here and remembered elsewhere: nothing of it may be given out again. How far it goes is its last word: it
 * may have been taken of a file that somebody had put back by hand, long after that.
 */
async function settle(fresh: string, { takenAt, log: head }: Manifest, given: GivenOut[], log: Logger): Promise<string> {
  const store = await openStore({ dataDir: fresh, log, onFatal });
  let goesTo: string;
  try {
    await warn(store);
    goesTo = await store.write("after a restore", async (tx) => {
      const at = new Date(Math.min(Date.parse(takenAt), (await lastInstant(tx)) ?? Infinity)).toISOString();
      await afterRestore(tx, { takenAt: at, logSize: head.size, given });
      return at;
    });
  } finally {
    await store.close();
  }
  for (const name of readdirSync(fresh).filter((file) => file.startsWith("lock"))) rmSync(join(fresh, name));
  return goesTo;
}

/** The same for a database that was set back by its own means; how far it goes is its last word. Nothing holds a node off that starts meanwhile: it is looked for again. */
export async function settleDatabase({ DATA_DIR: dataDir, DATABASE_URL: databaseUrl }: Config, log: Logger): Promise<WentBack> {
  if (databaseUrl === undefined) throw new Error("IMPRIMATUR_DATABASE_URL isn't set: a SQLite node comes back with --from FILE --data DIR");
  await refuseWhileUsed(databaseUrl, log, "end all nodes first");
  const wentBack = await setBack(await openStore({ dataDir, databaseUrl, log, onFatal }), lastSeen(dataDir)?.restoredAt);
  await refuseWhileUsed(databaseUrl, log, "a node was started meanwhile, so end it and say this again");
  return wentBack;
}
async function setBack(store: Store, seenAt: number | undefined): Promise<WentBack> {
  try {
    await warn(store);
    return await store.write("after a restore", async (tx) => {
      const [logSize, last] = [await sizeOfLog(tx), await lastInstant(tx)];
      if (last === undefined) throw new Error("nothing was ever written in this database: it wasn't set back");
      const takenAt = new Date(last).toISOString();
      await afterRestore(tx, { takenAt, logSize, seenAt });
      return { takenAt, logSize };
    });
  } finally {
    await store.close();
  }
}

async function warn(store: Store): Promise<void> {
  for (const tenantId of await store.read("tenants", chainIds)) {
    await inSlices((after) => store.write("serials after a restore", (tx) => warnOfSerials(tx, tenantId, after)));
    for (const state of await store.read("open jobs", (tx) => openStatesOf(tx, tenantId)))
      await inSlices((after) => store.write("jobs after a restore", (tx) => warnOfJobs(tx, tenantId, state, after)));
  }
}
async function inSlices(slice: (after: string) => Promise<string | undefined>): Promise<void> {
  for (let after: string | undefined = ""; after !== undefined;) after = await slice(after);
}

/** Root restores for the user whose folder it is, as whom the cloud will open it. */
function giveToOwner(dataDir: string): void {
  if (process.getuid?.() === 0) give(dataDir, statSync(dataDir));
}
/** Node's own way through all folders follows links, and their owner could lay one to anything of root's. */
function give(folder: string, to: { uid: number; gid: number }): void {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    if (entry.name === OF_THE_DISK) continue;
    const path = join(folder, entry.name);
    lchownSync(path, to.uid, to.gid);
    if (entry.isDirectory()) give(path, to);
  }
}

export type WentBack = { takenAt: string; logSize: number };

/** What was there moves aside, what is new moves in; a start in between is refused by the mark. */
function putInPlace(fresh: string, dataDir: string, now: number): string | undefined {
  const mark = join(dataDir, CUT_OFF);
  const wasCutOff = existsSync(mark);
  writeDurably(mark, "a restore was begun here and hasn't ended: run it again with --force\n");
  let before: string | undefined;
  try {
    before = putAside(dataDir, now);
  } catch (error) {
    if (!wasCutOff) rmSync(mark); // all is where it was
    throw error;
  }
  for (const name of databaseFirst(readdirSync(fresh))) renameSync(join(fresh, name), join(dataDir, name));
  giveToOwner(dataDir);
  syncFolder(dataDir);
  rmSync(mark);
  syncFolder(dataDir);
  return before;
}

const STAYS = ["lock", UNPACKED, BEFORE];
const stays = (name: string): boolean => STAYS.some((start) => name.startsWith(start)) || name === CUT_OFF || name === OF_THE_DISK;
/** The database goes first and comes first: where there is none, what lies there is the rest of what was there before. */
const databaseFirst = (names: string[]): string[] => names.toSorted((a, b) => Number(b === DATABASE) - Number(a === DATABASE));
const movable = (dataDir: string): string[] => databaseFirst(readdirSync(dataDir).filter((name) => !stays(name)));

/** A restore that was killed as it put things aside left a database in one place and its log in another: neither says alone what was given out. */
function finishPuttingAside(dataDir: string): void {
  if (!existsSync(join(dataDir, CUT_OFF)) || existsSync(join(dataDir, DATABASE))) return;
  const before = readdirSync(dataDir).findLast((name) => name.startsWith(BEFORE));
  if (before === undefined) return;
  for (const name of movable(dataDir).filter((left) => !existsSync(join(dataDir, before, left))))
    renameSync(join(dataDir, name), join(dataDir, before, name));
}

/** All of it or nothing: a folder of another user's can't be moved. */
function putAside(dataDir: string, now: number): string | undefined {
  const old = movable(dataDir);
  if (old.length === 0) return undefined;
  const before = join(dataDir, BEFORE + now);
  mkdirSync(before, { mode: 0o700 });
  const moved: string[] = [];
  try {
    for (const name of old) {
      renameSync(join(dataDir, name), join(before, name));
      moved.push(name);
    }
  } catch (error) {
    for (const name of moved) renameSync(join(before, name), join(dataDir, name));
    rmdirSync(before);
    throw error;
  }
  return before;
}
