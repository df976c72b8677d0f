// What the cloud's answer to a report does here: the report is settled and its attempt moves on or ends, or it is sent again.
import { saying } from "#shared/sayings.ts";
import type { ResultOutcome } from "#shared/wire/jobs.ts";
import type { Asides } from "./asides.ts";
import type { ResultRow } from "./batches.ts";
import type { ReportRow } from "./buffer-reports.ts";
import { type NoAnswer, wordsIn } from "./cloud.ts";
import type { Answer } from "./connection.ts";
import { lost } from "./ends.ts";
import { fateOf, settles } from "./fates.ts";
import type { Floor } from "./floor.ts";

const answerIn = (outcome: ResultOutcome | undefined): Answer =>
  outcome?.status === 200
    ? { ok: true }
    : {
        ok: false,
        status: outcome?.status ?? 502,
        ...(outcome?.error ? wordsIn(outcome.error) : { code: "NOT_UNDERSTOOD", message: saying("no_outcome") }),
      };

/** `aside`: attempts whose reports go last; `isFirst`: whether a report was sent for the first time. */
export function settlingOf(floor: Floor, aside: Asides, isFirst: (row: ReportRow) => boolean) {
  const { store, say } = floor;

  /** True where it has to be sent again: until it is settled, later reports of its attempt wait. `isDisliked`: by something halfway, which lets others pass. */
  function settle(row: ReportRow, said: Answer, askedAt: number, isDisliked = false): boolean {
    if (said.ok) {
      taken(row, askedAt);
      return false;
    }
    const fate = fateOf(said);
    if ((isDisliked || fate === "aside") && setAside(row, said)) return false;
    if (!settles(fate)) return true;
    if (!store.isWaiting(row.n)) return false; // what was refused before it in the same batch has settled it
    store.write(() => refused(row, said, fate === "drop"));
    say("warn", { event: "refused", job_ref: row.body.job_ref, code: said.code, fate }, `${row.body.job_ref}: ${said.message}`);
    return false;
  }

  /** What was to be said after it can't be true for the cloud either; a label that lies here is told of. */
  function refused({ n, kind, attemptId, body }: ReportRow, { code, message }: NoAnswer, isDropped: boolean): void {
    const told = `${code}: ${message}`;
    store.settle(n, isDropped ? "dropped" : "quarantined", told);
    if (isDropped && kind === "result") return lost(floor, attemptId, told);
    store.quarantine({ jobRef: body.job_ref, attemptId, code, message, what: JSON.stringify(body) });
    if (kind !== "result") return;
    store.dropReports(attemptId, `after ${code}`);
    const attempt = store.attempt(attemptId);
    if (attempt?.ended !== null) return;
    if (attempt.stage === "sending") store.label(attempt.printer ?? "", "unknown", saying("refused_meanwhile"), attempt);
    else store.relabel(attemptId, ["unknown"], "unknown", saying("refused_meanwhile"));
    store.change(attemptId, { ended: `quarantined: ${code}` });
  }

  /** The cloud has it, and renewed the lease, not before it was asked; unless it was sent before, and this is the answer of that time. */
  function taken(row: ReportRow, askedAt: number): void {
    store.write(() => {
      store.settle(row.n, "taken", null);
      if (row.kind !== "result") return;
      const attempt = store.attempt(row.attemptId);
      if (!attempt) return;
      const { status } = row.body;
      let { ended } = attempt;
      if (status === "SEALED") ended = "sealed";
      if (status === "FAILED") ended ??= "failed";
      const renewed = isFirst(row) ? askedAt + attempt.leaseSeconds * 1_000 : 0;
      store.change(row.attemptId, { leaseUntil: Math.max(attempt.leaseUntil, renewed), ended });
      if (status === "SEALED") store.relabel(row.attemptId, ["printed", "unknown"], "sealed", saying("sealed"));
    });
  }

  function setAside({ attemptId, body }: ReportRow, said: NoAnswer): boolean {
    if (!aside.put(attemptId)) return false;
    say("warn", { event: "stumbled", job_ref: body.job_ref, code: said.code }, `${body.job_ref}: ${said.message}; other reports go first`);
    return true;
  }

  /** In one commit: who dies before it asks again under the same keys. True where anything has to be sent again. */
  function settleMany(rows: readonly ResultRow[], outcomes: readonly ResultOutcome[], askedAt: number): boolean {
    const held = new Set<string>();
    store.write(() => settleEach(rows, outcomes, askedAt, held));
    return held.size > 0;
  }
  function settleEach(rows: readonly ResultRow[], outcomes: readonly ResultOutcome[], askedAt: number, held: Set<string>): void {
    const lastOf = new Map(rows.map(({ attemptId }, i) => [attemptId, i]));
    for (const [i, row] of rows.entries()) {
      if (held.has(row.attemptId) || aside.has(row.attemptId) || store.attempt(row.attemptId) === undefined) continue;
      const answer = answerIn(outcomes[i]);
      // Those before an attempt's last report are only marked: the last moves the attempt for all of them.
      if (answer.ok && lastOf.get(row.attemptId) !== i) store.settle(row.n, "taken", null);
      else if (settle(row, answer, askedAt)) held.add(row.attemptId);
    }
  }

  return { settle, settleMany };
}
