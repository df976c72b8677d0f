// Works off imports: one file at a time a node, a slice of rows a commit; killed anywhere, it goes on after the last committed slice.
import type { Logger } from "pino";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { type CsvRow, fileFault, rowsOf } from "../domain/import-rows.ts";
import * as imports from "../domain/imports.ts";
import type { Store } from "../store/store.ts";
import { endingOwnLeases, startWorker, type Worker } from "./worker.ts";

const IDLE_MS = 250;
const SLICE_ROWS = 100;
const SLICE_CHARACTERS = 500_000; // rows of megabytes would make a unit of which all others have to wait for the end

export function startImporter(store: Store, log: Logger): Worker {
  let lastTenant = "";

  async function step(stopping: () => boolean): Promise<boolean> {
    const row = await store.write("import claim", (tx) => imports.claim(tx, lastTenant));
    if (!row) return false;
    lastTenant = row.tenantId;
    await workOff(row, stopping);
    return true;
  }

  async function workOff(begun: imports.Row, stopping: () => boolean): Promise<void> {
    const schema = imports.schemaOf(begun);
    try {
      const row = begun.total === null ? await count(begun) : begun;
      const last = row && (await takeAll(row));
      if (last) await end(last, null);
    } catch (error) {
      if (!(error instanceof Refusal) || error.status >= 500) throw error;
      // A file is read through before its first row counts, so a fault of the file finds it where it began.
      await end(begun, error.message);
    }

    async function end(row: imports.Row, fault: string | null): Promise<void> {
      let isThere = await store.write("import end", (tx) => imports.finish(tx, row, fault));
      while (isThere) isThere = await store.write("import file", (tx) => imports.dropFile(tx, row));
    }

    /** This node ends: whoever comes next goes on at once. */
    async function letGo(row: imports.Row): Promise<undefined> {
      await store.write("import lease", (tx) => imports.release(tx, row));
    }

    /** Reads the file through: it has to be whole, of this category and not too long before anything comes of it. */
    async function count(row: imports.Row): Promise<imports.Row | undefined> {
      let total = 0;
      const rows = rowsOf(imports.fileOf(store, row), schema);
      while (!(await rows.next()).done) {
        total += 1;
        if (stopping() || total > limits.IMPORT_MAX_ROWS) await rows.return(undefined);
      }
      if (stopping()) return letGo(row);
      if (total > limits.IMPORT_MAX_ROWS) throw fileFault(saying("too_many_rows", { most: limits.IMPORT_MAX_ROWS }));
      if (total === 0) throw fileFault(saying("header_only"));
      return store.write("import total", (tx) => imports.setTotal(tx, row, total));
    }

    /** Undefined when stopped, or when another node has taken over. */
    async function takeAll(from: imports.Row): Promise<imports.Row | undefined> {
      let row = from;
      for await (const slice of slicesAfter(from)) {
        const taken = await store.write("import rows", (tx) => imports.take(tx, row, schema, slice));
        if (!taken) return undefined;
        row = taken;
      }
      return stopping() ? letGo(row) : row;
    }

    /** The rows that aren't processed yet, a commit's worth at a time, until stopped. */
    async function* slicesAfter(from: imports.Row): AsyncGenerator<CsvRow[]> {
      let skip = from.processed;
      let slice: CsvRow[] = [];
      let size = 0;
      for await (const csv of rowsOf(imports.fileOf(store, from), schema)) {
        if (stopping()) return;
        if (skip > 0) {
          skip -= 1;
          continue;
        }
        slice.push(csv);
        size += csv.cells.join("").length;
        if (slice.length < SLICE_ROWS && size < SLICE_CHARACTERS) continue;
        yield slice;
        [slice, size] = [[], 0];
      }
      if (slice.length > 0) yield slice;
    }
  }

  const first = endingOwnLeases(store, "import leases", imports.releaseAll);
  return startWorker(log, { event: "import-failed", idleMs: IDLE_MS, first, step });
}
