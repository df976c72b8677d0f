// Says which origin this node names, and hears what the others on its store name: where they differ, what one prints or signs isn't another's.
import { randomUUID } from "node:crypto";
import type { Logger } from "pino";
import { beHeard, originsHeard } from "../domain/nodes.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 5_000;

export function startRollCall(store: Store, log: Logger, origin: string): Worker {
  const id = randomUUID();
  let told = "";
  return startWorker(log, {
    event: "roll-call-failed",
    idleMs: EVERY_MS,
    step: async () => {
      const heard = await store.write("roll call", async (tx) => {
        await beHeard(tx, id, origin);
        return originsHeard(tx);
      });
      const others = heard.filter((other) => other !== origin).join(", ");
      if (others === told) return false;
      told = others;
      if (others === "") log.info({ event: "public-urls-agree" }, `all nodes that are heard of name ${origin}`);
      else
        log.warn(
          { event: "public-urls-differ", origin, others },
          `labels, links and tokens name ${origin} here, and ${others} on nodes heard of within the last minute: set IMPRIMATUR_PUBLIC_URL the same on all`,
        );
      return false;
    },
  });
}
