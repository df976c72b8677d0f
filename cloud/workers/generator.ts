// Makes passports that were asked for, some a commit; killed anywhere, the rest is made by whoever comes next.
import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "pino";
import type { Signing } from "../domain/credential.ts";
import * as passports from "../domain/passports.ts";
import type { Store } from "../store/store.ts";
import type { Worker } from "./sweeper.ts";

const IDLE_MS = 200;
const AT_ONCE = 10;

export function startGenerator(store: Store, log: Logger, signing: Signing): Worker {
  let stopped = false;
  const stop = new AbortController();
  const done = loop();

  async function loop(): Promise<void> {
    if (store.sole) await store.write("passport leases", passports.releaseAll).catch(tellLater);
    while (!stopped) {
      const made = await some().catch(tellLater);
      if (!made) await sleep(IDLE_MS, undefined, { signal: stop.signal, ref: false }).catch(() => undefined); // woken to stop
    }
  }

  /** How many were made. */
  async function some(): Promise<number> {
    const waiting = await store.write("passport claim", (tx) => passports.claimGenerating(tx, AT_ONCE));
    for (const row of waiting) if (!stopped) await store.write("passport", (tx) => passports.generate(tx, row, signing));
    return waiting.length;
  }

  function tellLater(error: unknown): 0 {
    log.error({ event: "generate-failed", err: error }, "a passport couldn't be made; trying again");
    return 0;
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
