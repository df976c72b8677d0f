// A copy of the embedded database while somebody writes to it: one snapshot, whole, and never a moment in which the writer waits.
import { accessSync, constants, statSync } from "node:fs";
import type Database from "better-sqlite3";
import type { Logger } from "pino";
import { fileFault, isBlank, lookInto } from "./file-fault.ts";
import { connect, openSqliteToRead } from "./sqlite.ts";
import { type Store, storeOn } from "./store.ts";

const STEP_PAGES = 2_048; // from one to the next whoever has had enough is heard
/** As a first start leaves it that was cut off. */
export const TABLELESS = "has no tables yet: start the cloud once, which makes them, and take the backup then";

/** Within one look at the source, which keeps its snapshot: a copy in steps would else begin anew at every commit beside it, and never end under load. */
export async function copyDatabase(from: string, to: string): Promise<void> {
  if (!statSync(from, { throwIfNoEntry: false }))
    throw new Error(`${from} doesn't exist: there is nothing to back up; see IMPRIMATUR_DATA_DIR`);
  accessSync(from, constants.R_OK); // SQLite's own words would name neither the file nor the reason
  const fault = fileFault(from);
  if (fault) throw new Error(`${fault.says}: ${fault.todo}`);
  if (isBlank(from)) throw new Error(`${from} ${TABLELESS}`);
  const source = connect(from, "read");
  try {
    source.exec("BEGIN; SELECT 1 FROM sqlite_schema");
    await source.backup(to, { progress: () => STEP_PAGES }).catch((cause: Error) => {
      throw new Error(`the copy ${to} can't be written: ${cause.message}`, { cause });
    });
  } finally {
    source.close();
  }
}

/** A database as a store whose every write is refused. */
export const openToRead = (file: string, log: Logger): Store => storeOn(openSqliteToRead(file), log);

/** What SQLite itself finds wrong with a file, the first of it; `quick_check` leaves out that indexes and tables say the same. */
export function integrityFault(file: string, check: "integrity_check" | "quick_check" = "integrity_check"): string | undefined {
  const look = (database: Database.Database) => String(database.pragma(`${check}(1)`, { simple: true }));
  const said = lookInto(file, look, ({ message }) => message);
  return said === "ok" ? undefined : said;
}
