// Forgets what nobody will ask for any more, one node at a time and a slice at a time: what a slice may hold follows from how long the last one took.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import { endSweep, type Forget, retained, takeSweep } from "../domain/retention.ts";
import type { Metrics } from "../metrics.ts";
import type { Store } from "../store/store.ts";
import { eachTried, startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 60_000;
const SLICE_FIRST_ROWS = 8;
const SLICE_MAX_ROWS = 512;
/** A slice that takes longer is halved, one that takes a quarter of it doubled: far from what a request would feel. */
const SLICE_MS = 20;
/** From one slice to the next, in slices: requests have the store for the rest. */
const PAUSE_SLICES = 3;
/** A slice that waited for somebody's lock tells nothing of how much the store can bear, and whoever stops this node waits for the pause. */
const PAUSE_MAX_MS = 500;

type Slice = { gone: number; ms: number };

export function startSweeper(store: Store, log: Logger, metrics: Metrics): Worker {
  const rowsOf = new Map<string, number>();
  let gone = 0;
  let longestMs = 0;
  let held = 0;
  metrics.watch("retention_rows", "Rows that this node forgot because their time was over", () => gone);
  metrics.watch("retention_slice_seconds", "The longest that a slice of them held the store, of the last round", () => longestMs / 1_000);

  const slice = (name: string, forget: Forget, most: number): Promise<Slice> =>
    store.write(`sweep ${name}`, async (tx) => {
      const began = performance.now();
      return { gone: await forget(tx, most), ms: performance.now() - began };
    });

  /** All that is over of one kind. */
  async function sweep(name: string, forget: Forget, stopping: () => boolean): Promise<void> {
    while (!stopping()) {
      const most = rowsOf.get(name) ?? SLICE_FIRST_ROWS;
      const done = await slice(name, forget, most);
      gone += done.gone;
      longestMs = Math.max(longestMs, done.ms);
      if (done.ms > SLICE_MS) rowsOf.set(name, Math.max(1, Math.floor(most / 2)));
      else if (done.ms < SLICE_MS / 4) rowsOf.set(name, Math.min(SLICE_MAX_ROWS, most * 2));
      if (done.gone < most) return;
      await sleep(Math.min(PAUSE_SLICES * done.ms, PAUSE_MAX_MS));
    }
  }

  return startWorker(log, {
    event: "sweep-failed",
    idleMs: EVERY_MS,
    step: async (stopping) => {
      longestMs = 0;
      let isOurs = true;
      try {
        await eachTried(Object.entries(retained), async ([name, forget]) => {
          const until = isOurs ? await store.write("sweep turn", (tx) => takeSweep(tx, held)) : undefined;
          isOurs = until !== undefined;
          held = until ?? held;
          if (isOurs && !stopping()) await sweep(name, forget, stopping);
        });
      } finally {
        if (isOurs) await store.write("sweep turn", (tx) => endSweep(tx, held));
        if (isOurs) held = 0;
      }
      return false;
    },
  });
}
