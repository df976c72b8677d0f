// Opens the store that the settings name, proves that it can keep a promise, and brings its tables up to date.
import { accessSync, constants, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import Database from "better-sqlite3";
import type { Logger } from "pino";
import { ConfigError } from "#shared/arguments.ts";
import { codeOf } from "#shared/fault.ts";
import { sql } from "./drizzle.ts";
import { openToRead } from "./copy.ts";
import { fileFault, isBlank } from "./file-fault.ts";
import { migrate, migrationsIn } from "./migrate.ts";
import { openSqlite } from "./sqlite.ts";
import { type Engine, type Meter, type Store, storeOn } from "./store.ts";
import { settingsLost } from "./unfit.ts";
import { freeBytesUnder, makeFolder } from "../files.ts";

type StoreOptions = {
  dataDir: string;
  databaseUrl?: string | undefined;
  log: Logger;
  clock?: () => number;
  meter?: Meter & { commit(units: number, seconds: number): void };
  onFatal: (line: string, cause: unknown) => void;
};

/** The embedded database of a data folder. */
export const DATABASE = "imprimatur.db";

export async function openStore({ dataDir, databaseUrl, log, clock, meter, onFatal }: StoreOptions): Promise<Store> {
  const common = {
    ...(clock ? { clock } : {}),
    ...(meter ? { onCommit: (units: number, seconds: number) => meter.commit(units, seconds) } : {}),
  };
  const release = databaseUrl ? () => {} : await claimFolder(dataDir);
  let engine: Engine | undefined;
  try {
    const fault = databaseUrl ? undefined : fileFault(join(dataDir, DATABASE));
    if (fault) throw new Error(`${fault.says}: ${fault.todo}`);
    engine = databaseUrl
      ? (await import("./postgres.ts")).openPostgres({ url: databaseUrl, ...common }) // its driver is loaded where it is used
      : openSqlite({
          file: join(dataDir, DATABASE),
          onFatal,
          onWarn: (line, err) => log.warn({ event: "checkpoint", err }, line),
          ...common,
        });
    const faults = await engine.faults();
    if (faults.length > 0) throw new Error(`answers couldn't be kept durable: ${faults.join("; ")}`);
    const store = storeOn(engine, log, meter);
    const lost = databaseUrl ? await settingsLost(store) : undefined;
    if (lost) log.warn({ event: "store-settings-lost" }, lost);
    await migrate(engine, store, migrationsIn(), (names) => tellOf(names, log)).catch((cause: Error & { code?: string }) => {
      if (!cause.code?.startsWith("SQLITE_")) throw cause;
      throw new Error(`the tables in ${dataDir} couldn't be brought up to date and stay as they were: ${cause.message}`, { cause });
    });
    return { ...store, close: () => store.close().finally(release) };
  } catch (error) {
    await engine?.close();
    release();
    throw databaseUrl ? error : roomTold(error as Error, dataDir);
  }
}

async function tellOf(migrations: string[], log: Logger): Promise<void> {
  for (const migration of migrations)
    log.info({ event: "migrating", migration }, "bringing the tables up to date: of millions of rows that takes minutes");
  log.flush(); // on a file nothing else runs until it is done, the log neither
  await setImmediate();
}

/** More than a start ever needs: where that much is free, room isn't what is missing. */
const ROOM_KB = 65_536;
/** SQLite calls a disk without room full or an I/O error, as it comes: how much is free says which it was. */
function roomTold(error: Error, dataDir: string): Error {
  const code = codeOf(error) || codeOf(error.cause);
  if (!/^SQLITE_(FULL|IOERR)/.test(code)) return error;
  const kb = Math.floor(freeBytesUnder(dataDir) / 1_024);
  if (kb > ROOM_KB) return error;
  return new Error(`${error.message}; ${kb} kB are free under ${dataDir}: make room, or see IMPRIMATUR_DATA_DIR`, { cause: error });
}

type Look = Pick<StoreOptions, "dataDir" | "databaseUrl" | "log">;

/** To read what is there, beside whoever works on it; undefined where nothing is. */
export async function openToLook({ dataDir, databaseUrl, log }: Look): Promise<Store | undefined> {
  if (databaseUrl) return storeOn((await import("./postgres.ts")).openPostgres({ url: databaseUrl, connections: 1 }), log);
  const file = join(dataDir, DATABASE);
  if (!statSync(file, { throwIfNoEntry: false })?.size) return undefined; // an empty file is no more
  accessSync(file, constants.R_OK); // SQLite's own words would name neither the file nor the reason
  const fault = fileFault(file);
  if (fault) throw Object.assign(new Error(fault.says), fault);
  return isBlank(file) ? undefined : openToRead(file, log);
}

/** What durability rests on and a PostgreSQL server doesn't do; a SQLite file has it from whoever writes to it. */
export async function durabilityFaultsOf(databaseUrl: string | undefined): Promise<string[]> {
  if (!databaseUrl) return [];
  const engine = (await import("./postgres.ts")).openPostgres({ url: databaseUrl, connections: 1 });
  try {
    return await engine.faults();
  } finally {
    await engine.close();
  }
}

/** Whatever a node's address or a pooler calls its sessions, they are of the same role. */
const OTHERS = sql`SELECT coalesce(nullif(application_name, ''), 'without a name') || coalesce(' from ' || host(client_addr), ''), count(*) FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND usename = current_user AND datname = current_database() AND pid <> pg_backend_pid() GROUP BY 1 ORDER BY 1`;
const LEAVING_MS = 2_000;

/** Throws where our role has other sessions on a server's database; who is just ending is waited for. */
export async function refuseWhileUsed(databaseUrl: string, log: Logger, todo: string): Promise<void> {
  const store = storeOn((await import("./postgres.ts")).openPostgres({ url: databaseUrl, connections: 1 }), log);
  try {
    for (let waited = 0; ; waited += 100) {
      const others = await store.read("sessions", ({ db }) => db.values<[string, number]>(OTHERS));
      if (others.length === 0) return;
      if (waited < LEAVING_MS) await sleep(100);
      else throw new Error(`${usedBy(others)}: ${todo}; sessions that a machine or a pooler left behind end with pg_terminate_backend`);
    }
  } finally {
    await store.close();
  }
}
const usedBy = (others: [whose: string, sessions: number][]): string =>
  `somebody works on this database (sessions of its role: ${others.map(([whose, sessions]) => `${sessions} ${whose}`).join(", ")})`;

const isBusy = (error: unknown): boolean => codeOf(error) === "SQLITE_BUSY";

/** Whether a process works in the folder. */
export function isClaimed(dataDir: string): boolean {
  const file = join(dataDir, "lock");
  if (!statSync(file, { throwIfNoEntry: false })) return false;
  const untaken = (cause: Error) => new Error(`the lock ${file} can't be taken`, { cause });
  const lock = openLock(dataDir, untaken);
  try {
    lock.exec("BEGIN EXCLUSIVE");
    return false;
  } catch (error) {
    if (isBusy(error)) return true;
    throw untaken(error as Error);
  } finally {
    lock.close();
  }
}

function openLock(dataDir: string, unlocked: (cause: Error) => Error): Database.Database {
  try {
    return new Database(join(dataDir, "lock"), { timeout: 0 });
  } catch (error) {
    throw unlocked(error as Error);
  }
}

const CLAIM_WAIT_MS = 5_000;
/** A file that says so while a restore is under way: half of one isn't to be served. */
export const CUT_OFF = "restore-under-way";
/** What a restore unpacks into, before it touches anything else. */
export const UNPACKED = ".restoring-";
type Claim = { waitMs?: number; evenCutOff?: boolean };

/** What to do about a restore that was killed here; undefined where none was. One that is still at work has the folder claimed. */
export function afterCutOff(dataDir: string): string | undefined {
  const there = readdirSync(dataDir);
  const unpacked = there.find((name) => name.startsWith(UNPACKED));
  if (there.includes(CUT_OFF)) return "run it again with --force";
  return unpacked && `run it again with --force, or remove ${join(dataDir, unpacked)} to go on with what was there before`;
}

/**
 * One process a SQLite folder: the lock is the operating system's, so it ends with its holder however that dies.
 * A successor waits a little, which is what a restart looks like.
 */
export async function claimFolder(dataDir: string, { waitMs = CLAIM_WAIT_MS, evenCutOff = false }: Claim = {}): Promise<() => void> {
  makeFolder(dataDir, 0o700);
  accessSync(dataDir, constants.R_OK | constants.W_OK | constants.X_OK); // SQLite's own words would name neither the folder nor the reason
  const unlocked = (cause: Error) =>
    Object.assign(new Error(`can't lock ${dataDir}: ${cause.message}`, { cause }), { code: codeOf(cause) });
  const lock = openLock(dataDir, unlocked);
  let todo: string | undefined;
  for (let waited = 0; ; waited += 100) {
    try {
      lock.exec("BEGIN EXCLUSIVE");
      lock.pragma("user_version = 1"); // a file that can't be written is opened for reading, and then excludes nobody
      todo = evenCutOff ? undefined : afterCutOff(dataDir);
      if (todo === undefined) return () => void lock.close();
      break;
    } catch (error) {
      if (waited < waitMs && isBusy(error)) await sleep(100);
      else {
        lock.close();
        if (!isBusy(error)) throw unlocked(error as Error);
        throw new ConfigError(`another Imprimatur cloud works in ${dataDir}: stop it, or name another folder`);
      }
    }
  }
  lock.close();
  throw new Error(`a restore into ${dataDir} was cut off: ${todo}`);
}
