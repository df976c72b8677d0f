// Orphans: labels that exist though their job went on without them. They are listed until somebody says that they are destroyed.
import { and, eq, sql } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import type { Orphan, OrphanReport } from "#shared/wire/jobs.ts";
import { orphans, printEvents } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { refuseLarge, refuseMisread } from "./evidence-rules.ts";
import { newIdIn } from "./ids.ts";
import { instant } from "./instant.ts";
import { deviceOf } from "./job-claims.ts";
import * as jobs from "./jobs.ts";
import { newestOf, type PageQuery } from "./page.ts";
import * as stray from "./stray-labels.ts";

type Row = typeof orphans.$inferSelect;

const toWire = (row: Row): Orphan => ({
  id: row.id,
  job_ref: row.jobRef,
  attempt_id: row.attemptId,
  gtin: row.gtin,
  serial: row.serial,
  disposition: row.disposition,
  evidence: row.evidence,
  actor: row.actor,
  created_at: instant(row.createdAt),
  updated_at: instant(row.updatedAt),
});

async function refuseUnknownAttempt(tx: Tx, ref: string, attemptId: string): Promise<void> {
  const isOfAttempt = and(eq(printEvents.jobRef, ref), eq(printEvents.attemptId, attemptId));
  const known = await tx.db.select({ n: printEvents.n }).from(printEvents).where(isOfAttempt).limit(1);
  if (known.length === 0) throw new Refusal("NOT_FOUND", `attempt_id: the job had no attempt ${attemptId}`);
}

/** One label an attempt: said again, it is the same label with news. What is destroyed stays destroyed. */
export async function report(tx: Tx, caller: Caller, said: OrphanReport): Promise<Orphan> {
  const { tenantId } = caller;
  const { job_ref: jobRef, attempt_id: attemptId, evidence, disposition, actor } = said;
  if (actor.kind === "device") deviceOf(caller);
  refuseLarge(evidence);
  refuseMisread(evidence);
  const job = await stray.hold(tx, await jobs.find(tx, tenantId, jobRef));
  await refuseUnknownAttempt(tx, jobRef, attemptId);
  const { gtin, serial } = job;
  const row: Row = {
    tenantId,
    id: newIdIn(tx),
    jobRef,
    attemptId,
    gtin,
    serial,
    disposition,
    evidence,
    actor,
    createdAt: tx.now,
    updatedAt: tx.now,
  };
  const made = await tx.db.insert(orphans).values(row).onConflictDoNothing().returning();
  const mine = and(eq(orphans.tenantId, tenantId), eq(orphans.jobRef, jobRef), eq(orphans.attemptId, attemptId));
  const news = disposition === "destroyed" ? mine : and(mine, eq(orphans.disposition, "found"));
  const told =
    made.length > 0 ? made : await tx.db.update(orphans).set({ disposition, evidence, actor, updatedAt: tx.now }).where(news).returning();
  const kept = told[0] ?? (await tx.db.select().from(orphans).where(mine).get());
  if (!kept) throw new Error(`the orphan of ${jobRef} is gone`);
  await (kept.disposition === "destroyed" ? stray.accountedFor(tx, job) : stray.warn(tx, job));
  return toWire(kept);
}

/** Newest first; unless asked otherwise those that are still to destroy. */
export const list = (tx: Tx, caller: Caller, { disposition = "found", ...query }: PageQuery & { disposition?: Row["disposition"] }) =>
  newestOf(tx, query, {
    table: orphans,
    where: and(eq(orphans.tenantId, caller.tenantId), eq(orphans.disposition, disposition)),
    toWire,
    bytes: sql<number>`octet_length(${orphans.evidence})`,
  });
