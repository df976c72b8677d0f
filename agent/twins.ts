// Another label of the same serial, and so with the same symbol, may be about: what was scanned before this one was out may have been that one.
import type { Attempt } from "./attempt.ts";
import type { LabelState } from "./buffer-labels.ts";
import type { Floor } from "./floor.ts";

/** It may have been sealed, or never accounted for. */
const MAY_BE_SCANNED = new Set<LabelState>(["unknown", "printed", "orphan", "sealed"]);
export const hasTwin = ({ store }: Floor, { attemptId, task }: Attempt): boolean =>
  task.reprint ||
  store
    .allOfLink(task.digital_link)
    .some((one) => one.attemptId !== attemptId && store.labelsOf(one.attemptId).some(({ state }) => MAY_BE_SCANNED.has(state)));

/** A scanner on the line sees a label this long before the printer says that it is out, at most. */
export const SEEN_AHEAD_MS = 2_000;
/** A scan that came so long before, or longer, doesn't count any more: true where that is so. */
export function forgetTwin(floor: Floor, attempt: Attempt, leastMs: number, at = attempt.work.early?.result.scanned_at): boolean {
  const { store, clock, say } = floor;
  const { attemptId, jobRef } = attempt;
  if (at === undefined || clock.now() - Date.parse(at) < leastMs || !hasTwin(floor, attempt)) return false;
  store.change(attemptId, { work: { early: undefined, otherSeenAt: at } });
  say(
    "warn",
    { event: "twin", job_ref: jobRef },
    `${jobRef}: another label of this serial was scanned before this one was out: destroy that one`,
  );
  return true;
}

/** The printer has said what it knows of the label, or nobody hears it any more: what was scanned so long before, or longer, is no scan of it. */
export function answered(floor: Floor, attempt: Attempt, leastMs: number): void {
  const { store, clock } = floor;
  store.change(attempt.attemptId, { work: { outFrom: new Date(clock.now() - leastMs).toISOString() } });
  forgetTwin(floor, attempt, leastMs);
}
/** When the label came out at the earliest, where another one may be about: a picture from before may be read only now. */
export const outFrom = (floor: Floor, attempt: Attempt): { outFrom?: string } => {
  const from = attempt.work.outFrom;
  return from !== undefined && hasTwin(floor, attempt) ? { outFrom: from } : {};
};
