// One label on its way through the printer: sent when its job is surely ours, followed to its end, taken back where it can't come out. Never sent twice.
import { saying } from "#shared/sayings.ts";
import { askAgain, closeAttempt } from "./answers.ts";
import type { Attempt } from "./attempt.ts";
import type { PrinterConfig } from "./config.ts";
import { inTime } from "./clock.ts";
import { contentOf } from "./drawing.ts";
import type { Label } from "./label.ts";
import { LOOK_MS, type Press, type PressFloor } from "./press.ts";
import {
  attests,
  type Capabilities,
  type Completion,
  type Encoded,
  isCut,
  isOther,
  movesMsFor,
  NO_COUNTERS,
  type Printer,
  type Submission,
} from "./printers/driver.ts";
import { can } from "./printers/index.ts";
import { fail, unlessRefused } from "./ends.ts";
import { isOver } from "./floor.ts";
import { type Dropped, dropped } from "./orphans.ts";
import * as steps from "./steps.ts";

export type Lease = "alive" | "lost" | "unknown";
export type FlightFloor = PressFloor & {
  paused(): boolean;
  /** Makes sure that the job is still ours, for long enough to print it. */
  holds(attempt: Attempt): Promise<Lease>;
};
export type Flight = { attemptId: string; submission: Submission };
/** Before the counter tells of what moved. */
const settleMs = ({ label }: PrinterConfig): number => Math.max(500, movesMsFor(label.heightMm));
const UNSURE_MS = 10_000;
/** So many labels, and none before them, that the printer took and never answered for: it doesn't know the question, of which nobody has tried whether it does. */
const UNANSWERED_MAX = 2;
const EXCHANGED = { clean: false, words: saying("exchanged") };
/** A queue's jobs keep it beyond the agent's life. */
const nameOf = ({ task, attemptId }: Attempt): string => `${task.job_ref}/${attemptId}`;

