// The embedded engine: units that wait share one durable commit, each in its own savepoint; reads have a connection of their own.
import { AsyncLocalStorage } from "node:async_hooks";
import { dirname } from "node:path";
import Database from "better-sqlite3";
import { codeOf } from "#shared/fault.ts";
import { limits } from "#shared/limits.ts";
import { type Engine, type Execute, type Finales, type Mode, sayFinales, type Session, turnsThatBring, unavailable } from "./store.ts";
import { inodeOf, makeFolder } from "../files.ts";
import { walKeeper } from "./wal.ts";

type SqliteOptions = {
  file: string;
  clock?: () => number;
  /** The store can no longer be trusted: said once, and the process must end. */
  onFatal: (line: string, cause: unknown) => void;
  /** Something that was made up for, and that whoever runs this should look into. */
  onWarn?: (line: string, cause: unknown) => void;
  onCommit?: (units: number, seconds: number) => void;
  /** FULL is the only mode in which an answered write survives a power cut; the other exists for the test that proves it. */
  synchronous?: "FULL" | "NORMAL";
  /** Frames of the WAL that call for a checkpoint. */
  walFrames?: number;
};

type Waiting = { work: (session: Session) => Promise<unknown>; resolve: (value: unknown) => void; reject: (error: unknown) => void };
type Done = { unit: Waiting; settle: () => void };

const STATEMENTS_KEPT = 500;
const READ_CACHE_KB = 16_000;
const WATCH_MS = 1_000;
const BUSY_TIMEOUT_MS = 1_000;
const WAL_FRAMES = 6_144; // 24 MiB of pages: pictures make a unit of work a hundred times as large as others, so that counting units won't do

export function connect(file: string, mode: Mode, synchronous: "FULL" | "NORMAL" = "FULL"): Database.Database {
  if (mode === "write") makeFolder(dirname(file), 0o700);
  const connection = new Database(file, { readonly: mode === "read", timeout: BUSY_TIMEOUT_MS });
  if (mode === "write") connection.pragma("journal_mode = WAL");
  connection.pragma(`synchronous = ${synchronous}`);
  connection.pragma("foreign_keys = ON");
  connection.pragma("temp_store = MEMORY"); // what a savepoint undoes with stays off the disk: a third less time a unit
  if (mode === "read") connection.pragma(`cache_size = -${READ_CACHE_KB}`); // of a table of millions the inner pages stay: one page is read, not three
  connection.pragma("wal_autocheckpoint = 0"); // SQLite swallows the fsync error of a checkpoint of its own; ours is heard
  return connection;
}

/** What durability rests on, and isn't so on this connection. */
function faultsOf(connection: Database.Database, name: string): string[] {
  const pragma = (key: string) => connection.pragma(key, { simple: true });
  return [
    ...(pragma("synchronous") === 2 ? [] : [`the ${name} connection has synchronous=${String(pragma("synchronous"))}, not 2 (FULL)`]),
    ...(pragma("journal_mode") === "wal" ? [] : [`the ${name} connection has journal_mode=${String(pragma("journal_mode"))}, not wal`]),
    ...(pragma("foreign_keys") === 1 ? [] : [`the ${name} connection doesn't enforce foreign keys`]),
  ];
}

/** Before 3.51.3 a checkpoint beside a writer could lose committed frames of the WAL. */
const SQLITE_MIN = [3, 51, 3];
function versionFaults(version: string): string[] {
  const parts = version.split(".").map(Number);
  const first = SQLITE_MIN.findIndex((min, i) => parts[i] !== min);
  const older = first >= 0 && (parts[first] ?? 0) < (SQLITE_MIN[first] ?? 0);
  return older ? [`SQLite is ${version}, older than ${SQLITE_MIN.join(".")}`] : [];
}

function writeFaults(connection: Database.Database): string[] {
  try {
    connection.pragma(`user_version = ${String(connection.pragma("user_version", { simple: true }))}`);
    return [];
  } catch (error) {
    return [`the disk under ${connection.name} doesn't take a write: ${(error as Error).message}`];
  }
}

export const durabilityFaults = (writer: Database.Database, reader: Database.Database): string[] => [
  ...versionFaults(writer.prepare("SELECT sqlite_version()").pluck().get() as string),
  ...faultsOf(writer, "writing"),
  ...faultsOf(reader, "reading"),
  ...writeFaults(writer),
];

/**
 * Statements compiled once and found by their text, each with an executor that answers as drizzle's proxy driver expects. On a full disk or an I/O error
 * SQLite undoes the whole transaction by itself: what is asked after that would be a commit of its own, and is refused for the same reason.
 */
