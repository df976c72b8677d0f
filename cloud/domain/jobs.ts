// Print jobs: issued for allocated serials of printable passports, looked at, cancelled; and the one way in which any of them changes state.
import { and, asc, desc, eq, lt, sql } from "../store/drizzle.ts";
import { invalid, Refusal, shownCode } from "#shared/errors.ts";
import { digitalLink, gtin14, gtinFault } from "#shared/gs1.ts";
import { limits } from "#shared/limits.ts";
import { type Assertor, hasEnded, type JobState, leaseOf, mayCancel } from "#shared/states.ts";
import {
  type BundleItem,
  type Job,
  JobCreate,
  type JobHistory,
  type JobQuery,
  type JobsMade,
  type Need,
  needNames,
} from "#shared/wire/jobs.ts";
import type { Caller } from "../route.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { printEvents, printJobs, serials, tenants } from "../store/schema.ts";
import { db, LOCKED, overtaken, run, type Tx } from "../store/store.ts";
import { judgeOf } from "../validate.ts";
import * as carriers from "./carriers.ts";
import { isPrintable } from "./validations.ts";
import type { By } from "./events.ts";
import { jobRef } from "./ids.ts";
import { countEnd } from "./job-hours.ts";
import { pageOf, pageReply } from "./page.ts";
import * as products from "./products.ts";
import { waits } from "./wakes.ts";

export type Row = typeof printJobs.$inferSelect;
export type Actor = { kind: Assertor; id: string | null };
export const DEFAULT_TEMPLATE = "default";
export const ANY_STATION = "";
export const maskOf = (needs: readonly Need[]): number => needs.reduce((mask, need) => mask | (1 << needNames.indexOf(need)), 0);
export const needsRfid = ({ needs }: Row): boolean => (needs & maskOf(["rfid"])) !== 0;
const needsIn = (mask: number): Need[] => needNames.filter((_, bit) => mask & (1 << bit));

const instant = (at: number) => new Date(at).toISOString();
export const leaseShown = ({ state, deviceId, leaseExpiresAt }: Row) =>
  leaseOf(state) === null || deviceId === null || leaseExpiresAt === null
    ? null
    : { device_id: deviceId, expires_at: instant(leaseExpiresAt) };

export const toWire = (row: Row): Job => ({
  job_ref: row.jobRef,
  state: row.state,
  product_id: row.productId,
  gtin: row.gtin,
  serial: row.serial,
  digital_link: row.digitalLink,
  sgtin96_epc: row.sgtin96Epc,
  needs: needsIn(row.needs),
  template: row.template,
  priority: row.priority,
  station: row.station === ANY_STATION ? null : row.station,
  attempt_id: row.attemptId,
  attempt: row.attempt,
  max_attempts: row.maxAttempts,
  lease: leaseShown(row),
  reason: row.reason,
  duplicate_risk: row.duplicateRisk,
  reprint: row.reprint,
  created_at: instant(row.createdAt),
  updated_at: instant(row.updatedAt),
});

const mine = and(eq(printJobs.tenantId, sql.placeholder("tenantId")), eq(printJobs.jobRef, sql.placeholder("jobRef")));
const byRef = prepared(db.select().from(printJobs).where(mine));

export async function find(_tx: Tx, tenantId: string, ref: string): Promise<Row> {
  const row = await byRef.get({ tenantId, jobRef: ref });
  if (!row) throw new Refusal("NOT_FOUND", "there is no such print job in this tenant");
  return row;
}

const HOLD = `SELECT job_ref FROM print_jobs WHERE tenant_id = ? AND job_ref = ? ${LOCKED}`;
/** Takes jobs that are about to change, in the order that everybody takes them in: crosswise, two callers would wait for each other. */
export async function hold(_tx: Tx, tenantId: string, refs: readonly string[]): Promise<void> {
  await Promise.all([...new Set(refs)].toSorted().map((ref) => run(HOLD, [tenantId, ref], "all")));
}

export const get = async (tx: Tx, caller: Caller, ref: string): Promise<Job> => toWire(await find(tx, caller.tenantId, ref));

