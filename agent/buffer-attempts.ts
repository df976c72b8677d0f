// Attempts in the buffer: each job that was taken on, how far it is, and every act that was begun for it.
import { askOf, type Attempt, type Ended, isAskedAnew, isRisky, paperMayExist, type Stage, type Task, type Work } from "./attempt.ts";
import type { Begun } from "./begun.ts";
import type { Row, Sql } from "./buffer-sql.ts";

type Change = Partial<Pick<Attempt, "printer" | "stage" | "leaseUntil" | "leaseSeconds" | "ended">> & {
  /** Over what was known; undefined takes it away. */
  work?: { [Name in keyof Work]: Work[Name] | undefined };
};
function attemptFrom(row: Row): Attempt {
  return {
    attemptId: String(row["attempt_id"]),
    jobRef: String(row["job_ref"]),
    serial: String(row["serial"]),
    task: JSON.parse(String(row["task"])) as Task,
    envelope: String(row["envelope"]),
    printer: row["printer"] as string | null,
    stage: row["stage"] as Stage,
    work: JSON.parse(String(row["work"])) as Work,
    leaseSeconds: Number(row["lease_seconds"]),
    leaseUntil: Number(row["lease_until"]),
    envelopeUntil: Number(row["envelope_until"]),
    askSince: row["ask_since"] as number | null,
    ended: row["ended"] as Ended | null,
    createdAt: Number(row["created_at"]),
    updatedAt: Number(row["updated_at"]),
  };
}

export function attemptsIn({ run, insert, all, get, count, write, clock }: Sql) {
  const attempts = (where: string, ...values: unknown[]): Attempt[] =>
    all(`SELECT * FROM attempts WHERE ${where}`, ...values).map(attemptFrom);
  const attempt = (id: string): Attempt | undefined => attempts("attempt_id = ?", id)[0];
  const must = (id: string): Attempt => {
    const found = attempt(id);
    if (!found) throw new Error(`the attempt ${id} isn't in the buffer`);
    return found;
  };

  function change(id: string, changes: Change): Attempt {
    return write(() => {
      const before = must(id);
      const work = Object.fromEntries(
        Object.entries({ ...before.work, ...changes.work }).filter(([, value]) => value !== undefined),
      ) as Work;
      const next: Attempt = { ...before, ...changes, work, updatedAt: clock.now() };
      if (isAskedAnew(before, next)) next.askSince = askOf(next) === null ? null : clock.now();
      run(
        `UPDATE attempts SET printer = ?, stage = ?, work = ?, lease_until = ?, lease_seconds = ?, ask_since = ?, ended = ?, updated_at = ? WHERE attempt_id = ?`,
        next.printer, next.stage, JSON.stringify(next.work), next.leaseUntil, next.leaseSeconds, next.askSince, next.ended, next.updatedAt, id,
      ); // oxfmt-ignore
      return next;
    });
  }

  return {
    attempt,
    must,
    change,
    take: (taken: Pick<Attempt, "attemptId" | "task" | "envelope" | "leaseSeconds" | "leaseUntil" | "envelopeUntil">) =>
      write(() => {
        const { attemptId, task, envelope, leaseSeconds, leaseUntil, envelopeUntil } = taken;
        const now = clock.now();
        const earlier = get("SELECT 1 AS here FROM ledger WHERE job_ref = ? AND state IN ('unknown', 'printed', 'orphan')", task.job_ref);
        const sealed = get("SELECT 1 FROM attempts WHERE link = ? AND ended = 'sealed' AND (job_ref = ? OR NOT ?)", task.digital_link, task.job_ref, Number(task.reprint)); // oxfmt-ignore
        const work: Work = { ...(earlier ? { earlier: true } : {}), ...(sealed ? { sealedBefore: true } : {}) };
        const since = isRisky({ task, work }) ? now : null;
        return run(
          `INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, NULL, 'waiting', ?, ?, ?, ?, ?, NULL, ?, ?) ON CONFLICT DO NOTHING`,
          attemptId, task.job_ref, task.serial, task.digital_link, JSON.stringify(task), envelope, JSON.stringify(work), leaseSeconds, leaseUntil, envelopeUntil, since, now, now,
        ).changes > 0; // oxfmt-ignore
      }),
    /** Those that are still to be worked on: after a long outage thousands more only wait to be heard of. */
    inHand: () => attempts("ended IS NULL AND stage NOT IN ('sealing', 'orphan') ORDER BY created_at, rowid"),
    orphans: () => attempts("ended IS NULL AND stage = 'orphan' ORDER BY created_at, rowid"),
    /** The latest of those that the cloud still has to hear of. */
    unheard: (most: number) => attempts("ended IS NULL AND stage = 'sealing' ORDER BY created_at DESC LIMIT ?", most),
    sealing: (): number => count("attempts WHERE ended IS NULL AND stage = 'sealing'"),
    ofJob: (ref: string) => attempts("job_ref = ? ORDER BY created_at DESC, rowid DESC", ref),
    recent: (most: number) => attempts("ended IS NOT NULL ORDER BY updated_at DESC LIMIT ?", most),
    /** Attempts whose label says this, the latest first. */
    allOfLink: (text: string) => attempts("link = ? ORDER BY created_at DESC, rowid DESC LIMIT 100", text),

    intend: (attemptId: string, printer: string, { token, sha256, bytes }: { token: string; sha256: string; bytes: number }): number =>
      insert("acts", { attempt_id: attemptId, printer, token, sha256, bytes, intended_at: clock.now() }),
    /** The number of the last act that this buffer knows, forgotten ones included. */
    lastActOfAll: (): number => Number(get("SELECT seq FROM sqlite_sequence WHERE name = 'acts'")?.["seq"] ?? 0),
    /** An act that this buffer has lost, written down anew; false where it has lost the attempt, too. */
    beginAgain: ({ n, attempt_id: id, printer, token, sha256, bytes, at }: Begun): boolean =>
      write(() => {
        insert("acts", { n, attempt_id: id, printer, token, sha256, bytes, intended_at: at });
        const known = attempt(id);
        if (!known) run("DELETE FROM acts WHERE n = ?", n);
        else if (known.ended === null && !paperMayExist(known)) change(id, { printer, work: { begun: true } });
        return known !== undefined;
      }),
    /** The next one has a number that none had before it, in whichever buffer. */
    countActsFrom: (n: number): void =>
      write(() => {
        run(
          "INSERT INTO sqlite_sequence (name, seq) SELECT 'acts', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'acts')",
        );
        run("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = 'acts'", n);
      }),
    receipt: (n: number, receipt: object) =>
      void run("UPDATE acts SET receipt = ?, received_at = ? WHERE n = ?", JSON.stringify(receipt), clock.now(), n),
    lastAct: (attemptId: string): { sha256: string; bytes: number; printer: string } | undefined => {
      const row = get("SELECT * FROM acts WHERE attempt_id = ? ORDER BY n DESC LIMIT 1", attemptId);
      return row && { sha256: String(row["sha256"]), bytes: Number(row["bytes"]), printer: String(row["printer"]) };
    },
  };
}