function executor(connection: Database.Database): Execute {
  let undone: unknown = new Error("a statement outside of a transaction");
  const statements = new Map<string, Database.Statement>();
  const prepare = (sql: string) => {
    const known = statements.get(sql);
    if (known) return known;
    if (statements.size >= STATEMENTS_KEPT) statements.clear();
    const made = connection.prepare(sql);
    if (made.reader) made.raw();
    statements.set(sql, made);
    return made;
  };
  return async (sql, params, method) => {
    if (!connection.inTransaction) throw undone;
    const statement = prepare(sql);
    try {
      if (!statement.reader) return { rows: [], changes: statement.run(params).changes };
      if (method === "get") return { rows: statement.get(params) as unknown[] };
      return { rows: statement.all(params) };
    } catch (error) {
      if (!connection.inTransaction) undone = error;
      throw error;
    }
  };
}

const isStoreFault = (error: unknown) =>
  /^SQLITE_(FULL|BUSY|LOCKED|IOERR|READONLY|CANTOPEN|NOMEM|CORRUPT|NOTADB|PROTOCOL)/.test(codeOf(error));
const asRefusal = (error: unknown) => (isStoreFault(error) ? unavailable(error) : error);

/** Here statements run one after another, whoever asks. */
const sessionAt = (clock: () => number, execute: Execute, finales: Finales = new Map()): Session => ({
  now: clock(),
  clock: async () => clock(),
  execute,
  beside: () => execute,
  finales,
});

/**
 * Reads run one after another too, and none waits for anything but memory and disk. Those that were asked for in one turn share a snapshot, which is
 * younger than all of them: to begin and end one costs as much as a look.
 */
function readsOf(reader: Database.Database, clock: () => number) {
  const execute = executor(reader);
  const begin = reader.prepare("BEGIN");
  const end = reader.prepare("COMMIT");
  let waiting: ((isFirst: boolean, isLast: boolean) => Promise<void>)[] = [];
  let last: Promise<unknown> = Promise.resolve();
  async function turn(): Promise<void> {
    const asked = waiting;
    waiting = [];
    for (const [i, one] of asked.entries()) await one(i === 0, i === asked.length - 1);
  }
  return {
    unit: <T>(work: (session: Session) => Promise<T>): Promise<T> =>
      new Promise((resolve, reject) => {
        const one = async (isFirst: boolean, isLast: boolean) => {
          try {
            if (isFirst || !reader.inTransaction) begin.run();
            resolve(await work(sessionAt(clock, execute)).finally(() => isLast && end.run()));
          } catch (error) {
            reject(asRefusal(error));
          }
        };
        waiting.push(AsyncLocalStorage.bind(one)); // each in the name of who asked
        if (waiting.length > 1) return;
        last = Promise.all([last, new Promise((next) => setImmediate(next))]).then(turn);
      }),
    idle: () => last,
  };
}

/** A database that is only looked at, whoever may be writing to it. */
export function openSqliteToRead(file: string): Engine {
  const reader = connect(file, "read");
  const reads = readsOf(reader, Date.now);
  const readOnly = () => Promise.reject(new Error(`${file} was opened to be read only`));
  return {
    name: "sqlite",
    transact: (mode, work) => (mode === "read" ? reads.unit(work) : readOnly()),
    script: readOnly,
    faults: async () => [],
    pending: () => 0,
    close: async () => {
      await reads.idle();
      reader.close();
    },
  };
}

/** Ends the process where somebody took the lock file away and began beside us, or took the database away. */
function aloneOn(writer: Database.Database, file: string, onFatal: SqliteOptions["onFatal"]): () => void {
  const seenVersion = writer.prepare("PRAGMA data_version").pluck(); // moves when another connection wrote, and ours is the only one
  const ownVersion = seenVersion.get();
  const ownInode = inodeOf(file);
  return () => {
    if (writer.inTransaction) return;
    const inode = inodeOf(file);
    if (inode !== undefined && inode !== ownInode)
      onFatal(
        `${file} was taken away${inode === 0 ? "" : ", and another lies in its place"}: what is answered would be in no file, ending now`,
        new Error("the file's name leads elsewhere"),
      );
    if (seenVersion.get() === ownVersion) return;
    onFatal(`another process writes to ${file}: two can't both know the truth, ending now`, new Error("data_version moved"));
  };
}

