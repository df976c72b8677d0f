// What a person says of a label, and what follows: judged by the table of asks, written down with who said it, and doubted where the printer's counter does.
import { Refusal } from "#shared/errors.ts";
import { saying } from "#shared/sayings.ts";
import { type Ask, allowedFor, askOf, type Attempt, GIVE_UP, isLying, paperMayExist, type Verdict, type Work } from "./attempt.ts";
import { becameOf, endOrphan, fail, REASONS } from "./ends.ts";
import { instant } from "./clock.ts";
import { actorOf, type Floor, isOver, MAY_BE_HERE } from "./floor.ts";
import { type Dropped, dropped, mayStillCome, moveOf, ONCE_MORE } from "./orphans.ts";
import { attested, useEarly } from "./steps.ts";

const wrongVerdict = (attempt: Attempt, verdict: Verdict) => {
  const allowed = allowedFor(attempt);
  const asked = askOf(attempt);
  const words = asked ? `asked is ${asked}` : "nothing is asked about this job now";
  const instead = allowed.length > 0 ? `; say ${allowed.join(", ")}` : "";
  return new Refusal("ILLEGAL_TRANSITION", `${verdict} doesn't answer that: ${words}${instead}`, { ask: asked, allowed: [...allowed] });
};

const SECOND_WORD_MS = 5_000;
/** Two people may answer one question at once, or one twice whose answer was lost: what the second says of the other label doesn't give up this one. */
function isSecondWord({ store, clock }: Floor, { task }: Attempt): boolean {
  const about = store.allOfLink(task.digital_link);
  const labels = about.flatMap(({ attemptId }) => store.labelsOf(attemptId)).filter(({ state }) => state === "destroyed");
  const saidAt = [...about.map(({ work }) => Date.parse(work.destroyedAt ?? "")), ...labels.map(({ changed_at: at }) => at)];
  return saidAt.some((at) => clock.now() - at < SECOND_WORD_MS);
}
const secondWord = () => new Refusal("ILLEGAL_TRANSITION", saying("second_word"), { ask: null, allowed: [...GIVE_UP] });

/** Two people may answer one question one after the other, and the second's word belongs to no other question that was asked meanwhile. */
const otherQuestion = (attempt: Attempt) =>
  new Refusal("ILLEGAL_TRANSITION", saying(askOf(attempt) === null ? "asked_no_more" : "other_question"), {
    ask: askOf(attempt),
    allowed: [...allowedFor(attempt)],
  });
const isOther = ({ attemptId, askSince }: Attempt, { of, since }: Question): boolean =>
  (of !== undefined && of !== attemptId) || (since !== undefined && (since === null ? null : Date.parse(since)) !== askSince);

/** As the state had it when the person looked at it, null where nothing was asked; who doesn't name it answers what is asked now. */
export type Question = { of?: string | undefined; since?: string | null | undefined };
/** What an operator says of a label; refuses what doesn't answer the question. */
export function answer(floor: Floor, jobRef: string, verdict: Verdict, operator: string, question: Question = {}): Attempt {
  const { store, news, say } = floor;
  const known = store.ofJob(jobRef);
  const [newest] = known;
  if (!newest) throw new Refusal("NOT_FOUND", saying("no_such_job", { job: jobRef }));
  const open = known.filter(({ ended }) => ended === null);
  const fitting = open.filter((one) => allowedFor(one).includes(verdict));
  const asking = (one: Attempt) => askOf(one) !== null; // who is asked for one label doesn't give another up
  const meant = open.find(({ attemptId }) => attemptId === question.of);
  const attempt = meant ?? fitting.find(asking) ?? fitting[0] ?? open.find(asking) ?? open[0] ?? newest;
  if (isOther(attempt, question)) throw otherQuestion(attempt);
  if (!allowedFor(attempt).includes(verdict)) throw wrongVerdict(attempt, verdict);
  if (verdict === "destroyed" && askOf(attempt) === null && isSecondWord(floor, attempt)) throw secondWord();
  store.write(() => answers[askOf(attempt) ?? "scan"](floor, attempt, verdict, operator));
  say("info", { event: "verdict", job_ref: jobRef, verdict, operator }, `${operator} says of ${jobRef}: ${verdict}`);
  news.beat();
  return store.must(attempt.attemptId);
}

