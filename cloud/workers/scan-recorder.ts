// Writes down scans after they were answered: many a commit, never more than fit in the queue, and none is worth a slow answer.
import { randomUUIDv7 } from "node:crypto";
import type { Logger } from "pino";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { recordScans, type Scan, unrecorded } from "../domain/scans.ts";
import type { Metrics } from "../metrics.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

export type Scans = {
  add(scan: Omit<Scan, "id">): void;
  take(most: number): Scan[];
  /** They couldn't be written: they wait again, before what came since, or are lost and counted. */
  giveBack(taken: readonly Scan[], areLost: boolean): void;
};

const IDLE_MS = 200;
const SCANS_A_COMMIT = 500;

export function scanQueue(metrics: Metrics): Scans {
  let waiting: Scan[] = [];
  let dropped = 0;
  metrics.watch("scans_waiting", "Scans that wait to be recorded", () => waiting.length);
  metrics.watch("scans_dropped", "Scans that weren't recorded: too many waited, or they couldn't be written", () => dropped);
  return {
    add: (scan) => {
      if (waiting.length < limits.SCAN_QUEUE_MAX_ITEMS) waiting.push({ ...scan, id: randomUUIDv7() });
      else dropped += 1;
    },
    take: (most) => {
      const taken = waiting.slice(0, most);
      waiting = waiting.slice(most);
      return taken;
    },
    giveBack: (taken, areLost) => {
      const again = areLost ? [] : taken.slice(0, limits.SCAN_QUEUE_MAX_ITEMS - waiting.length);
      dropped += taken.length - again.length;
      waiting = [...again, ...waiting];
    },
  };
}

export function startScanRecorder(store: Store, log: Logger, scans: Scans): Worker {
  let areDoubtful = false; // the first that are taken: of a commit whose answer was lost they may be there
  const step = async (): Promise<boolean> => {
    const taken = scans.take(SCANS_A_COMMIT);
    try {
      if (taken.length > 0) await store.write("scans", async (tx) => recordScans(tx, areDoubtful ? await unrecorded(tx, taken) : taken));
      areDoubtful = false;
    } catch (error) {
      areDoubtful = true;
      scans.giveBack(taken, !(error instanceof Refusal)); // a store that is full or away takes them later; what is wrong with themselves stays so
      throw error;
    }
    return taken.length === SCANS_A_COMMIT;
  };
  const worker = startWorker(log, { event: "scans-failed", idleMs: IDLE_MS, step });
  return {
    ...worker,
    stop: async () => {
      await worker.stop();
      try {
        for (let more = true; more;) more = await step(); // those that came in with the last answers; a store that is gone takes no more
      } catch (error) {
        log.error({ event: "scans-failed", err: error }, "the last scans weren't recorded");
      }
    },
  };
}
