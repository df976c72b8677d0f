// How the buffer's parts speak to its file: statements compiled once, and writes that are durable as a whole or not at all.
import { statfsSync } from "node:fs";
import type Database from "better-sqlite3";
import { Refusal } from "#shared/errors.ts";
import { codeOf } from "#shared/fault.ts";
import { saying } from "#shared/sayings.ts";
import type { Clock } from "./clock.ts";
import { inodeOf } from "./folder.ts";

export type Row = Record<string, unknown>;
/** Places for so many values. */
export const placesFor = (values: readonly unknown[]): string => values.map(() => "?").join(", ");
export type Sql = ReturnType<typeof sqlOn>;
const FULL = /^SQLITE_(FULL|IOERR|READONLY|CANTOPEN|NOMEM)/;
/** The file isn't whole. */
export const isDamage = (error: unknown): boolean => /^SQLITE_(CORRUPT|NOTADB)/.test(codeOf(error));

const ROOM = " ".repeat(262_144);
export const ROOM_MIN_BYTES = 4_194_304; // a label's reports and pictures, and what SQLite writes beside them

/** Bytes that this user may still write there; endless where that can't be asked. */
export function freeOn(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize;
  } catch {
    return Infinity;
  }
}

export function sqlOn(db: Database.Database, { file, dataDir, clock }: { file: string; dataDir: string; clock: Clock }) {
  const statements = new Map<string, Database.Statement>();
  const prepared = (sql: string): Database.Statement => {
    const known = statements.get(sql) ?? db.prepare(sql);
    statements.set(sql, known);
    return known;
  };
  const run = (sql: string, ...values: unknown[]) => write(() => prepared(sql).run(...values));
  /** Says its number. */
  const insert = (table: string, row: Row): number => {
    const names = Object.keys(row);
    const { lastInsertRowid } = run(`INSERT INTO ${table} (${names.join(", ")}) VALUES (${placesFor(names)})`, ...Object.values(row));
    return Number(lastInsertRowid);
  };
  const all = (sql: string, ...values: unknown[]) => read(() => prepared(sql).all(...values)) as Row[];
  const get = (sql: string, ...values: unknown[]) => read(() => prepared(sql).get(...values)) as Row | undefined;
  const count = (what: string): number => Number(get(`SELECT count(*) AS count FROM ${what}`)?.["count"]);
  let fault: string | null = null;
  let isBroken = false;
  const damaged = () => saying("buffer_damaged", { file });

  /** Damage is told whoever meets it: nothing may be written any more that was read in part. */
  function read<T>(act: () => T): T {
    try {
      return act();
    } catch (error) {
      if (!isDamage(error)) throw error;
      isBroken = true;
      fault = damaged();
      throw new Refusal("STORE_UNAVAILABLE", fault);
    }
  }

  /** All of it durable, or nothing; what the disk refuses is told as such. */
  function write<T>(act: () => T): T {
    if (db.inTransaction) return act();
    try {
      return db.transaction(act).immediate();
    } catch (error) {
      isBroken ||= isDamage(error);
      if (!isBroken && !FULL.test(codeOf(error))) throw error;
      fault = isBroken ? damaged() : saying("buffer_unwritable", { folder: dataDir, why: (error as Error).message });
      throw new Refusal("STORE_UNAVAILABLE", fault);
    }
  }

  /** What is kept by a name. */
  const meta = (name: string): string | undefined => get("SELECT value FROM meta WHERE name = ?", name)?.["value"] as string | undefined;
  const setMeta = (name: string, value: string) =>
    void run("INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value);

  const ownInode = inodeOf(file) ?? 0;
  /** Whether there is room for the reports of some labels, before the disk has to say so. */
  function probe(): boolean {
    if (isBroken) return false;
    if ((inodeOf(file) ?? ownInode) !== ownInode) {
      fault = saying("buffer_taken_away", { file });
      return false;
    }
    const freeBytes = freeOn(dataDir);
    if (freeBytes < ROOM_MIN_BYTES) {
      fault ??= saying("buffer_room", { folder: dataDir, free: Math.floor(freeBytes / 1_024) });
      return false;
    }
    if (fault === null) return true;
    try {
      write(() => {
        setMeta("room", ROOM);
        run("DELETE FROM meta WHERE name = 'room'");
      });
    } catch {
      return false;
    }
    fault = null;
    return true;
  }

  return {
    clock,
    run,
    insert,
    all,
    get,
    count,
    write,
    meta,
    setMeta,
    /** Why nothing can be written; null while it can. */
    fault: () => fault,
    probe,
  };
}