export function flights(floor: FlightFloor, config: PrinterConfig, press: Press, signal: AbortSignal) {
  const { store, clock, news } = floor;
  const { patience, become, durable, waitFor, counter } = press;
  const mayHold = config.inFlight ?? 1;
  const isQueue = can(config, "queue");
  let unsent = 0; // in a row
  let unanswered: number | null = 0; // labels, until one is answered for
  const unsure = new Map<string, number>(); // attempts of whose lease nothing could be learned, and until when others go first

  async function dispatch(attempt: Attempt, at: Printer, isBehind = false): Promise<Flight | undefined> {
    floor.hungry();
    const lease = await floor.holds(attempt);
    for (const [id, until] of unsure) if (until <= clock.now()) unsure.delete(id);
    if (lease === "unknown" && !unsure.has(attempt.attemptId)) unsure.set(attempt.attemptId, clock.now() + UNSURE_MS);
    const { ended, printer } = store.must(attempt.attemptId);
    if (printer !== null && printer !== config.name) return undefined; // another lane was faster
    if (lease !== "alive" || press.isOver() || floor.paused() || ended !== null) {
      if (lease === "unknown" && !isBehind) become("ready", saying("waits_for_cloud"));
      if (lease === "unknown" && !press.isOver()) await news.next(LOOK_MS);
      return undefined;
    }
    const claimed = attempt.printer === config.name ? attempt : store.change(attempt.attemptId, { printer: config.name });
    const label = await steps.render(floor, claimed, config);
    if (!label || press.isOver() || !isToSend(attempt.attemptId, "rendered")) return undefined;
    if (!isBehind) become("printing", saying("prints", { job: attempt.jobRef }));
    const submission = await send(store.must(attempt.attemptId), at, label, isBehind);
    return submission && { attemptId: attempt.attemptId, submission };
  }

  /**
   * Its job may have gone on, or been refused, while it was drawn or the printer was asked how it is, or somebody pressed pause; and where the machine stood still
   * meanwhile, its lease is over.
   */
  function isToSend(attemptId: string, at: "rendered" | "sending"): boolean {
    const { stage, ended, leaseUntil } = store.must(attemptId);
    return stage === at && ended === null && leaseUntil > clock.now() && !floor.paused();
  }

  /** Undefined where surely nothing left: the same attempt may be sent again. */
  async function send(attempt: Attempt, at: Printer, { bitmap }: Label, isBehind: boolean): Promise<Submission | undefined> {
    const { attemptId, task } = attempt;
    const epc = task.needs.includes("rfid") ? contentOf(attempt).epc : undefined;
    const token = isQueue ? { token: nameOf(attempt) } : {};
    const encoded = await unlessRefused(floor, attempt, () => at.encode(bitmap, { ...(epc === undefined ? {} : { epc }), ...token }));
    if (!encoded || !isToSend(attemptId, "rendered")) return undefined;
    const { sha256, bytes } = encoded;
    const before = counter.expected();
    const act = store.write(() => {
      counter.expect(null); // from here on it may move, whoever writes that down: until the label's end is known
      const sentTo = isQueue ? null : press.identity(); // a queue finds the label by its name, whatever it calls itself by then
      return steps.intend(floor, attempt, config.name, { token: encoded.token, sha256, bytes: bytes.length, counter: before, sentTo });
    });
    let isCalledOff = false;
    const mayLeave = () => {
      isCalledOff = !isToSend(attemptId, "sending");
      return !isCalledOff;
    };
    const submission = unnoted(attempt, act, encoded) ?? (await at.submit(encoded, mayLeave));
    const left = await durable(() =>
      store.write(() => {
        const found = submission.before.labels; // somebody may have pressed feed since the last look
        if (before !== null && found !== null && found > before)
          counter.unexplained(found - before, saying("counter_without_job", { from: before, to: found }));
        const hasLeft = steps.submitted(floor, attemptId, act, submission, config);
        if (!hasLeft) counter.expect(found ?? before);
        return hasLeft;
      }),
    );
    news.beat();
    if (left) {
      unsent = 0;
      return submission;
    }
    if (isCalledOff) return undefined;
    if (!submission.retryable) fail(floor, attempt, submission.fault ?? saying("printer_refused"), { disposition: "not_printed" });
    else if (!isBehind) {
      const wasQuiet = unsent++ === 0 && at.isHungUp?.() === true; // hung up while the label was drawn: a new line shows whether it is there
      if (!wasQuiet) become("offline", submission.fault ?? saying("nothing_sent"));
      await press.close();
      if (!wasQuiet) await waitFor(press.isOver, patience.retryMs[0] ?? LOOK_MS);
    }
    return undefined;
  }

  /** What can't be written down outside of the buffer isn't begun. */
  function unnoted({ attemptId, jobRef, serial }: Attempt, act: number, { token, sha256, bytes }: Encoded): Submission | undefined {
    const at = clock.now();
    try {
      store.noteBegun({
        n: act, attempt_id: attemptId, job_ref: jobRef, serial, printer: config.name, token, sha256, bytes: bytes.length, at,
      }); // oxfmt-ignore
      return undefined;
    } catch (error) {
      const fault = saying("beginning_unwritten", { why: (error as Error).message });
      return { token, bytesOffered: bytes.length, bytesAccepted: 0, retryable: true, before: NO_COUNTERS, at, fault };
    }
  }

  /** Whether it came out well, so that what is behind it can be told from it. */
  const follow = (flying: Flight, at: Printer): Promise<boolean> => inTime(clock, patience.blockedMs, (isUp) => followed(flying, at, isUp));
  async function followed({ attemptId, submission }: Flight, at: Printer, isUp: () => boolean): Promise<boolean> {
    if (mayHold > 1) become("printing", saying("prints", { job: store.must(attemptId).jobRef }));
    const known = press.capabilities() as Capabilities;
    const isMute = known.fence === "none" || (!attests(known.ceiling) && !isQueue);
    const isInVain = (unanswered ?? 0) >= UNANSWERED_MAX && known.provenance["fence"] !== "probed" && submission.epc === undefined; // tags take their time
    const within = isMute ? { withinMs: patience.muteMs } : isInVain ? { withinMs: patience.inVainMs } : {};
    for (;;) {
      const completion = await at.awaitCompletion(submission, { signal, ...within });
      if (completion.outcome !== "blocked") {
        if (!isMute && !isQueue) countAnswered(completion, submission);
        const after = completion.outcome === "confirmed" ? completion.evidence.after : undefined;
        if (completion.outcome === "failed") await at.flush(submission.token);
        await durable(() =>
          store.write(() => {
            steps.completed(floor, attemptId, completion, config, known);
            const strangers = mayHold === 1 ? beside(completion) : 0;
            if (strangers > 0) counter.unexplained(strangers, saying("counter_strangers", { count: strangers, label: submission.token }));
            counter.expect((mayHold === 1 && after) || null); // the one behind it moves it on
          }),
        );
        // What comes late belongs to nobody's next label; and one that never answers may wait for our goodbye before it prints.
        if (completion.outcome === "unknown" && !isQueue) await press.close();
        return completion.outcome === "confirmed";
      }
      become("blocked", completion.reason, [], completion.faults);
      const isGone = store.must(attemptId).stage !== "sent";
      if (signal.aborted) return false; // it waits in the printer: the next start asks for it
      if (isGone || isUp()) {
        await takeBack(attemptId, at, completion.reason);
        return false;
      }
      await waitFor(() => signal.aborted || store.must(attemptId).stage !== "sent", LOOK_MS);
    }
  }

  /** A language may be spoken without its question for the end of a label: who speaks it so would keep every label waiting for as long as a real one may take. */
  function countAnswered({ outcome, unanswered: isUnanswered }: Completion, submission: Submission): void {
    if (outcome !== "unknown") unanswered = null;
    if (unanswered === null || !isUnanswered || signal.aborted || isCut(submission)) return;
    unanswered += 1;
    if (unanswered !== UNANSWERED_MAX) return;
    const words = `it has answered for none of its labels: from now on a scan or a person is waited for after ${patience.inVainMs / 1_000} s`;
    floor.say("warn", { event: "unanswered", printer: config.name }, `${config.name}: ${words}`);
  }

  /** How many labels came out besides one whose outcome is unknown, by the counter: that there are others is certain, and only which one is ours is asked. */
  function beside({ outcome, evidence: { before, after, voids = 0 } }: Completion): number {
    return outcome === "unknown" && before !== undefined && after !== undefined ? Math.max(0, after - before - voids - 1) : 0;
  }

  /** What can't be printed is taken out of the printer before its job is given back, so that it can't come out later. */
  async function takeBack(attemptId: string, at: Printer, reason: string): Promise<void> {
    const flushed = await at.flush(nameOf(store.must(attemptId)));
    const now = await counterNow(store.must(attemptId), at);
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
  async function counterNow(attempt: Attempt, at: Printer): Promise<number | null> {
    if (!press.capabilities()?.counter || isOfAnother(attempt)) return null;
    await waitFor(() => false, settleMs(config)); // a label that was moving has come out by then
    return (await at.preflight()).counters.labels;
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
    const at = await press.open();
    const isCounted = press.capabilities()?.counter && !isOfAnother(attempt);
    const labels = at && isCounted ? (await at.preflight()).counters.labels : null;
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

  async function flush(attempt: Attempt): Promise<{ at: Printer | undefined; flushed: Dropped }> {
    press.dropLeft();
    const at = await press.open();
    if (!at) return { at, flushed: { clean: false, words: saying("cant_be_asked") } };
    return { at, flushed: isOfAnother(attempt) ? EXCHANGED : await at.flush(nameOf(attempt)) };
  }
  /** The job went on while the printer may have held its label, which must not come out any more, even if somebody has looked already. */
  async function drop(orphan: Attempt): Promise<void> {
    const { at, flushed } = await flush(orphan);
    if (!at && press.isOver()) return; // the next start does
    const now = at ? await counterNow(orphan, at) : null;
    const isProven = now !== null || flushed.untouched === true;
    await durable(() => {
      const found = store.must(orphan.attemptId);
      const moved = hasMoved(found, now) ? now : null;
      if (at) counter.expect(null);
      if (found.ended === null) dropped(floor, found, { ...flushed, isTold: at !== undefined, isProven, moved });
    });
  }

  /** A person has said that there is no good label; nothing of it may come out later. */
  async function close(attempt: Attempt): Promise<void> {
    const { at, flushed } = await flush(attempt);
    if (!at && press.isOver()) return;
    const { closing, stood = Infinity } = attempt.work;
    const now = at && closing?.verdict !== "misprint" ? await counterNow(attempt, at) : null;
    const isProven = now !== null || flushed.untouched === true;
    await durable(() => {
      counter.expect(null);
      if (isOver(store.must(attempt.attemptId))) return; // its job went on meanwhile: the label is an orphan, and asked about as one
      const isDoubted = closing?.verdict === "not_printed" || (now ?? 0) > stood;
      if (isDoubted && hasMoved(attempt, now)) askAgain(floor, attempt, now);
      else closeAttempt(floor, attempt, flushed, isProven);
    });
  }

  const isUnsure = ({ attemptId }: Attempt): boolean => (unsure.get(attemptId) ?? 0) > clock.now();
  return { dispatch, isUnsure, follow, watch, close, drop };
}
