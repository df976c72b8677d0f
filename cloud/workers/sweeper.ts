// Forgets what nobody will ask for any more, a slice at a time, so that it never holds the store for long: old answers, abandoned uploads, sessions that are over, old scans.
import type { Logger } from "pino";
import * as sessions from "../domain/console-sessions.ts";
import * as deliveries from "../domain/deliveries.ts";
import { forget } from "../domain/idempotency.ts";
import * as rateBudgets from "../domain/rate-budgets.ts";
import { forgetScans } from "../domain/scans.ts";
import { forgetAbandoned } from "../domain/uploads.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 60_000;
const SLICE_ROWS = 500;

export const startSweeper = (store: Store, log: Logger): Worker =>
  startWorker(log, {
    event: "sweep-failed",
    idleMs: EVERY_MS,
    step: async () => {
      const gone = await store.write("sweep", (tx) => forget(tx, SLICE_ROWS));
      if (gone >= SLICE_ROWS) return true;
      await store.write("sweep uploads", forgetAbandoned);
      await store.write("sweep console sessions", (tx) => sessions.forget(tx, SLICE_ROWS));
      if (!store.sole) await store.write("sweep rate budgets", (tx) => rateBudgets.forget(tx, SLICE_ROWS));
      const scans = await store.write("sweep scans", (tx) => forgetScans(tx, SLICE_ROWS));
      const more = await store.write("sweep deliveries", (tx) => deliveries.forget(tx, SLICE_ROWS));
      return more || scans >= SLICE_ROWS;
    },
  });
