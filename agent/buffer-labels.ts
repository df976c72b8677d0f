// The ledger in the buffer: every physical label from when it may exist to when it is explained; and what else people have to see.
import type { Attempt } from "./attempt.ts";
import { placesFor, type Sql } from "./buffer-sql.ts";

/** What is known of a label. */
export const labelStates = {
  unknown: "it may have come out",
  printed: "it came out and isn't sealed",
  void: "it came out void and has to be destroyed",
  orphan: "its job went on without it: it has to be destroyed",
  unexplained: "the printer's counter moved without a job of ours",
  sealed: "sealed, and out of the door",
  destroyed: "destroyed, as an operator said",
  not_printed: "it never came out, as an operator or the printer said",
  explained: "it is explained otherwise",
} as const;
export type LabelState = keyof typeof labelStates;
export const OPEN_LABELS: readonly LabelState[] = ["unknown", "printed", "void", "orphan", "unexplained"];
type LedgerRow = {
  n: number; attempt_id: string | null; job_ref: string | null; serial: string | null; printer: string; state: LabelState; words: string;
  at: number; changed_at: number;
}; // oxfmt-ignore
type Quarantined = { n: number; job_ref: string | null; attempt_id: string | null; code: string; message: string; at: number };

type Refused = { jobRef: string | null; attemptId: string | null; code: string; message: string; what: string };

export const labelsIn = ({ run, insert, all, get, count, clock }: Sql) => ({
  /** Says its number. */
  label: (printer: string, state: LabelState, words: string, of?: Pick<Attempt, "attemptId" | "jobRef" | "serial">): number => {
    const { attemptId = null, jobRef = null, serial = null } = of ?? {};
    const now = clock.now();
    return insert("ledger", { attempt_id: attemptId, job_ref: jobRef, serial, printer, state, words, at: now, changed_at: now });
  },
  /** One of nobody's attempt. */
  neverCame: (n: number, words: string): void =>
    void run("UPDATE ledger SET state = 'not_printed', words = ?, changed_at = ? WHERE n = ?", words, clock.now(), n),
  /** Says something new of the labels of an attempt that are in these states. */
  relabel: (attemptId: string, from: readonly LabelState[], state: LabelState, words: string): number =>
    run(
      `UPDATE ledger SET state = ?, words = ?, changed_at = ? WHERE attempt_id = ? AND state IN (${placesFor(from)})`,
      state, words, clock.now(), attemptId, ...from,
    ).changes, // oxfmt-ignore
  /** Only an open label whose attempt is over: what was sealed, destroyed or explained stays so, and what is under way will be told of by its attempt. */
  explain: (n: number, words: string): boolean =>
    run(
      `UPDATE ledger SET state = 'explained', words = ?, changed_at = ? WHERE n = ? AND state IN (${placesFor(OPEN_LABELS)})
         AND NOT EXISTS (SELECT 1 FROM attempts WHERE attempt_id = ledger.attempt_id AND ended IS NULL)`,
      words, clock.now(), n, ...OPEN_LABELS,
    ).changes > 0, // oxfmt-ignore
  labelStateOf: (n: number): LabelState | undefined => get("SELECT state FROM ledger WHERE n = ?", n)?.["state"] as LabelState | undefined,
  openLabels: (most: number): LedgerRow[] =>
    all(`SELECT * FROM ledger WHERE state IN (${placesFor(OPEN_LABELS)}) ORDER BY n DESC LIMIT ?`, ...OPEN_LABELS, most) as LedgerRow[],
  labelsOf: (attemptId: string): LedgerRow[] => all("SELECT * FROM ledger WHERE attempt_id = ? ORDER BY n", attemptId) as LedgerRow[],

  quarantine: ({ jobRef, attemptId, code, message, what }: Refused) =>
    void insert("quarantine", { job_ref: jobRef, attempt_id: attemptId, code, message, what, at: clock.now() }),
  /** Until somebody has seen to it. */
  quarantined: (most: number): Quarantined[] =>
    all(
      "SELECT n, job_ref, attempt_id, code, message, at FROM quarantine WHERE seen_by IS NULL ORDER BY n DESC LIMIT ?",
      most,
    ) as Quarantined[],
  quarantineCount: (): number => count("quarantine WHERE seen_by IS NULL"),
  seenTo: (n: number, operator: string): boolean =>
    run("UPDATE quarantine SET seen_by = ?, seen_at = ? WHERE n = ? AND seen_by IS NULL", operator, clock.now(), n).changes > 0,
});
