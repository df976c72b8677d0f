// Looks for print jobs whose time has come: a read while there are none, so that an idle cloud writes nothing.
import type { Logger } from "pino";
import { isDue, reap } from "../domain/reaper.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 200;
const AT_ONCE = 50;

export const startReaper = (store: Store, log: Logger): Worker =>
  startWorker(log, {
    event: "reap-failed",
    idleMs: EVERY_MS,
    step: async () => (await store.read("reap?", isDue)) && (await store.write("reap", (tx) => reap(tx, AT_ONCE))) >= AT_ONCE,
  });
