// How an attempt ends badly: it failed and says so, or its job went on without it.
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { type Attempt, isLying, paperMayExist, type Verdict } from "./attempt.ts";
import { actorOf, DEVICE, type Floor, isOver, MAY_BE_HERE, tell } from "./floor.ts";
import { readable } from "./words.ts";

/** What a person's word is in the history. */
export const REASONS: Record<Verdict, string> = {
  good: "good",
  misprint: saying("misprint"),
  not_printed: saying("found_none"),
  destroyed: saying("destroyed"),
};

export type Disposition = "destroyed" | "not_printed";
/** What becomes of a label that was asked about as one that lies here. */
export const becameOf = (verdict: Verdict): Disposition => (verdict === "destroyed" ? "destroyed" : "not_printed");

/** The attempt is over; `disposition` where it is known that no label of it is left. */
export function fail(
  floor: Floor,
  { attemptId, jobRef }: Attempt,
  reason: string,
  said: { disposition?: Disposition; operator?: string } = {},
): void {
  const { store, say } = floor;
  const { disposition, operator } = said;
  if (isOver(store.must(attemptId))) return;
  store.write(() => {
    const evidence = disposition ? { evidence: { label_disposition: { outcome: disposition, ...(operator ? { operator } : {}) } } } : {};
    tell(floor, attemptId, { status: "FAILED", reason: inShort(reason), actor: actorOf(operator), ...evidence });
    if (disposition) store.relabel(attemptId, MAY_BE_HERE, disposition, reason);
    else store.relabel(attemptId, ["unknown"], "unknown", leftOpen(reason)); // the next attempt may be another station's, which asks about it there
    store.change(attemptId, { ended: "failed" });
  });
  say("warn", { event: "failed", job_ref: jobRef, reason }, `${jobRef} failed: ${reason}`);
  floor.news.beat();
}
const leftOpen = (reason: string): string => saying("look_and_explain", { reason });
const inShort = (text: string): string => readable(text, limits.REASON_MAX_LENGTH) || saying("no_reason");

/** What no try can change ends the attempt, before anything has left; everything else is tried again. */
export async function unlessRefused<T>(floor: Floor, attempt: Attempt, act: () => Promise<T>): Promise<T | undefined> {
  try {
    return await act();
  } catch (error) {
    if (!(error instanceof Refusal) || error.code === "STORE_UNAVAILABLE") throw error;
    fail(floor, attempt, `${error.code}: ${error.message}`, { disposition: "not_printed" });
    return undefined;
  }
}

/** The cloud gave the job to somebody else, or ended it. What may lie here on paper is an orphan from now on. */
export function lost(floor: Floor, attemptId: string, why: string): void {
  const { store, say, news } = floor;
  store.write(() => {
    const attempt = store.attempt(attemptId);
    if (!attempt) return;
    store.dropReports(attemptId, why);
    const isGivenUp = attempt.ended === "failed"; // here; the cloud hadn't heard it in time
    if (isOver(attempt) && !isGivenUp) return;
    if (!paperMayExist(attempt) && !attempt.work.begun) {
      store.change(attemptId, { ended: attempt.ended ?? "stale" });
      return say(
        "info",
        { event: "stale", job_ref: attempt.jobRef },
        `${attempt.jobRef} isn't ours any more (${why}): nothing of it was printed`,
      );
    }
    const lying = store.relabel(attemptId, ["unknown", "printed"], "orphan", why);
    if (isGivenUp && lying === 0) return reportGone(floor, attempt);
    if (lying === 0) store.label(attempt.printer ?? "", "orphan", why, attempt);
    const evidence = { stage: attempt.stage, why: inShort(why), work: { ...attempt.work } };
    store.reportOrphan(attempt, { evidence, disposition: "found", actor: DEVICE });
    const isOut = isLying(attempt) || isGivenUp;
    store.change(attemptId, { stage: "orphan", ended: null, work: isOut ? {} : { held: true } });
    const { answered } = attempt.work;
    if (isOut && answered) return endOrphan(floor, attempt, answered.verdict, answered.operator);
    say(
      "error",
      { event: "orphan", job_ref: attempt.jobRef },
      `${attempt.jobRef} went on without us (${why}): its label here has to be destroyed`,
    );
  });
  news.beat();
}

/** It was given up here, and of each of its labels it is known already what became of it. */
function reportGone({ store }: Floor, attempt: Attempt): void {
  const { attemptId } = attempt;
  const { actor = DEVICE, evidence: said } = store.items(attemptId).findLast(({ status }) => status === "FAILED") ?? {};
  const labels = store.labelsOf(attemptId);
  const told = labels.find(({ state }) => state === "destroyed") ?? labels.find(({ state }) => state === "explained");
  const evidence =
    told?.state === "explained" ? { outcome: "explained", words: inShort(told.words) } : { outcome: told?.state ?? "not_printed" };
  const whose = said?.["label_disposition"] === undefined ? DEVICE : actor; // where it wasn't said then, it was later, of all labels of the serial
  store.reportOrphan(attempt, { evidence, disposition: "destroyed", actor: whose });
  store.noteOver(attemptId);
}

/** It is gone, as an operator says. */
export function endOrphan({ store }: Floor, attempt: Attempt, verdict: Verdict, operator: string): void {
  const { attemptId } = attempt;
  const outcome = becameOf(verdict);
  store.relabel(attemptId, MAY_BE_HERE, outcome, REASONS[verdict]);
  store.reportOrphan(attempt, { evidence: { outcome }, disposition: "destroyed", actor: actorOf(operator) });
  store.change(attemptId, { ended: "orphan, destroyed", work: { held: undefined, answered: undefined } });
}
