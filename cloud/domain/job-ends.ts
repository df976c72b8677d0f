// Print jobs that end: sealed, cancelled, given up; what is known of the print from then on is kept with the serial.
import { and, eq, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { hasEnded, type JobState, leaseOf, mayCancel, openStates } from "#shared/states.ts";
import type { Job } from "#shared/wire/jobs.ts";
import { prepared } from "../store/prepared.ts";
import { printJobs, serials } from "../store/schema.ts";
import { db, together, type Tx } from "../store/store.ts";
import * as carriers from "./carriers.ts";
import type { By } from "./events.ts";
import { countEnd } from "./job-hours.ts";
import * as jobs from "./jobs.ts";
import { leftBy } from "./stray-labels.ts";
import { tellCancelled } from "./wakes.ts";

/** The job of which a label may lie about stays named where the one that ends has nothing to say to it (see `leftBy`). */
const strayJob = sql`CASE WHEN ${sql.placeholder("keeps")} = 1 THEN COALESCE(${serials.strayJob}, ${sql.placeholder("strayJob")}) ELSE ${sql.placeholder("strayJob")} END`;
const close = prepared(db.update(serials).set({ openJob: null, strayJob }).where(carriers.isIt));
export type PrintOutcome = { status: "printed" | "failed"; reason: string | null; deviceId: string | null };
/** What a serial keeps of it, and of when it was said. */
export const printOutcome = {
  printStatus: sql`${sql.placeholder("status")}`,
  printReason: sql`${sql.placeholder("reason")}`,
  printDeviceId: sql`${sql.placeholder("deviceId")}`,
  printReportedAt: sql`${sql.placeholder("now")}`,
};
const settle = prepared(
  db
    .update(serials)
    .set({
      openJob: null,
      strayJob,
      sealedJob: sql`COALESCE(${sql.placeholder("sealedJob")}, ${serials.sealedJob})`,
      ...printOutcome,
      printBatch: null,
    })
    .where(carriers.isIt),
);
/** The end of a job, with what is known of the print from then on; the serial is free for another job. */
export async function ended(
  tx: Tx,
  row: jobs.Row,
  to: JobState,
  word: jobs.Word,
  changes: jobs.Change = {},
  outcome?: PrintOutcome,
): Promise<jobs.Row> {
  const { tenantId, serial, jobRef: ref } = row;
  const isSealed = to === "SEALED";
  const isTakenAway = to === "CANCELLED" && leaseOf(row.state) !== null;
  const left = { tenantId, serial, ...(await leftBy(tx, row, to)) };
  const [moved] = await together([
    jobs.move(tx, row, to, word, { pool: false, lookAt: null, ...changes }),
    outcome ? settle.run({ ...left, ...outcome, now: tx.now, sealedJob: isSealed ? ref : null }) : close.run(left),
  ]);
  countEnd(tx, tenantId, to);
  if (isTakenAway && row.deviceId !== null) tellCancelled(tx, { tenantId, deviceId: row.deviceId, jobRef: ref });
  return moved;
}

export async function cancel(tx: Tx, by: By, ref: string, reason: string | undefined): Promise<Job> {
  const row = await jobs.find(tx, by.tenantId, ref);
  if (!mayCancel(row.state))
    throw jobs.illegal(row, "CANCELLED", [], `the job is ${row.state}: a label may exist, so it can't be cancelled`);
  const why = reason ?? null;
  return jobs.toWire(await ended(tx, row, "CANCELLED", { actor: { kind: "issuer", id: by.actor.id }, reason: why }, { reason: why }));
}

type Voider = { tenantId: string; actor: { id: string | null } };
type VoidReason = "SERIAL_VOIDED" | "PRODUCT_VOIDED";
/** What was voided gets no label: the job ends wherever it stands. */
export async function cancelVoided(tx: Tx, by: Voider, ref: string, reason: VoidReason): Promise<void> {
  await endVoided(tx, by, await jobs.find(tx, by.tenantId, ref), reason);
}
async function endVoided(tx: Tx, by: Voider, row: jobs.Row, reason: VoidReason): Promise<void> {
  if (hasEnded(row.state)) return; // since it was looked up: a label that was sealed stays so
  await ended(tx, row, "CANCELLED", { actor: { kind: "issuer", id: by.actor.id }, reason }, { reason });
}

const lookedAt = db
  .select({ tenantId: printJobs.tenantId, ref: printJobs.jobRef }) // no more than the index of states has: else SQLite looks through all jobs that there ever were
  .from(printJobs)
  .where(and(eq(printJobs.tenantId, sql.placeholder("tenantId")), eq(printJobs.state, sql.placeholder("state"))))
  .limit(limits.VOID_LOOKS_AT_JOBS)
  .as("looked_at");
const openOfProduct = prepared(
  db
    .select({ ref: printJobs.jobRef })
    .from(lookedAt)
    .innerJoin(printJobs, and(eq(printJobs.tenantId, lookedAt.tenantId), eq(printJobs.jobRef, lookedAt.ref)))
    .where(eq(printJobs.productId, sql.placeholder("productId")))
    .limit(limits.VOID_CANCELS_JOBS),
);
/** Those that are under way first. Of a tenant with very many jobs not all: the others end as they come up to be claimed. */
export async function cancelAllOf(tx: Tx, by: By, productId: string): Promise<void> {
  const found = await together(openStates.toReversed().map((state) => openOfProduct.all({ tenantId: by.tenantId, state, productId })));
  const refs = found.flat().slice(0, limits.VOID_CANCELS_JOBS);
  // All jobs before any serial, as everybody: else whoever reports many of them meanwhile and this would wait for each other.
  const held = await jobs.hold(tx, by.tenantId, refs.map(({ ref }) => ref)); // oxfmt-ignore
  await carriers.holdAll(tx, by.tenantId, [...held.values()].map(({ serial }) => serial)); // oxfmt-ignore
  for (const row of held.values()) await endVoided(tx, by, row, "PRODUCT_VOIDED");
}
