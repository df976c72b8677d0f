// A job that anybody may take now: whoever can tell stations so hears of it once the commit is durable. It is a hint; claims find the job without it.
import type { printJobs } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

export type Waiting = Pick<typeof printJobs.$inferSelect, "tenantId" | "station" | "needs">;

const listeners = new Set<(waiting: Waiting) => void>();
/** Called for each job that came into the pool; the other way round to end it. */
export function onWaiting(hear: (waiting: Waiting) => void): () => void {
  listeners.add(hear);
  return () => void listeners.delete(hear);
}

export const waits = (tx: Tx, { tenantId, station, needs }: Waiting): void =>
  tx.after(() => listeners.forEach((hear) => hear({ tenantId, station, needs })));