// The one place where a job changes: what may change in its life, against the revision that was read.
const CHANGING = [
  "state",
  "fromState",
  "reached",
  "pool",
  "dueAt",
  "deviceId",
  "leaseSeconds",
  "leaseExpiresAt",
  "simulated",
  "duplicateRisk",
  "reason",
  "updatedAt",
] as const satisfies (keyof Row)[];
const places = placesOf(printJobs) as Record<keyof Row, never>;
const write = prepared(
  db
    .update(printJobs)
    .set({ ...Object.fromEntries(CHANGING.map((name) => [name, places[name]])), revision: sql`${printJobs.revision} + 1` })
    .where(and(mine, eq(printJobs.revision, sql.placeholder("revision")))),
);
const tell = prepared(db.insert(printEvents).values(placesOf(printEvents)));

export type Change = Partial<Pick<Row, (typeof CHANGING)[number]>>;
/** Writes the changes if nobody was faster. */
export async function change(tx: Tx, row: Row, changes: Change): Promise<Row> {
  const next: Row = { ...row, ...changes, updatedAt: tx.now };
  if ((await write.run(next)) === 0) throw overtaken(`print job ${row.jobRef}`);
  if (next.pool && !row.pool) waits(tx, next);
  return { ...next, revision: row.revision + 1 };
}

export type Word = { actor: Actor; reason?: string | null; item?: BundleItem | null };
/** Moves a job to another state and keeps the word on which it moved, in the same commit. */
export async function move(tx: Tx, row: Row, to: JobState, word: Word, changes: Change = {}): Promise<Row> {
  const moved = await change(tx, row, { ...changes, state: to, fromState: row.state });
  await record(tx, moved, word);
  return moved;
}

/** The row as it is now, and what made it so. */
export async function record(tx: Tx, { jobRef: ref, revision, fromState, state, attemptId, attempt }: Row, word: Word): Promise<void> {
  const { actor, reason = null, item = null } = word;
  await tell.run({ jobRef: ref, n: revision, at: tx.now, fromState, toState: state, attemptId, attempt, actor, reason, item });
}

const readTenant = prepared(
  db
    .select({
      prefixes: tenants.companyPrefixes,
      template: tenants.labelTemplate,
      maxAttempts: tenants.maxAttempts,
      graceSeconds: tenants.offlineGraceSeconds,
      sandbox: tenants.sandbox,
    })
    .from(tenants)
    .where(eq(tenants.id, sql.placeholder("tenantId"))),
);
export async function tenantOf(_tx: Tx, tenantId: string) {
  const tenant = await readTenant.get({ tenantId });
  if (!tenant) throw new Error(`the tenant ${tenantId} is gone`);
  return tenant;
}

const open = prepared(
  db
    .update(serials)
    .set({ openJob: sql`${sql.placeholder("jobRef")}` })
    .where(
      and(
        eq(serials.tenantId, sql.placeholder("tenantId")),
        eq(serials.serial, sql.placeholder("serial")),
        sql`${serials.openJob} IS NULL`,
      ),
    ),
);
const insertJob = prepared(db.insert(printJobs).values(placesOf(printJobs)));

/** What many jobs of one call have in common, looked up once. */
type Issue = { origin: string; tenant: Awaited<ReturnType<typeof tenantOf>>; ready: Map<string, boolean> };
const issuing = async (tx: Tx, by: By, origin: string): Promise<Issue> => ({
  origin,
  tenant: await tenantOf(tx, by.tenantId),
  ready: new Map(),
});

function gtinOf({ gtin }: JobCreate): string {
  const fault = gtinFault(gtin);
  if (fault) throw invalid([{ field: "gtin", rule: "gtin", message: fault }]);
  return gtin14(gtin);
}

/** The serial, if a label of it may be printed now. */
async function printable(tx: Tx, by: By, input: JobCreate, { ready }: Issue): Promise<carriers.Row> {
  const gtin = gtinOf(input);
  const row = await carriers.find(tx, by.tenantId, input.serial);
  if (row?.gtin !== gtin) throw new Refusal("SERIAL_NOT_ALLOCATED", `serial: ${input.serial} isn't allocated under ${gtin}`);
  if (row.voidedAt !== null) throw new Refusal("SERIAL_VOIDED", `serial: ${input.serial} was voided at ${instant(row.voidedAt)}`);
  const isReady = ready.get(row.productId) ?? (await isPrintable(tx, by.tenantId, row.productId));
  ready.set(row.productId, isReady);
  if (!isReady)
    throw new Refusal(
      "PASSPORT_NOT_READY",
      "the product's passport isn't readyToPrint: publish it and anchor a validation of that version",
      {
        productId: row.productId,
      },
    );
  if (row.openJob !== null)
    throw new Refusal("JOB_EXISTS", `the serial has the open job ${row.openJob}: cancel it first`, { job_ref: row.openJob });
  if (row.sealedJob !== null && !(input.reprint && input.reason))
    throw new Refusal("JOB_EXISTS", `the serial was sealed by ${row.sealedJob}: another label needs reprint: true and a reason`, {
      job_ref: row.sealedJob,
    });
  return row;
}

