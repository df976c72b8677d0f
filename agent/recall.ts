// Labels that mustn't come out any more: the printer drops what it holds, and its counter shows whether something came out all the same.
import { saying } from "#shared/sayings.ts";
import { askAgain, closeAttempt } from "./answers.ts";
import type { Attempt } from "./attempt.ts";
import type { PrinterConfig } from "./config.ts";
import { fail } from "./ends.ts";
import { type Floor, isOver } from "./floor.ts";
import { type Dropped, dropped } from "./orphans.ts";
import type { Press } from "./press.ts";
import { isOther, movesMsFor, type Printer } from "./printers/driver.ts";
import * as steps from "./steps.ts";

/** A queue's name for a label, by which it is found beyond the agent's life. */
export const nameOf = ({ task, attemptId }: Attempt): string => `${task.job_ref}/${attemptId}`;
/** Before the counter tells of what moved. */
const settleMs = ({ label }: PrinterConfig): number => Math.max(500, movesMsFor(label.heightMm));
const EXCHANGED = { clean: false, words: saying("exchanged") };

export type Recall = ReturnType<typeof recallOf>;
export function recallOf(floor: Floor, config: PrinterConfig, press: Press) {
  const { store, news } = floor;
  const { mayHold, durable, waitFor, counter } = press;

  /** What can't be printed is taken out of the printer before its job is given back, so that it can't come out later. */
  async function takeBack(attemptId: string, printer: Printer, reason: string): Promise<void> {
    const flushed = await printer.flush(nameOf(store.must(attemptId)));
    const now = await counterNow(store.must(attemptId), printer);
    await durable(() => {
      const attempt = store.must(attemptId);
      if (attempt.stage !== "sent") return;
      const { counter: before } = attempt.work;
      // That nothing waits in it now doesn't say that nothing came out before: only a counter that stood still does, or a queue that hadn't begun.
      const isProven = flushed.clean && (flushed.untouched === true || (now !== null && now === before));
      const doubt = flushed.clean ? saying("empty_but_unsure") : flushed.words;
      if (attempt.work.early) steps.abandon(floor, attempt, saying("but_scanned", { reason }));
      else if (before !== undefined && hasMoved(attempt, now)) askAgain(floor, attempt, now);
      else if (isProven) fail(floor, attempt, saying("taken_out", { reason }), { disposition: "not_printed" });
      else {
        const known = { ...(now === null ? {} : { counter: now }), ...(flushed.clean ? { emptied: true as const } : {}) };
        store.change(attemptId, { work: { unknown: saying("and_doubt", { reason, doubt }), ...known } });
      }
    });
    news.beat();
  }

  /** Whether another printer than this one was sent it: then what this one has counted, or holds, says nothing of it. */
  const isOfAnother = ({ work: { sentTo } }: Attempt): boolean => sentTo !== undefined && isOther(press.identity() ?? sentTo, sentTo);
  /** Where the counter stands; null where there is none, or it doesn't say, or is another printer's. */
  async function counterNow(attempt: Attempt, printer: Printer): Promise<number | null> {
    if (!press.capabilities()?.counter || isOfAnother(attempt)) return null;
    await waitFor(() => false, settleMs(config)); // a label that was moving has come out by then
    return (await printer.preflight()).counters.labels;
  }
  /** Whether a label may have come out since: also where the counter was set back, or it isn't known how it stood (behind another label, or while it told nothing). */
  const hasMoved = ({ work }: Attempt, now: number | null): now is number => now !== null && now !== work.counter;

  const watched = new Set<string>();
  /**
   * Notes where the counter stands while a person is asked, to see what comes out meanwhile: where its stand before the label isn't known, and after a start
   * (`isAnew`). Tried once for each label; a person who answers before that is asked again.
   */
  async function watch(attempt: Attempt, isAnew: boolean): Promise<void> {
    const { attemptId, stage, work } = attempt;
    const isBlind = work.counter === undefined && mayHold === 1;
    const isUnmarked = work.counter !== undefined && work.stood === undefined && isAnew;
    if (stage !== "sent" || watched.has(attemptId) || !(isBlind || isUnmarked)) return;
    watched.add(attemptId);
    const printer = await press.open();
    const isCounted = press.capabilities()?.counter && !isOfAnother(attempt);
    const labels = printer && isCounted ? (await printer.preflight()).counters.labels : null;
    await durable(() =>
      store.write(() => {
        const { stage: now, work: its, jobRef } = store.must(attemptId);
        if (labels === null || now !== "sent") return;
        const strangers = isUnmarked && its.unknown !== undefined ? othersBy(labels, its) : 0;
        if (strangers > 0) counter.unexplained(strangers, saying("counter_strangers", { count: strangers, label: jobRef }));
        store.change(attemptId, { work: { counter: its.counter ?? labels, stood: labels } });
      }),
    );
  }
  /**
   * How many came out besides one that nobody heard out, as where this agent was killed, a void one before it perhaps; 0 where others of ours may have
   * moved the counter: one that was sent behind it may be sealed by now.
   */
  const othersBy = (now: number, { counter: before = now }: Attempt["work"]): number =>
    mayHold === 1 && store.inHand().filter(press.isHeld).length === 1 ? Math.max(0, now - before - 1) : 0;

  async function flush(attempt: Attempt): Promise<{ printer: Printer | undefined; flushed: Dropped }> {
    press.dropLeft();
    const printer = await press.open();
    if (!printer) return { printer, flushed: { clean: false, words: saying("cant_be_asked") } };
    return { printer, flushed: isOfAnother(attempt) ? EXCHANGED : await printer.flush(nameOf(attempt)) };
  }
  /** The job went on while the printer may have held its label, which must not come out any more, even if somebody has looked already. */
  async function drop(orphan: Attempt): Promise<void> {
    const { printer, flushed } = await flush(orphan);
    if (!printer && press.isOver()) return; // the next start does
    const now = printer ? await counterNow(orphan, printer) : null;
    const isProven = now !== null || flushed.untouched === true;
    await durable(() => {
      const found = store.must(orphan.attemptId);
      const moved = hasMoved(found, now) ? now : null;
      if (printer) counter.expect(null);
      if (found.ended === null) dropped(floor, found, { ...flushed, isTold: printer !== undefined, isProven, moved });
    });
  }

  /** A person has said that there is no good label; nothing of it may come out later. */
  async function close(attempt: Attempt): Promise<void> {
    const { printer, flushed } = await flush(attempt);
    if (!printer && press.isOver()) return;
    const { closing, stood = Infinity } = attempt.work;
    const now = printer && closing?.verdict !== "misprint" ? await counterNow(attempt, printer) : null;
    const isProven = now !== null || flushed.untouched === true;
    await durable(() => {
      counter.expect(null);
      if (isOver(store.must(attempt.attemptId))) return; // its job went on meanwhile: the label is an orphan, and asked about as one
      const isDoubted = closing?.verdict === "not_printed" || (now ?? 0) > stood;
      if (isDoubted && hasMoved(attempt, now)) askAgain(floor, attempt, now);
      else closeAttempt(floor, attempt, flushed, isProven);
    });
  }

  return { takeBack, watch, drop, close };
}
