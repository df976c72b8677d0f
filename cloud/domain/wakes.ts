// What stations would rather hear of at once: a job that anybody may take now, and one that was cancelled while a device held it. Told once the commit is durable, as hints: who misses one finds it out by a claim, or a heartbeat.
import type { printJobs } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

type Row = typeof printJobs.$inferSelect;
export type Waiting = Pick<Row, "tenantId" | "station" | "needs">;
export type Cancelled = Pick<Row, "tenantId" | "jobRef"> & { deviceId: string };

function told<Of>() {
  const listeners = new Set<(of: Of) => void>();
  return {
    /** Called for each; the other way round to end it. */
    on: (hear: (of: Of) => void): (() => void) => {
      listeners.add(hear);
      return () => void listeners.delete(hear);
    },
    tell: (tx: Tx, of: Of): void => tx.after(() => listeners.forEach((hear) => hear(of))),
  };
}
const waiting = told<Waiting>();
export const onWaiting = waiting.on;
export const { on: onCancelled, tell: tellCancelled } = told<Cancelled>();

export const waits = (tx: Tx, { tenantId, station, needs }: Waiting): void => waiting.tell(tx, { tenantId, station, needs });
