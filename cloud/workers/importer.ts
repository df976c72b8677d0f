// Works off imports: one file at a time a node, a slice of rows a commit; killed anywhere, it goes on after the last committed slice.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { type CsvRow, fileFault, rowsOf } from "../domain/import-rows.ts";
import * as imports from "../domain/imports.ts";
import type { Store } from "../store/store.ts";
import type { Worker } from "./sweeper.ts";

const IDLE_MS = 250;
const SLICE_ROWS = 100;

export function startImporter(store: Store, log: Logger): Worker {
  let stopped = false;
  const stop = new AbortController();
  const done = loop();

  async function loop(): Promise<void> {
    if (store.sole) await retried(() => store.write("import leases", imports.releaseAll));
    while (!stopped) {
      const row = await retried(() => store.write("import claim", imports.claim));
      if (row) await retried(() => workOff(row));
      else await sleep(IDLE_MS, undefined, { signal: stop.signal, ref: false }).catch(() => undefined); // woken to stop
    }
  }

  /** What fails now is tried again later: the lease runs out, or the store comes back. */
  async function retried<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      log.error({ event: "import-failed", err: error }, "an import couldn't go on; trying again");
      await sleep(IDLE_MS, undefined, { signal: stop.signal, ref: false }).catch(() => undefined);
      return undefined;
    }
  }

  async function workOff(begun: imports.Row): Promise<void> {
    const schema = imports.schemaOf(begun);
    try {
      const row = begun.total === null ? await count(begun) : begun;
      const last = row && (await takeAll(row));
      if (last) await store.write("import end", (tx) => imports.finish(tx, last, null));
    } catch (error) {
      if (!(error instanceof Refusal) || error.status >= 500) throw error;
      const now = begun; // a file is read through before its first row counts, so a fault of the file finds it where it began
      await store.write("import fault", (tx) => imports.finish(tx, now, error.message));
    }

    /** Reads the file through: it has to be whole, of this category and not too long before anything comes of it. */
    async function count(row: imports.Row): Promise<imports.Row | undefined> {
      let total = 0;
      const rows = rowsOf(imports.fileOf(store, row), schema);
      while (!(await rows.next()).done) {
        total += 1;
        if (stopped || total > limits.IMPORT_MAX_ROWS) await rows.return(undefined);
      }
      if (stopped) return undefined;
      if (total > limits.IMPORT_MAX_ROWS) throw fileFault(`the file has more than ${limits.IMPORT_MAX_ROWS} rows: split it`);
      if (total === 0) throw fileFault("the file has a header and no rows");
      return store.write("import total", (tx) => imports.setTotal(tx, row, total));
    }

    /** Undefined when stopped, or when another node has taken over. */
    async function takeAll(from: imports.Row): Promise<imports.Row | undefined> {
      let row: imports.Row | undefined = from;
      let skip = from.processed;
      let slice: CsvRow[] = [];
      const flush = async () => {
        const [current, rows] = [row, slice];
        slice = [];
        row = current && rows.length > 0 ? await store.write("import rows", (tx) => imports.take(tx, current, schema, rows)) : current;
      };
      for await (const csv of rowsOf(imports.fileOf(store, from), schema)) {
        if (stopped || !row) return undefined;
        if (skip > 0) skip -= 1;
        else slice.push(csv);
        if (slice.length >= SLICE_ROWS) await flush();
      }
      await flush();
      return row;
    }
  }

  return {
    runs: () => !stopped,
    stop: async () => {
      stopped = true;
      stop.abort();
      await done;
    },
  };
}
