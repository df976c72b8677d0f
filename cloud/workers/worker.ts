// What every worker is: work, a pause where there is none, an error told and tried again, and an end that waits for what was begun.
import type { Logger } from "pino";
import type { Store, Tx } from "../store/store.ts";

export type Worker = { runs(): boolean; stop(): Promise<void>; /** There is something to do: no pause now. */ wake(): void };
type Work = {
  /** What its errors are logged as. */
  event: string;
  idleMs: number;
  /** Done once, before the first step. */
  first?: (() => Promise<void>) | undefined;
  /** One step; true when there may be more to do at once. It should end early once `stopping()`. */
  step(stopping: () => boolean): Promise<boolean>;
};

export function startWorker(log: Logger, { event, idleMs, step, ...work }: Work): Worker {
  let { first } = work;
  let stopped = false;
  let woken = false; // also in the middle of a step, which may have looked already
  let endPause = () => {};
  const pause = () =>
    new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, idleMs).unref();
      endPause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  const wake = () => {
    woken = true;
    endPause();
  };

  async function loop(): Promise<void> {
    while (!stopped) {
      woken = false;
      if (!(await tried()) && !stopped && !woken) await pause();
    }
  }
  async function tried(): Promise<boolean> {
    try {
      await first?.();
      first = undefined;
      return await step(() => stopped);
    } catch (error) {
      log.error({ event, err: error }, "a worker's step failed; trying again");
      return false;
    }
  }

  const done = loop();
  return {
    runs: () => !stopped,
    wake,
    stop: async () => {
      stopped = true;
      wake();
      await done;
    },
  };
}

/** Each of these has its turn, though one before it failed; what failed is thrown after them. */
export async function eachTried<Item>(items: Iterable<Item>, one: (item: Item) => Promise<void>): Promise<void> {
  const failures: unknown[] = [];
  for (const item of items) await one(item).catch((error: unknown) => failures.push(error));
  if (failures.length > 0) throw failures.length === 1 ? failures[0] : new AggregateError(failures, `${failures.length} of them failed`);
}

/** What a node that is alone held leases of when it died, nobody works on: it begins by ending them. */
export const endingOwnLeases = (store: Store, label: string, end: (tx: Tx) => Promise<void>): Work["first"] =>
  store.sole && (() => store.write(label, end));
