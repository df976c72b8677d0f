// Writes down scans after they were answered: many a commit, never more than fit in the queue, and none is worth a slow answer.
import type { Logger } from "pino";
import { limits } from "#shared/limits.ts";
import { recordScans, type Scan } from "../domain/scans.ts";
import type { Metrics } from "../metrics.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

export type Scans = { add(scan: Scan): void; take(most: number): Scan[] };

const IDLE_MS = 200;
const SCANS_A_COMMIT = 500;

export function scanQueue(metrics: Metrics): Scans {
  let waiting: Scan[] = [];
  let dropped = 0;
  metrics.watch("scans_waiting", "Scans that wait to be recorded", () => waiting.length);
  metrics.watch("scans_dropped", "Scans that were dropped because too many waited", () => dropped);
  return {
    add: (scan) => {
      if (waiting.length < limits.SCAN_QUEUE_MAX_ITEMS) waiting.push(scan);
      else dropped += 1;
    },
    take: (most) => {
      const taken = waiting.slice(0, most);
      waiting = waiting.slice(most);
      return taken;
    },
  };
}

export function startScanRecorder(store: Store, log: Logger, scans: Scans): Worker {
  const step = async (): Promise<boolean> => {
    const taken = scans.take(SCANS_A_COMMIT);
    if (taken.length > 0) await store.write("scans", (tx) => recordScans(tx, taken));
    return taken.length === SCANS_A_COMMIT;
  };
  const worker = startWorker(log, { event: "scans-failed", idleMs: IDLE_MS, step });
  return {
    ...worker,
    stop: async () => {
      await worker.stop();
      // Those that came in with the last answers; a store that is gone takes no more.
      await step().catch((error: unknown) => log.error({ event: "scans-failed", err: error }, "the last scans weren't recorded"));
    },
  };
}
