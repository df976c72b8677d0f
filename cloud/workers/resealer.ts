// After a change of the sealing key: what the former one closed is closed anew, a slice at a time while everything runs, until nothing needs it any more.
import type { Logger } from "pino";
import { countByKey, reseal } from "../domain/sealed-secrets.ts";
import type { Seal } from "../seal.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 60_000;
const SLICE_ROWS = 100;

export function startResealer(store: Store, log: Logger, seal: Seal): Worker {
  let after = "";
  let movedInAll = 0;
  return startWorker(log, {
    event: "reseal-failed",
    idleMs: EVERY_MS,
    step: async () => {
      if (seal.former.length === 0) return false;
      const { moved, last } = await store.write("reseal secrets", (tx) => reseal(tx, seal, after, SLICE_ROWS));
      movedInAll += moved;
      after = last ?? "";
      if (last !== undefined) return true;
      if (movedInAll > 0)
        log.info({ event: "secrets-resealed", webhooks: movedInAll, keyId: seal.id }, "what former sealing keys closed was closed anew");
      movedInAll = 0;
      return false;
    },
  });
}

/** Said at the start, so that nobody has to find it out from a delivery that couldn't be signed. */
export async function tellUnopenable(store: Store, seal: Seal, log: Logger): Promise<void> {
  const counts = await store.read("sealing keys in use", countByKey);
  const lost = [...counts].filter(([id]) => id !== seal.id && !seal.former.includes(id));
  if (lost.length === 0) return;
  const secrets = lost.reduce((sum, [, count]) => sum + count, 0);
  log.error(
    { event: "sealing-key-missing", secrets, keyIds: lost.map(([id]) => id) },
    `${secrets} webhook secrets were sealed with a key that this node doesn't have: add it as a further line of IMPRIMATUR_SEALING_KEY, or rotate those secrets`,
  );
}