async function issueOne(tx: Tx, by: By, input: JobCreate, common: Issue): Promise<Row> {
  const { needs = ["qr"], template, priority = 0, station, max_attempts: most, reprint = false, reason = null } = input;
  const { gtin, serial, productId, strayJob } = await printable(tx, by, input, common);
  const named = carriers.epcOf(common.tenant.prefixes, gtin, serial);
  if (needs.includes("rfid") && "fault" in named) throw new Refusal("EPC_UNAVAILABLE", named.fault);
  const row: Row = {
    tenantId: by.tenantId,
    jobRef: jobRef(),
    state: "QUEUED",
    fromState: null,
    reached: 0,
    revision: 1,
    productId,
    gtin,
    serial,
    digitalLink: digitalLink(common.origin, gtin, { serial }),
    sgtin96Epc: "epc" in named ? named.epc : null,
    needs: maskOf(needs),
    template: template ?? common.tenant.template ?? DEFAULT_TEMPLATE,
    priority,
    station: station ?? ANY_STATION,
    reprint,
    pool: true,
    dueAt: null,
    attemptId: null,
    attempt: 0,
    maxAttempts: most ?? common.tenant.maxAttempts,
    deviceId: null,
    leaseSeconds: null,
    leaseExpiresAt: null,
    envelopeExpiresAt: null,
    simulated: false,
    duplicateRisk: strayJob !== null,
    reason: null,
    createdAt: tx.now,
    updatedAt: tx.now,
  };
  if ((await open.run(row)) === 0) throw overtaken(`serial ${serial}`);
  await insertJob.run(row);
  waits(tx, row);
  await record(tx, row, { actor: { kind: "issuer", id: by.actor.id }, reason });
  await products.nowPrinted(tx, by.tenantId, productId);
  return row;
}

export const issue = async (tx: Tx, by: By, input: JobCreate, origin: string): Promise<Job> =>
  toWire(await issueOne(tx, by, input, await issuing(tx, by, origin)));

const judge = judgeOf(JobCreate);
/** Each item by itself: what is refused is told with its place, the others stand. */
export async function issueBatch(tx: Tx, by: By, items: readonly unknown[], origin: string): Promise<JobsMade> {
  const common = await issuing(tx, by, origin);
  const errors: JobsMade["errors"] = [];
  const jobs: Job[] = [];
  for (const [index, item] of items.entries())
    try {
      const faults = judge(item, "item");
      if (faults.length > 0) throw invalid(faults);
      jobs.push(toWire(await issueOne(tx, by, item as JobCreate, common)));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      errors.push({ index, error: `${shownCode(error.code)}: ${error.message}`.slice(0, limits.FAULT_TEXT_MAX_LENGTH) });
    }
  return { created: jobs.length, failed: errors.length, errors, jobs };
}

const REF = /^pj_[0-9A-HJKMNP-TV-Z]{26}$/;
export async function list(tx: Tx, caller: Caller, query: JobQuery) {
  const { limit, after } = pageOf(query, REF);
  const { state, gtin, serial, device } = query;
  const rows = await tx.db
    .select()
    .from(printJobs)
    .where(
      and(
        eq(printJobs.tenantId, caller.tenantId),
        state === undefined ? undefined : eq(printJobs.state, state),
        gtin === undefined ? undefined : eq(printJobs.gtin, gtin14(gtin)),
        serial === undefined ? undefined : eq(printJobs.serial, serial),
        device === undefined ? undefined : eq(printJobs.deviceId, device),
        after === undefined ? undefined : lt(printJobs.jobRef, after),
      ),
    )
    .orderBy(desc(printJobs.jobRef))
    .limit(limit + 1);
  return pageReply(rows, limit, (row) => row.jobRef, toWire);
}

