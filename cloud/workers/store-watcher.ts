// Keeps in mind how far the store has gone, and ends the node on one that was set back.
import type { Logger } from "pino";
import { keepSeen, setBackOf } from "../seen-store.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 10_000;

export const startStoreWatcher = (store: Store, log: Logger, dataDir: string, onFatal: (line: string, cause: unknown) => void): Worker =>
  startWorker(log, {
    event: "store-watching-failed",
    idleMs: EVERY_MS,
    step: async () => {
      const fault = await setBackOf(store, dataDir);
      if (fault) onFatal(`${fault.says}: ${fault.todo}`, new Error(fault.says));
      else await keepSeen(store, dataDir);
      return false;
    },
  });
