// The reaper: what time does to print jobs. Each act is a compare-and-set like everybody else's, so several nodes may reap at once.
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { leaseOf } from "#shared/states.ts";
import { and, eq, sql } from "../store/drizzle.ts";
import { prepared } from "../store/prepared.ts";
import { printJobs } from "../store/schema.ts";
import { db, run, SKIP_LOCKED, type Tx } from "../store/store.ts";
import * as audit from "./audit.ts";
import { newId } from "./ids.ts";
import { instant } from "./instant.ts";
import { afterFailure } from "./job-results.ts";
import { ended } from "./job-ends.ts";
import * as jobs from "./jobs.ts";
import { emit } from "./outbox.ts";

const LEASE_EXPIRED = saying("lease_expired");
const LEASE_EXPIRED_AFTER_SPOOL = saying("lease_expired_after_spool");
const SYSTEM = { kind: "system", id: "reaper" } as const;
const due = (at: "look_at" | "due_at") => `SELECT tenant_id, job_ref FROM print_jobs WHERE ${at} <= ? ORDER BY ${at} LIMIT ?`;
const DUE = [due("look_at"), due("due_at")]; // the latter as nodes of a version before left it

const lookAgain = prepared(
  db
    .update(printJobs)
    .set({ dueAt: null, lookAt: sql`${sql.placeholder("at")}` })
    .where(
      and(
        eq(printJobs.tenantId, sql.placeholder("tenantId")),
        eq(printJobs.jobRef, sql.placeholder("jobRef")),
        eq(printJobs.revision, sql.placeholder("revision")),
      ),
    ),
);

/** Is there anything to do? A look that takes no lock. */
export async function isDue(tx: Tx): Promise<boolean> {
  for (const question of DUE) if ((await run(question, [tx.now, 1], "all")).rows.length > 0) return true;
  return false;
}

export type Due = { tenantId: string; ref: string };
/** Some of the jobs whose time has come; where several nodes look, those that no other is at. */
export async function dueNow(tx: Tx, most: number): Promise<Due[]> {
  const due: Due[] = [];
  for (const question of DUE) {
    const { rows } = await run(`${question} ${SKIP_LOCKED}`, [tx.now, most], "all");
    due.push(...(rows as [string, string][]).map(([tenantId, ref]) => ({ tenantId, ref })));
  }
  return due;
}
/** Does what is due to some jobs; says how many there were. `backAt`: before that nobody could say anything to this cloud, as far as this node knows. */
export async function reap(tx: Tx, most: number, backAt?: number): Promise<number> {
  const due = await dueNow(tx, most);
  for (const one of due) await reapOne(tx, one, backAt);
  return due.length;
}
export const reapOne = async (tx: Tx, { tenantId, ref }: Due, backAt = -Infinity): Promise<void> =>
  act(tx, await jobs.find(tx, tenantId, ref), backAt);

async function act(tx: Tx, row: jobs.Row, backAt: number): Promise<void> {
  if ((row.lookAt ?? Infinity) > tx.now && (row.dueAt ?? Infinity) > tx.now) return; // heard of since
  const lease = leaseOf(row.state);
  const isUsedUp = row.attempt >= row.maxAttempts;
  if (lease === null) return row.state === "FAILED" && isUsedUp ? bury(tx, row, row.reason ?? LEASE_EXPIRED) : lookNext(row, null);
  const granted = await grantedUntil(tx, row);
  const wasCutOff = lease === "uncertain" && (row.leaseExpiresAt ?? tx.now) <= backAt;
  const until = wasCutOff ? Math.max(granted, backAt + limits.OFFLINE_COMEBACK_MS) : granted;
  if (until > tx.now) return lookNext(row, until);
  if (lease === "uncertain") return expire(tx, row);
  if (isUsedUp) return bury(tx, row, LEASE_EXPIRED);
  await jobs.change(tx, row, { pool: true, lookAt: null });
}
const lookNext = async (row: jobs.Row, at: number | null): Promise<void> => void (await lookAgain.run({ ...row, at }));

/** Renewing a lease doesn't move the look: only now is it asked how long the lease goes, and how long the tenant waits after it for word of a label. */
async function grantedUntil(tx: Tx, row: jobs.Row): Promise<number> {
  const end = row.leaseExpiresAt ?? tx.now;
  if (end > tx.now || leaseOf(row.state) !== "uncertain") return end;
  const { graceSeconds } = await jobs.tenantOf(tx, row.tenantId);
  return end + graceSeconds * 1000;
}

/** Paper may exist and nobody says so: the attempt is over, and the next one has to ask for the label first. */
async function expire(tx: Tx, row: jobs.Row): Promise<void> {
  const reason = LEASE_EXPIRED_AFTER_SPOOL;
  await jobs.move(tx, row, "FAILED", { actor: SYSTEM, reason }, { ...afterFailure(row, tx.now), duplicateRisk: true, reason });
  await tell(tx, row, "print.expired", reason);
}

/** The budget is used up: the job ends, and its serial stands in the re-print file. */
async function bury(tx: Tx, row: jobs.Row, reason: string): Promise<void> {
  const { tenantId, serial, gtin, productId, jobRef, deviceId } = row;
  await ended(tx, row, "DEAD_LETTER", { actor: SYSTEM, reason }, { reason }, { status: "failed", reason, deviceId });
  await emit(tx, { tenantId }, "print.failed", {
    serials: [serial],
    failures: [{ serial, reason }],
    gtin,
    productId,
    job_ref: jobRef,
    reportedAt: instant(tx.now),
  });
  await tell(tx, row, "print.dead_lettered", reason);
}

async function tell(tx: Tx, row: jobs.Row, action: "print.expired" | "print.dead_lettered", reason: string): Promise<void> {
  const reaper = { tenantId: row.tenantId, credential: { ...SYSTEM, name: "the reaper" } };
  audit.append(tx, reaper, { action, subject: row.jobRef, details: { reason, attempt: row.attempt }, requestId: newId() });
}
