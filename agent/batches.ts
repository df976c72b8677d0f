// Reports by the call: as many as a call takes, in order, and no attempt in two calls at once.
import { limits } from "#shared/limits.ts";
import type { ReportRow } from "./buffer-reports.ts";

export type ResultRow = ReportRow & { kind: "result" };
const ROOM_BYTES = limits.RESULTS_BODY_MAX_BYTES * 0.9;
const KEY_BYTES = 64; // what a report's key takes beside it

export function batchesOf(rows: ResultRow[], most: number): ResultRow[][] {
  const batches: ResultRow[][] = [];
  const taken = new Set<string>();
  for (let rest = rows; rest.length > 0;) {
    const batch = withinBytes(rest.slice(0, most));
    batches.push(batch);
    for (const { attemptId } of batch) taken.add(attemptId);
    rest = rest.slice(batch.length).filter(({ attemptId }) => !taken.has(attemptId));
  }
  return batches;
}
function withinBytes(rows: ResultRow[]): ResultRow[] {
  let sum = 0;
  const fitting = rows.filter(({ bytes }) => (sum += bytes + KEY_BYTES) <= ROOM_BYTES);
  return fitting.length > 0 ? fitting : rows.slice(0, 1);
}