/** Set aside before anything of it can be on paper: its lease ends, and the cloud gives it out again. */
export function skip(floor: Floor, jobRef: string, operator: string, isPrinting: (printer: string) => boolean): void {
  const { store, news, say } = floor;
  const known = store.ofJob(jobRef);
  if (known.length === 0) throw new Refusal("NOT_FOUND", saying("no_such_job", { job: jobRef }));
  const attempt = known.find((one) => maySkip(one) && !(one.printer !== null && isPrinting(one.printer)));
  const why = known.every(({ ended }) => ended !== null) ? "nothing_to_skip" : "cant_skip"; // skipped by somebody else a moment ago, perhaps
  if (!attempt) throw new Refusal("ILLEGAL_TRANSITION", saying(why), { allowed: known.flatMap((one) => allowedFor(one)) });
  store.change(attempt.attemptId, { ended: "let go" });
  say("info", { event: "skipped", job_ref: jobRef, operator }, `${operator} skips ${jobRef}: it comes again when its lease is over`);
  news.beat();
}
export const maySkip = (attempt: Attempt): boolean => attempt.ended === null && !paperMayExist(attempt) && !attempt.work.begun;

/** Scans from before this count for nothing any more. */
const gone = ({ clock }: Floor, verdict: Verdict) => (verdict === "destroyed" ? { destroyedAt: instant(clock), early: undefined } : {});
type Answer = (floor: Floor, attempt: Attempt, verdict: Verdict, operator: string) => void;
const onOutcome: Answer = (floor, attempt, verdict, operator) => {
  const { attemptId } = attempt;
  if (verdict === "good") {
    attested(floor, attempt, actorOf(operator));
    return useEarly(floor, attemptId);
  }
  floor.store.change(attemptId, {
    stage: "closing",
    work: { ...gone(floor, verdict), closing: { verdict, operator, reason: REASONS[verdict] } },
  });
  if (hasNoLane(floor, attempt)) closeAttempt(floor, floor.store.must(attemptId), UNNAMED);
};

/** Whichever job they came from: what lies there carries the serial, and no job. */
const onEarlier: Answer = (floor, asking, verdict, operator) => {
  for (const earlier of floor.store.allOfLink(asking.task.digital_link)) {
    if (isOver(earlier)) saidOfOver(floor, earlier, { verdict, operator });
    else saidUnderWay(floor, earlier, asking, { verdict, operator });
  }
};
type Word = { verdict: Verdict; operator: string };
function saidOfOver(floor: Floor, earlier: Attempt, { verdict, operator }: Word): void {
  const { store } = floor;
  const { attemptId, work, ended } = earlier;
  if (ended !== null) store.relabel(attemptId, MAY_BE_HERE, becameOf(verdict), REASONS[verdict]);
  else if (work.held && !work.emptied && !hasNoLane(floor, earlier)) store.change(attemptId, { work: { answered: { verdict, operator } } });
  else endOrphan(floor, earlier, verdict, operator);
}
/** An attempt under way asks about its own label, so it is left alone, unless it asks this very question; so is a label that is later than the one that asks. */
function saidUnderWay({ store, clock }: Floor, earlier: Attempt, asking: Attempt, word: Word): void {
  const { attemptId, createdAt } = earlier;
  if (maySkip(earlier) || askOf(earlier) === "destroy_earlier") store.change(attemptId, { work: { destroyedAt: instant(clock) } });
  else if (isLying(earlier) && createdAt < asking.createdAt) store.change(attemptId, { work: { answered: word } });
}

