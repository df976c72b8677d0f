// Whether a SQLite file can be ours, seen before a byte of it is written: it may be damaged, or another program's.
import { existsSync } from "node:fs";
import Database from "better-sqlite3";
import { codeOf } from "#shared/fault.ts";
import { migrationsIn } from "./migrate.ts";
import { isOurList, withTables } from "./unfit.ts";

/** What SQLite says of the file itself; all else is of its disk, its owner or who works on it. */
const isDamage = (error: unknown): boolean => /^SQLITE_(NOTADB|CORRUPT)/.test(codeOf(error));

/** What is wrong with it and what to do. */
type FileFault = { says: string; todo: string };
export function fileFault(file: string): FileFault | undefined {
  if (!existsSync(file)) return undefined;
  const look = (database: Database.Database) => (isOurs(database) ? undefined : foreign(file, tablesOf(database)));
  return lookInto(file, look, ({ message }) => ({
    says: `${file} is damaged, or no database at all (${message})`,
    todo: "restore the last backup that holds (imprimatur restore), or see IMPRIMATUR_DATA_DIR",
  }));
}

/** What a look into a file finds, or what its damage is told as. */
export function lookInto<T>(file: string, look: (database: Database.Database) => T, damaged: (error: Error) => T): T {
  try {
    const database = new Database(file, { readonly: true });
    try {
      return look(database);
    } finally {
      database.close();
    }
  } catch (error) {
    if (!isDamage(error)) throw shut(file, error as Error);
    return damaged(error as Error);
  }
}

/** Says nothing about what is in it. */
function shut(file: string, cause: Error): Error {
  const code = codeOf(cause);
  const besides = code.startsWith("SQLITE_CANTOPEN") ? " (to read it, too, SQLite has to write beside it)" : "";
  return Object.assign(new Error(`${file} can't be opened: ${cause.message}${besides}`, { cause }), { code });
}

const tablesOf = (database: Database.Database) =>
  database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'").pluck().all() as string[];

/** As a first start leaves it that was cut off before its first table. */
export const isBlank = (file: string): boolean =>
  lookInto(
    file,
    (database) => tablesOf(database).length === 0,
    () => false,
  );

function isOurs(database: Database.Database): boolean {
  const tables = tablesOf(database);
  if (tables.every((name) => name === "migrations")) return true; // a first start that was cut off leaves no more
  if (!isOurList(database.prepare("SELECT name FROM pragma_table_info('migrations')").pluck().all() as string[])) return false;
  return database.prepare("SELECT name FROM migrations WHERE version = 1").pluck().get() === migrationsIn()[0]?.name;
}

function foreign(file: string, tables: string[]): FileFault {
  const says = `${file} is another program's database, ${withTables(tables)}`;
  return { says, todo: "name a folder of our own with IMPRIMATUR_DATA_DIR" };
}
