// A label whose job went on without it. Where its printer may still hold it, it is dropped first: only then does what a person finds count.
import { saying } from "#shared/sayings.ts";
import type { Attempt, Work } from "./attempt.ts";
import { endOrphan } from "./ends.ts";
import type { Floor } from "./floor.ts";
import type { Flush } from "./printers/driver.ts";

/** What the printer said when it was told to drop what it holds. */
export type Dropped = Pick<Flush, "clean" | "words" | "untouched">;
export const ONCE_MORE = saying("look_once_more");
/** Words for a person where the counter says that labels came out, or can't say that none did. */
export function moveOf({ counter }: Work, now: number): string {
  const moved = now - (counter ?? now);
  return moved > 0 ? saying("counter_moved", { count: moved }) : ONCE_MORE;
}
export const mayStillCome = ({ words }: Pick<Dropped, "words">): string => saying("may_still_come", { why: words });

/** The printer was told to drop it, or couldn't be told (`isTold`); `moved` is its counter where that says more than the person did. */
export function dropped(
  floor: Floor,
  orphan: Attempt,
  { clean, words, isTold, isProven, moved }: Dropped & { isTold: boolean; isProven: boolean; moved: number | null },
): void {
  const { store, news } = floor;
  const { attemptId, work } = orphan;
  const { answered, emptied } = work;
  if (!isTold && !answered) return; // the lane tries again
  const held = isTold ? undefined : work.held;
  const look = (learned: Work) => store.change(attemptId, { work: { answered: undefined, held, ...learned } });
  const isDoubted = moved !== null && (answered?.verdict !== "destroyed" || !emptied); // what he destroyed before may have been a scrap of it
  if (!clean && !emptied) look({ unknown: mayStillCome({ words }), emptied: true });
  else if (isDoubted) look({ unknown: moveOf(work, moved), counter: moved });
  else if (answered?.verdict === "not_printed" && !isProven && !emptied) look({ unknown: ONCE_MORE, emptied: true });
  else if (answered) endOrphan(floor, orphan, answered.verdict, answered.operator);
  else look({});
  news.beat();
}
