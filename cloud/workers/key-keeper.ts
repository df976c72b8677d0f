// Renews the signing key of a node that runs for longer than a key should, or whose key was retired; and signs anew what a retired one had signed.
import type { Logger } from "pino";
import { type Place, resign, resigned, START, toResign } from "../domain/signing-keys.ts";
import type { Keys } from "../keys.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 5_000;

export const startKeyKeeper = (store: Store, log: Logger, keys: Keys): Worker =>
  startWorker(log, {
    event: "key-renewal-failed",
    idleMs: EVERY_MS,
    step: async (stopping) => {
      await renewed(log, keys);
      await resignAll(store, log, keys, stopping);
      return false;
    },
  });

async function renewed(log: Logger, keys: Keys): Promise<void> {
  if (await keys.renew())
    log.info({ event: "key-renewed", kid: keys.kid }, "the signing key was old, or retired: a new one signs from now on");
}

/** From the first passport to the last, once more where a node may have signed with the retired key meanwhile. */
async function resignAll(store: Store, log: Logger, keys: Keys, stopping: () => boolean): Promise<void> {
  const { retired, allOver, at } = await store.read("keys to sign anew for", toResign);
  if (retired.size === 0) return;
  let credentials = 0;
  for (let after: Place | undefined = START; after;) {
    if (stopping()) return;
    const from: Place = after;
    const { count, next } = await store.write("sign passports anew", (tx) => resign(tx, keys, retired, from));
    credentials += count;
    after = next;
    await renewed(log, keys); // all of them may take minutes, and what is retired meanwhile isn't to wait for that
  }
  if (allOver) await store.write("signed anew", (tx) => resigned(tx, retired, at));
  if (credentials > 0 || allOver)
    log.info(
      { event: "passports-resigned", kids: [...retired.keys()], credentials },
      "what retired keys had signed of passports was signed anew",
    );
}
