// Makes one rate budget of those of all nodes: once a second each books what it let through, and goes on with what that left.
import type { Logger } from "pino";
import { limits } from "#shared/limits.ts";
import { settle } from "../domain/rate-budgets.ts";
import type { Budgets } from "../rate.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const KEYS_A_COMMIT = 500;

export const startRateSharer = (store: Store, log: Logger, budgets: Budgets): Worker =>
  startWorker(log, {
    event: "rate-share-failed",
    idleMs: limits.RATE_SHARE_MS,
    step: async () => {
      const spent = budgets.spent(KEYS_A_COMMIT);
      if (spent.length > 0)
        try {
          budgets.level(await store.write("rate budgets", (tx) => settle(tx, spent)));
        } catch (error) {
          budgets.keep(spent); // the store is away: it is booked when it is back
          throw error;
        }
      return spent.length === KEYS_A_COMMIT;
    },
  });
