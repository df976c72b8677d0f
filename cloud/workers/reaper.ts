// Looks for print jobs whose time has come: a read while there are none, so that an idle cloud writes nothing.
import type { Logger } from "pino";
import { dueNow, isDue, reap, reapOne } from "../domain/reaper.ts";
import type { Store } from "../store/store.ts";
import { eachTried, startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 200;
const AT_ONCE = 50;
const ONE_BY_ONE = 1_000;
const AWAY_MS = 10_000; // without a look

export function startReaper(store: Store, log: Logger): Worker {
  let lookedAt = -Infinity;
  let backAt: number | undefined;
  /** Where it is the first one for long, as after a start, no station could say anything either. */
  async function look(): Promise<boolean> {
    const { is, now } = await store.read("reap?", async (tx) => ({ is: await isDue(tx), now: tx.now }));
    if (performance.now() - lookedAt > AWAY_MS || now < (backAt ?? now)) backAt = now; // or by a clock that was set back since
    lookedAt = performance.now();
    return is;
  }
  /** Where one of many can't be done, it holds up none of the others. */
  async function oneByOne(): Promise<void> {
    const due = await store.write("reap which", (tx) => dueNow(tx, ONE_BY_ONE));
    await eachTried(due, (one) => store.write("reap one", (tx) => reapOne(tx, one, backAt)));
  }
  return startWorker(log, {
    event: "reap-failed",
    idleMs: EVERY_MS,
    step: async () => {
      if (!(await look())) return false;
      try {
        return (await store.write("reap", (tx) => reap(tx, AT_ONCE, backAt))) >= AT_ONCE;
      } catch {
        await oneByOne(); // says what went wrong, where it goes wrong again
        return false;
      } finally {
        lookedAt = performance.now(); // however long that took
      }
    },
  });
}
