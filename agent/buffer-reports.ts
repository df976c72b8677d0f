// Reports in the buffer: what the cloud has to hear, in the order in which it came about, until it has heard it.
import { Buffer } from "node:buffer";
import { randomUUID } from "node:crypto";
import type { JobState } from "#shared/states.ts";
import type { BundleItem, OrphanReport } from "#shared/wire/jobs.ts";
import type { Attempt } from "./attempt.ts";
import type { Sql } from "./buffer-sql.ts";
import { clickNow } from "./click.ts";

export type ReportBody = BundleItem & { job_ref: string; attempt_id: string; reason?: string };
export type ReportRow = {
  n: number;
  attemptId: string;
  key: string;
  at: number;
  /** The click it came from. */ correlation: string | null;
  /** Of its body. */ bytes: number;
} & ({ kind: "result"; body: ReportBody } | { kind: "orphan"; body: OrphanReport });
export type Fate = "taken" | "dropped" | "quarantined";

export function reportsIn({ run, insert, all, get, count, write, clock }: Sql, must: (attemptId: string) => Attempt) {
  const enqueue = (attemptId: string, kind: ReportRow["kind"], body: object): number =>
    insert("reports", {
      attempt_id: attemptId, kind, key: randomUUID(), body: JSON.stringify(body), at: clock.now(), correlation: clickNow() ?? null,
    }); // oxfmt-ignore

  return {
    report: (attemptId: string, item: BundleItem & { reason?: string }) =>
      void enqueue(attemptId, "result", { job_ref: must(attemptId).jobRef, attempt_id: attemptId, ...item }),
    /** What the cloud has heard of an attempt already, before this buffer began. */
    heardBefore: ({ attemptId, jobRef }: Pick<Attempt, "attemptId" | "jobRef">, items: BundleItem[]) =>
      write(() => {
        for (const item of items) {
          const n = enqueue(attemptId, "result", { job_ref: jobRef, attempt_id: attemptId, ...item });
          run("UPDATE reports SET fate = 'taken', settled_at = ? WHERE n = ?", clock.now(), n);
        }
      }),
    reportOrphan: ({ attemptId, jobRef }: Attempt, said: Pick<OrphanReport, "evidence" | "disposition" | "actor">) =>
      void enqueue(attemptId, "orphan", { job_ref: jobRef, attempt_id: attemptId, ...said }),
    /** In order, without those of the attempts that are named. */
    waiting: (most: number, aside: string[]): ReportRow[] =>
      all(
        "SELECT * FROM reports WHERE fate IS NULL AND attempt_id NOT IN (SELECT value FROM json_each(?)) ORDER BY n LIMIT ?",
        JSON.stringify(aside),
        most,
      ).map(
        (row) =>
          ({
            n: row["n"], attemptId: row["attempt_id"], kind: row["kind"], key: row["key"], at: row["at"], correlation: row["correlation"],
            bytes: Buffer.byteLength(String(row["body"])), body: JSON.parse(String(row["body"])),
          }) as ReportRow, // oxfmt-ignore
      ),
    /** The number of the last one that was ever written here; 0 where there is none. */
    lastReport: (): number => Number(get("SELECT max(n) AS n FROM reports")?.["n"] ?? 0),
    isWaiting: (n: number): boolean => get("SELECT 1 FROM reports WHERE n = ? AND fate IS NULL", n) !== undefined,
    /** Whether the cloud still has to hear something of this attempt. */
    isUntold: (attemptId: string): boolean =>
      get("SELECT 1 FROM reports WHERE attempt_id = ? AND kind = 'result' AND fate IS NULL LIMIT 1", attemptId) !== undefined,
    settle: (n: number, fate: Fate, told: string | null) =>
      void run("UPDATE reports SET fate = ?, told = ?, settled_at = ? WHERE n = ? AND fate IS NULL", fate, told, clock.now(), n),
    /** What this attempt still has to say is said to nobody: its job went on. */
    dropReports: (attemptId: string, told: string) =>
      void run(
        "UPDATE reports SET fate = 'dropped', told = ?, settled_at = ? WHERE attempt_id = ? AND kind = 'result' AND fate IS NULL",
        told, clock.now(), attemptId,
      ), // oxfmt-ignore
    /** The bundle's items, exactly as they are sent. */
    items: (attemptId: string): BundleItem[] =>
      all("SELECT body FROM reports WHERE attempt_id = ? AND kind = 'result' ORDER BY n", attemptId)
        .map((row) => JSON.parse(String(row["body"])) as ReportBody)
        .map(({ job_ref: _ref, attempt_id: _id, reason: _reason, ...item }) => item),
    /** As far as the cloud hasn't refused it. */
    lastState: (attemptId: string): JobState | undefined => {
      const row = get(
        "SELECT body FROM reports WHERE attempt_id = ? AND kind = 'result' AND coalesce(fate, 'taken') = 'taken' ORDER BY n DESC LIMIT 1",
        attemptId,
      );
      return row && (JSON.parse(String(row["body"])) as ReportBody).status;
    },
    depth: (): { count: number; oldestAt: number | null; pictures: number } => {
      const oldest = get("SELECT at FROM reports WHERE fate IS NULL ORDER BY n LIMIT 1")?.["at"] ?? null;
      return {
        count: count("reports WHERE fate IS NULL"),
        oldestAt: oldest as number | null,
        pictures: count("pictures WHERE sent_at IS NULL"),
      };
    },
  };
}
