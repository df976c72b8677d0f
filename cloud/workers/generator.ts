// Makes passports that were asked for, one a commit; killed anywhere, the rest is made by whoever comes next.
import type { Logger } from "pino";
import * as generation from "../domain/passport-generation.ts";
import type { Signing } from "../keys.ts";
import type { Store } from "../store/store.ts";
import { eachTried, endingOwnLeases, startWorker, type Worker } from "./worker.ts";

const IDLE_MS = 200;
const AT_ONCE = 10;

export function startGenerator(store: Store, log: Logger, signing: Signing): Worker {
  async function step(stopping: () => boolean): Promise<boolean> {
    const waiting = await store.write("passport claim", (tx) => generation.claim(tx, AT_ONCE));
    await eachTried(waiting, async (row) => {
      await store.write("passport", (tx) => (stopping() ? generation.release(tx, row) : generation.generate(tx, row, signing)));
    });
    return waiting.length > 0;
  }
  const first = endingOwnLeases(store, "passport leases", generation.releaseAll);
  return startWorker(log, { event: "generate-failed", idleMs: IDLE_MS, first, step });
}
