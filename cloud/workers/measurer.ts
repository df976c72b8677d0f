// Looks now and then at what waits, so that whoever watches the figures sees it grow; every node says the same.
import type { Logger } from "pino";
import { backlog, type Backlog } from "../domain/backlog.ts";
import { freeBytesUnder } from "../files.ts";
import type { Metrics } from "../metrics.ts";
import type { Store } from "../store/store.ts";
import { startWorker, type Worker } from "./worker.ts";

const EVERY_MS = 10_000;
const FIGURES: Record<keyof Backlog, [name: string, help: string, per: number]> = {
  eventsWaiting: ["outbox_events_waiting", "Events of which deliveries have still to be made, counted to 10,000", 1],
  deliveriesWaiting: ["webhook_deliveries_waiting", "Deliveries that will be tried, counted to 10,000", 1],
  deliveriesUnwell: ["webhook_deliveries_unwell", "Deliveries that failed for good or are held, counted to 10,000", 1],
  webhooksDisabled: ["webhooks_disabled", "Webhooks that are disabled", 1],
  dispatchLateMs: [
    "webhook_dispatch_late_seconds",
    "How long the webhook that is due longest, or the oldest event, has waited for a dispatcher",
    1_000,
  ],
  reapLateMs: ["print_jobs_late_seconds", "How long the print job that is due longest has waited for the reaper", 1_000],
  importsOpen: ["imports_open", "Imports that aren't worked off yet", 1],
};

export function startMeasurer(store: Store, log: Logger, metrics: Metrics, dataDir: string): Worker {
  let known: Backlog | undefined;
  for (const [key, [name, help, per]] of Object.entries(FIGURES))
    metrics.watch(name, help, () => (known?.[key as keyof Backlog] ?? 0) / per);
  metrics.watch("data_dir_free_bytes", "Room on the disk under the data folder; 0 where nothing can be asked of it", () =>
    roomUnder(dataDir),
  );
  return startWorker(log, {
    event: "measure-failed",
    idleMs: EVERY_MS,
    step: async () => {
      known = await store.read("backlog", backlog);
      return false;
    },
  });
}

/** A folder that is gone, or a disk that fails, is told by the figure: thrown, it would take all others along. */
function roomUnder(dataDir: string): number {
  try {
    return freeBytesUnder(dataDir);
  } catch {
    return 0;
  }
}