export function openSqlite({
  file,
  clock = Date.now,
  onFatal,
  onWarn = () => {},
  onCommit,
  synchronous,
  walFrames = WAL_FRAMES,
}: SqliteOptions): Engine {
  const writer = connect(file, "write", synchronous);
  const reader = connect(file, "read", synchronous);
  const write = executor(writer);
  const reads = readsOf(reader, clock);
  const begin = writer.prepare("BEGIN IMMEDIATE");
  const commit = writer.prepare("COMMIT");
  const rollback = writer.prepare("ROLLBACK");
  const mark = writer.prepare("SAVEPOINT unit");
  const release = writer.prepare("RELEASE unit");
  const undo = writer.prepare("ROLLBACK TO unit");

  const queue: Waiting[] = [];
  let draining: Promise<void> | undefined;
  const wal = walKeeper({ writer, dueAt: walFrames, dieOfIo, onWarn });
  let closed = false;
  const dieIfNotAlone = aloneOn(writer, file, onFatal);
  const watch = setInterval(() => dieIfNotAlone(), WATCH_MS).unref();

  /** One unit inside the open transaction. What it answers waits for the commit, or for the group's failure. */
  async function runUnit(unit: Waiting, finales: Finales): Promise<Done> {
    const { work, resolve, reject } = unit;
    mark.run();
    try {
      const value = await work(sessionAt(clock, write, finales));
      release.run();
      return { unit, settle: () => resolve(value) };
    } catch (error) {
      if (!writer.inTransaction) throw error; // SQLite itself rolled everything back: a full disk, an I/O error
      undo.run();
      release.run();
      return { unit, settle: () => reject(asRefusal(error)) };
    }
  }

  /** One commit for as many units as there are and may share one. */
  async function group(units: Waiting[]): Promise<void> {
    const done: Done[] = [];
    const finales: Finales = new Map();
    let current: Waiting | undefined;
    if (!closed) dieIfNotAlone();
    try {
      begin.run();
      const began = performance.now();
      while (units.length > 0 && done.length < limits.GROUP_MAX_UNITS && performance.now() - began < limits.GROUP_MAX_MS) {
        current = units.shift() as Waiting;
        done.push(await runUnit(current, finales));
        current = undefined;
      }
      const { last } = await sayFinales(sessionAt(clock, write, finales));
      await last;
      durable(done.length);
    } catch (error) {
      if (writer.inTransaction) rollback.run();
      if (!current && done.length === 0) current = units.shift(); // the transaction couldn't even begin: somebody has to hear it
      current?.reject(asRefusal(error));
      // A finale that fails is one unit's fault, and not that of those who share its commit: each tries by itself.
      const isOnes = done.length > 1 && !isStoreFault(error);
      for (const { unit } of done) await (isOnes ? group([unit]) : unit.reject(asRefusal(error)));
      return;
    }
    for (const { settle } of done) settle();
    wal.committed();
  }

  function durable(units: number): void {
    const began = performance.now();
    try {
      commit.run();
    } catch (error) {
      dieOfIo(error, "a commit couldn't be made durable");
      throw error;
    }
    onCommit?.(units, (performance.now() - began) / 1000);
  }

  /** After a failed fsync the kernel may have dropped the pages and call them clean: whatever is asked next would be a guess. */
  function dieOfIo(error: unknown, what: string): void {
    if (/^(SQLITE_IOERR|EIO$)/.test(codeOf(error)))
      onFatal(`${what} (${codeOf(error)}): the disk can't be trusted, ending now; on restart SQLite recovers what was committed`, error);
  }

  async function drain(): Promise<void> {
    while (queue.length > 0) {
      await turnsThatBring(() => queue.length);
      await wal.room();
      await group(queue);
    }
    draining = undefined;
  }

  function enqueue<T>(work: (session: Session) => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    queue.push({ work, resolve: resolve as (value: unknown) => void, reject });
    draining ??= drain();
    return promise;
  }

  return {
    name: "sqlite",
    sole: { now: clock, overwrites: (isOn) => void writer.pragma(`secure_delete = ${isOn ? "ON" : "OFF"}`) },
    transact: (mode, work) => {
      if (closed) return Promise.reject(unavailable(new Error("the store is closed")));
      return mode === "read" ? reads.unit(work) : enqueue(work);
    },
    script: async (sql) => {
      writer.pragma("temp_store = FILE"); // a migration sorts whole tables: in memory three million serials took half a gigabyte
      try {
        writer.transaction(() => writer.exec(sql)).immediate();
      } finally {
        writer.pragma("temp_store = MEMORY");
      }
    },
    faults: async () => durabilityFaults(writer, reader),
    pending: () => queue.length,
    close: async () => {
      if (closed) return;
      closed = true;
      clearInterval(watch);
      await draining;
      await reads.idle();
      reader.close();
      await wal.close();
    },
  };
}