const eventsByRef = prepared(
  db
    .select()
    .from(printEvents)
    .where(eq(printEvents.jobRef, sql.placeholder("ref")))
    .orderBy(asc(printEvents.n)),
);
export const eventsOf = (_tx: Tx, ref: string) => eventsByRef.all({ ref });

export async function history(tx: Tx, caller: Caller, ref: string): Promise<JobHistory> {
  await find(tx, caller.tenantId, ref);
  const rows = await eventsOf(tx, ref);
  return {
    data: rows.map(({ at, fromState, toState, attemptId, attempt, actor, reason, item }) => ({
      at: instant(at),
      from: fromState,
      to: toState,
      attempt_id: attemptId,
      attempt,
      actor,
      reason,
      occurred_at: item?.occurred_at ?? null,
    })),
  };
}

const itsSerial = and(eq(serials.tenantId, sql.placeholder("tenantId")), eq(serials.serial, sql.placeholder("serial")));
const strayJob = sql`${sql.placeholder("strayJob")}`;
const close = prepared(db.update(serials).set({ openJob: null, strayJob }).where(itsSerial));
const settle = prepared(
  db
    .update(serials)
    .set({
      openJob: null,
      strayJob,
      sealedJob: sql`COALESCE(${sql.placeholder("sealedJob")}, ${serials.sealedJob})`,
      printStatus: sql`${sql.placeholder("status")}`,
      printReason: sql`${sql.placeholder("reason")}`,
      printDeviceId: sql`${sql.placeholder("deviceId")}`,
      printReportedAt: sql`${sql.placeholder("now")}`,
      printBatch: null,
    })
    .where(itsSerial),
);
export type PrintOutcome = { status: "printed" | "failed"; reason: string | null; deviceId: string | null };
/** The end of a job, with what is known of the print from then on; the serial is free for another job. */
export async function ended(tx: Tx, row: Row, to: JobState, word: Word, changes: Change = {}, outcome?: PrintOutcome): Promise<Row> {
  const moved = await move(tx, row, to, word, { pool: false, dueAt: null, ...changes });
  const { tenantId, serial, jobRef: ref } = row;
  await countEnd(tx, tenantId, to);
  const isSealed = to === "SEALED";
  const left = { tenantId, serial, strayJob: row.duplicateRisk && !isSealed ? ref : null };
  if (!outcome) await close.run(left);
  else await settle.run({ ...left, ...outcome, now: tx.now, sealedJob: isSealed ? ref : null });
  return moved;
}

/** The label of an attempt is known to be gone: nobody has to look for it any more. */
export async function accountFor(tx: Tx, row: Row, attemptId: string): Promise<void> {
  if (!row.duplicateRisk || row.attemptId !== attemptId) return;
  if (row.state === "FAILED") await change(tx, row, { duplicateRisk: false });
  const { tenantId, serial, jobRef: ref } = row;
  const ours = and(eq(serials.tenantId, tenantId), eq(serials.serial, serial), eq(serials.strayJob, ref));
  if (hasEnded(row.state)) await tx.db.update(serials).set({ strayJob: null }).where(ours);
}

const illegal = (from: JobState, to: JobState, allowed: readonly string[], message: string) =>
  new Refusal("ILLEGAL_TRANSITION", message, { from, to, allowed });

export async function cancel(tx: Tx, by: By, ref: string, reason: string | undefined): Promise<Job> {
  const row = await find(tx, by.tenantId, ref);
  if (!mayCancel(row.state))
    throw illegal(
      row.state,
      "CANCELLED",
      [],
      hasEnded(row.state) ? `the job is ${row.state} and stays so` : `the job is ${row.state}: a label may exist, so it can't be cancelled`,
    );
  const why = reason ?? null;
  return toWire(await ended(tx, row, "CANCELLED", { actor: { kind: "issuer", id: by.actor.id }, reason: why }, { reason: why }));
}

/** A voided serial gets no label: its open job ends wherever it stands. */
export async function cancelVoided(tx: Tx, by: By, { openJob }: carriers.Row): Promise<void> {
  if (openJob === null) return;
  const row = await find(tx, by.tenantId, openJob);
  const reason = "SERIAL_VOIDED";
  await ended(tx, row, "CANCELLED", { actor: { kind: "issuer", id: by.actor.id }, reason }, { reason });
}