const answers: Record<Ask | "scan", Answer> = {
  attest: onOutcome,
  unknown_outcome: onOutcome,
  destroy_earlier: onEarlier,
  destroy_void: (floor, attempt, _verdict, operator) => {
    const { store } = floor;
    const { attemptId, work } = attempt;
    store.relabel(attemptId, ["void"], "destroyed", saying("destroyed_as_says", { operator }));
    store.change(attemptId, { work: gone(floor, "destroyed") });
    if (work.failing !== undefined) return fail(floor, attempt, work.failing, { disposition: "destroyed", operator });
    store.change(attemptId, { work: { voids: undefined } });
  },
  scan: (floor, attempt, verdict, operator) => {
    floor.store.change(attempt.attemptId, { work: gone(floor, verdict) });
    if (verdict === "misprint") putAside(floor, attempt);
    fail(floor, attempt, saying("not_verified", { reason: REASONS[verdict] }), {
      operator,
      ...(verdict === "destroyed" ? { disposition: "destroyed" } : {}),
    });
  },
};

const putAside = ({ store }: Floor, { attemptId }: Attempt) =>
  store.relabel(attemptId, ["unknown", "printed"], "printed", saying("misprint_to_destroy"));

/** Its printer was renamed or taken out of the settings, and no lane does anything for it any more; what is on paper and names none is of a lost buffer. */
const hasNoLane = ({ printers }: Floor, { printer, stage }: Attempt) =>
  printer === null ? paperMayExist({ stage }) : !printers.some(({ name }) => name === printer);
const UNNAMED = { clean: false, words: saying("printer_unnamed") };
/** What lanes that are gone have left: words that were heard are told, and what isn't begun others may print. */
export function takeOver(floor: Floor): void {
  for (const one of floor.store.inHand().filter((each) => hasNoLane(floor, each))) {
    if (one.stage === "closing") closeAttempt(floor, one, UNNAMED);
    else if (one.stage === "waiting") floor.store.change(one.attemptId, { printer: null });
    else if (maySkip(one)) floor.store.change(one.attemptId, { ended: "let go" }); // what was said of its drawing holds for that printer
  }
  // Its printer may hold it still under another name: what was said before that is asked once more, as of any other that can't be told to drop it.
  for (const orphan of floor.store.orphans().filter((each) => each.work.held && hasNoLane(floor, each)))
    floor.store.write(() => dropped(floor, orphan, { ...UNNAMED, isTold: true, isProven: false, moved: null }));
}

/** A person found nothing, and a label has come out since: the answer was true when it was given, and has to be given anew. */
export function askAgain(floor: Floor, attempt: Attempt, counter: number): void {
  lookAgain(floor, attempt, { unknown: moveOf(attempt.work, counter), counter, stood: counter });
}
function lookAgain(floor: Floor, { attemptId, jobRef }: Attempt, learned: Work & { unknown: string }): void {
  floor.store.change(attemptId, { stage: "sent", work: { closing: undefined, needsPerson: undefined, ...learned } });
  floor.say("warn", { event: "unknown_outcome", job_ref: jobRef }, `${jobRef}: ${learned.unknown}`);
  floor.news.beat();
}

/**
 * After the printer was told to drop what it holds: only then can nothing come out any more. What a person said before that holds where a counter or a
 * queue proves it; else they look once more, and where the printer confirms nothing, make sure first; after that the next attempt is told of a label.
 */
export function closeAttempt(floor: Floor, attempt: Attempt, flushed: Dropped, isProven = false): void {
  const { verdict, operator, reason } = attempt.work.closing ?? {
    verdict: "misprint" as const,
    operator: "unknown",
    reason: saying("given_up"),
  };
  const disposition = verdict === "not_printed" || verdict === "destroyed" ? verdict : undefined;
  if (disposition && !flushed.clean && !attempt.work.emptied)
    return lookAgain(floor, attempt, { unknown: mayStillCome(flushed), emptied: true });
  if (verdict === "not_printed" && !isProven && !attempt.work.emptied)
    return lookAgain(floor, attempt, { unknown: ONCE_MORE, emptied: true });
  if (verdict === "misprint") putAside(floor, attempt);
  const isContradicted = verdict === "not_printed" && !isProven && attempt.work.early !== undefined; // what was scanned came out
  fail(floor, attempt, flushed.clean ? reason : saying("but_words", { reason, words: flushed.words }), {
    operator,
    ...(disposition && flushed.clean && !isContradicted ? { disposition } : {}),
  });
}
