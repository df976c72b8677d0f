// Forgets what nobody will ask for any more, a slice at a time, so that it never holds the store for long: old answers, abandoned uploads.
import type { Logger } from "pino";
import { forget } from "../domain/idempotency.ts";
import { forgetAbandoned } from "../domain/uploads.ts";
import type { Store } from "../store/store.ts";

const EVERY_MS = 60_000;
const SLICE_ROWS = 500;

export type Worker = { runs(): boolean; stop(): Promise<void> };

export function startSweeper(store: Store, log: Logger, everyMs = EVERY_MS): Worker {
  let stopped = false;
  let current: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    current = sweep();
  }, everyMs);
  timer.unref();

  async function sweep(): Promise<void> {
    try {
      for (let gone = SLICE_ROWS; gone >= SLICE_ROWS && !stopped;) gone = await store.write("sweep", (tx) => forget(tx, SLICE_ROWS));
      if (!stopped) await store.write("sweep uploads", forgetAbandoned);
    } catch (error) {
      log.error({ event: "sweep-failed", err: error }, "couldn't forget old answers; trying again later");
    }
  }

  return {
    runs: () => !stopped,
    stop: async () => {
      stopped = true;
      clearInterval(timer);
      await current;
    },
  };
}
