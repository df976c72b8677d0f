// One label on its way through the printer: sent when its job is surely ours, followed to its end. Never sent twice.
import { saying } from "#shared/sayings.ts";
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
  NO_COUNTERS,
  type Printer,
  type Submission,
} from "./printers/driver.ts";
import { fail, unlessRefused } from "./ends.ts";
import { nameOf, type Recall } from "./recall.ts";
import * as steps from "./steps.ts";

export type Lease = "alive" | "lost" | "unknown";
export type FlightFloor = PressFloor & {
  paused(): boolean;
  /** Makes sure that the job is still ours, for long enough to print it. */
  holds(attempt: Attempt): Promise<Lease>;
};
export type Flight = { attemptId: string; submission: Submission };
const UNSURE_MS = 10_000;
/** A printer that took so many labels, its first ones, and answered for none is taken not to know the question, where nobody has tried whether it does. */
const UNANSWERED_MAX = 2;
/** Labels in a row: what is wrong isn't theirs, and the next ones wait instead of spending their jobs' attempts. */
const REFUSED_MAX = 3;

export function flights(floor: FlightFloor, config: PrinterConfig, press: Press, recall: Recall, signal: AbortSignal) {
  const { store, clock, news } = floor;
  const { patience, mayHold, isQueue, become, durable, waitFor, counter } = press;
  let unsent = 0; // in a row
  let refused = 0; // for good, likewise
  let unanswered: number | null = 0; // labels, until one is answered for
  const unsure = new Map<string, number>(); // until when, by their attempt

  async function dispatch(attempt: Attempt, printer: Printer, isBehind = false): Promise<Flight | undefined> {
    floor.hungry();
    const lease = await floor.holds(attempt);
    if (lease === "unknown") doubt(attempt);
    const { ended, printer: taker } = store.must(attempt.attemptId);
    if (taker !== null && taker !== config.name) return undefined; // another lane was faster
    if (lease !== "alive" || press.isOver() || floor.paused() || ended !== null) {
      if (lease === "unknown" && !isBehind) become("ready", saying("waits_for_cloud"));
      if (lease === "unknown" && !press.isOver()) await news.next(LOOK_MS);
      return undefined;
    }
    const claimed = attempt.printer === config.name ? attempt : store.change(attempt.attemptId, { printer: config.name });
    const label = await steps.render(floor, claimed, config);
    if (!label || press.isOver() || !isToSend(attempt.attemptId, "rendered")) return undefined;
    if (!isBehind) become("printing", saying("prints", { job: attempt.jobRef }));
    const submission = await send(store.must(attempt.attemptId), printer, label, isBehind);
    return submission && { attemptId: attempt.attemptId, submission };
  }

  /** Of whose lease nothing could be learned: others go first for a while. */
  const isUnsure = ({ attemptId }: Attempt): boolean => (unsure.get(attemptId) ?? 0) > clock.now();
  function doubt({ attemptId }: Attempt): void {
    for (const [id, until] of unsure) if (until <= clock.now()) unsure.delete(id);
    if (!unsure.has(attemptId)) unsure.set(attemptId, clock.now() + UNSURE_MS);
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
  async function send(attempt: Attempt, printer: Printer, { bitmap }: Label, isBehind: boolean): Promise<Submission | undefined> {
    const { attemptId, task } = attempt;
    const epc = task.needs.includes("rfid") ? contentOf(attempt).epc : undefined;
    const token = isQueue ? { token: nameOf(attempt) } : {};
    const encoded = await unlessRefused(floor, attempt, () => printer.encode(bitmap, { ...(epc === undefined ? {} : { epc }), ...token }));
    if (!encoded || !isToSend(attemptId, "rendered")) return undefined;
    const before = counter.expected();
    const act = intend(attempt, encoded, before);
    let isCalledOff = false;
    const mayLeave = () => {
      isCalledOff = !isToSend(attemptId, "sending");
      return !isCalledOff;
    };
    const submission = unnoted(attempt, act, encoded) ?? (await printer.submit(encoded, mayLeave));
    const hasLeft = await durable(() => store.write(() => submitted(attemptId, act, submission, before)));
    news.beat();
    if (hasLeft) {
      unsent = refused = 0;
      return submission;
    }
    if (isCalledOff) return undefined;
    if (!submission.retryable && (refused += 1) <= REFUSED_MAX)
      fail(floor, attempt, submission.fault ?? saying("printer_refused"), { disposition: "not_printed" });
    else if (!isBehind) await openAnew(printer, submission);
    return undefined;
  }

  function intend(attempt: Attempt, { token, sha256, bytes }: Encoded, before: number | null): number {
    return store.write(() => {
      counter.expect(null); // from here on it may move, whoever writes that down: until the label's end is known
      const sentTo = isQueue ? null : press.identity(); // a queue finds the label by its name, whatever it calls itself by then
      return steps.intend(floor, attempt, config.name, { token, sha256, bytes: bytes.length, counter: before, sentTo });
    });
  }

  /** False where surely nothing left. */
  function submitted(attemptId: string, act: number, submission: Submission, before: number | null): boolean {
    const found = submission.before.labels; // somebody may have pressed feed since the last look
    if (before !== null && found !== null && found > before)
      counter.unexplained(found - before, saying("counter_without_job", { from: before, to: found }));
    const hasLeft = steps.submitted(floor, attemptId, act, submission, config);
    if (!hasLeft) counter.expect(found ?? before);
    return hasLeft;
  }

  /** A line over which nothing left. One that was hung up while the label was drawn is no fault yet: a new one shows whether the printer is there. */
  async function openAnew(printer: Printer, { fault }: Submission): Promise<void> {
    const wasQuiet = unsent++ === 0 && printer.isHungUp?.() === true;
    if (!wasQuiet) become("offline", fault ?? saying("nothing_sent"));
    await press.close();
    if (!wasQuiet) await waitFor(press.isOver, patience.retryMs[0] ?? LOOK_MS);
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
  const follow = (flying: Flight, printer: Printer): Promise<boolean> =>
    inTime(clock, patience.blockedMs, (isUp) => followed(flying, printer, isUp));
  async function followed({ attemptId, submission }: Flight, printer: Printer, isUp: () => boolean): Promise<boolean> {
    if (mayHold > 1) become("printing", saying("prints", { job: store.must(attemptId).jobRef }));
    const known = press.capabilities() as Capabilities;
    const isMute = known.fence === "none" || (!attests(known.ceiling) && !isQueue);
    const isInVain = (unanswered ?? 0) >= UNANSWERED_MAX && known.provenance["fence"] !== "probed" && submission.epc === undefined; // tags take their time
    const within = isMute ? { withinMs: patience.muteMs } : isInVain ? { withinMs: patience.inVainMs } : {};
    const isGone = () => store.must(attemptId).stage !== "sent";
    for (;;) {
      const completion = await printer.awaitCompletion(submission, { signal, ...within });
      if (completion.outcome !== "blocked") {
        if (!isMute && !isQueue) countAnswered(completion, submission);
        await landed({ attemptId, submission }, printer, completion, known);
        return completion.outcome === "confirmed";
      }
      become("blocked", completion.reason, [], completion.faults);
      if (signal.aborted) return false; // it waits in the printer: the next start asks for it
      if (isGone() || isUp()) {
        await recall.takeBack(attemptId, printer, completion.reason);
        return false;
      }
      await waitFor(() => signal.aborted || isGone(), LOOK_MS);
    }
  }

  async function landed(
    { attemptId, submission: { token } }: Flight,
    printer: Printer,
    completion: Completion,
    known: Capabilities,
  ): Promise<void> {
    const { outcome, evidence } = completion;
    if (outcome === "failed") await printer.flush(token);
    await durable(() =>
      store.write(() => {
        steps.completed(floor, attemptId, completion, config, known);
        const strangers = mayHold === 1 ? beside(completion) : 0;
        if (strangers > 0) counter.unexplained(strangers, saying("counter_strangers", { count: strangers, label: token }));
        const isKnown = mayHold === 1 && outcome === "confirmed"; // the one behind it moves it on
        counter.expect(isKnown ? (evidence.after ?? null) : null);
      }),
    );
    // What comes late belongs to nobody's next label; and one that never answers may wait for our goodbye before it prints.
    if (outcome === "unknown" && !isQueue) await press.close();
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

  return { dispatch, isUnsure, follow };
}
