// Renews the signing key of a node that runs for longer than a key should.
import type { Logger } from "pino";
import type { Keys } from "../keys.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 5_000;

export const startKeyKeeper = (keys: Keys, log: Logger): Worker =>
  startWorker(log, {
    event: "key-renewal-failed",
    idleMs: EVERY_MS,
    step: async () => {
      if (await keys.renew()) log.info({ event: "key-renewed", kid: keys.kid }, "the signing key was old: a new one signs from now on");
      return false;
    },
  });
