// Print jobs: looked at, and the one way in which any of them changes state.
import { and, asc, eq, getTableColumns, gt, sql } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import { isObject } from "#shared/object.ts";
import { type Assertor, hasEnded, type JobState, leaseOf } from "#shared/states.ts";
import { type BundleItem, type Job, type JobHistory, type Need, needNames } from "#shared/wire/jobs.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { printEvents, printJobs, tenants } from "../store/schema.ts";
import { db, LOCKED, overtaken, together, type Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { found as foundIn } from "./found.ts";
import { instant } from "./instant.ts";
import { type PageQuery, SEQ, wholeOf, wholeReply } from "./page.ts";
import { waits } from "./wakes.ts";

/** A job's row. In a unit that holds the job and writes it last: `stored` is the revision that the store still has, `said` all that was said of the attempt, if the unit heard all. */
export type Row = typeof printJobs.$inferSelect & { stored?: number; said?: Said[] };
export type Said = { toState: JobState; item: BundleItem | null };
type Actor = { kind: Assertor; id: string | null };
export const ANY_STATION = "";
export const maskOf = (needs: readonly Need[]): number => needs.reduce((mask, need) => mask | (1 << needNames.indexOf(need)), 0);
export const needsRfid = ({ needs }: Row): boolean => (needs & maskOf(["rfid"])) !== 0;
const needsIn = (mask: number): Need[] => needNames.filter((_, bit) => mask & (1 << bit));

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

/** For a statement that says itself which jobs it answers: all their columns, and what comes of those at the front of its rows. */
export const COLUMNS = Object.values(getTableColumns(printJobs))
  .map(({ name }) => `print_jobs.${name}`)
  .join(", ");
export const rowOf = (values: unknown[]): Row => byRef.mapped(values) as Row;

export const found = (row: Row | undefined): Row => foundIn("print job", row);
export const find = async (_tx: Tx, tenantId: string, ref: string): Promise<Row> => found(await byRef.get({ tenantId, jobRef: ref }));

const lockedByRef = prepared(db.select().from(printJobs).where(mine), LOCKED);
/** Takes jobs that are about to change, in the order that everybody takes them in: crosswise, two callers would wait for each other. */
export async function hold(_tx: Tx, tenantId: string, refs: readonly string[]): Promise<Map<string, Row>> {
  const held = await Promise.all([...new Set(refs)].toSorted().map((jobRef) => lockedByRef.get({ tenantId, jobRef })));
  return new Map(held.flatMap((row) => (row ? [[row.jobRef, row]] : [])));
}

export const get = async (tx: Tx, caller: Caller, ref: string): Promise<Job> => toWire(await find(tx, caller.tenantId, ref));

// The one place where a job changes: what may change in its life, against the revision that was read.
const CHANGING = [
  "state",
  "fromState",
  "reached",
  "pool",
  "dueAt",
  "lookAt",
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
    .set({ ...Object.fromEntries(CHANGING.map((name) => [name, places[name]])), revision: places.revision })
    .where(and(mine, eq(printJobs.revision, sql.placeholder("stored")))),
);
const tell = prepared(db.insert(printEvents).values(placesOf(printEvents)));

export type Change = Partial<Omit<Pick<Row, (typeof CHANGING)[number]>, "dueAt">>;
/** Writes the changes if nobody was faster. */
export async function change(tx: Tx, { stored, said: _, ...row }: Row, changes: Change): Promise<Row> {
  const next: Row = { ...row, ...changes, dueAt: null, updatedAt: tx.now, revision: row.revision + 1 };
  await put(next, stored ?? row.revision);
  if (next.pool && !row.pool) waits(tx, next);
  return next;
}
async function put(row: Row, stored: number): Promise<void> {
  if ((await write.run({ ...row, stored })) === 0) throw overtaken(`print job ${row.jobRef}`);
}

export type Word = { actor: Actor; reason?: string | null; item?: BundleItem | null };
/** Moves a job to another state and keeps the word on which it moved, in the same commit. */
export async function move(tx: Tx, row: Row, to: JobState, word: Word, changes: Change = {}): Promise<Row> {
  const { jobRef: ref, attemptId, attempt, revision, state: fromState } = row;
  const told = { jobRef: ref, attemptId, attempt, fromState, state: to, revision: revision + 1 };
  const [moved] = await together([change(tx, row, { ...changes, state: to, fromState }), record(tx, told, word)]);
  return moved;
}

/** Likewise for a unit that holds the job and goes on with it: each word is kept, the row is written once, by `change` or `catchUp`. */
export async function moveAhead(tx: Tx, row: Row, to: JobState, word: Word, changes: Change = {}): Promise<Row> {
  const { state, revision, stored = revision, said = state === "CLAIMED" ? [] : undefined } = row;
  said?.push({ toState: to, item: word.item ?? null });
  const moved = {
    ...row,
    ...changes,
    dueAt: null,
    state: to,
    fromState: state,
    updatedAt: tx.now,
    revision: revision + 1,
    stored,
    ...(said && { said }),
  };
  await record(tx, moved, word);
  return moved;
}
export async function catchUp(_tx: Tx, { stored, ...row }: Row): Promise<void> {
  if (stored !== undefined) await put(row, stored);
}

type Recorded = Pick<Row, "jobRef" | "revision" | "fromState" | "state" | "attemptId" | "attempt">;
/** The row as it is now, and what made it so. */
export async function record(tx: Tx, { jobRef: ref, revision, fromState, state, attemptId, attempt }: Recorded, word: Word): Promise<void> {
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
type Terms = NonNullable<Awaited<ReturnType<typeof readTenant.get>>>;
const termsIn = new WeakMap<Tx, Map<string, Promise<Terms | undefined>>>();
/** Read once a unit, however many jobs it is about. */
export async function tenantOf(tx: Tx, tenantId: string): Promise<Terms> {
  const known = termsIn.get(tx) ?? new Map<string, Promise<Terms | undefined>>();
  termsIn.set(tx, known);
  const asked = known.get(tenantId) ?? readTenant.get({ tenantId });
  known.set(tenantId, asked);
  const tenant = await asked;
  if (!tenant) throw new Error(`the tenant ${tenantId} is gone`);
  return tenant;
}

const isOfJob = eq(printEvents.jobRef, sql.placeholder("ref"));
const eventsByRef = prepared(db.select().from(printEvents).where(isOfJob).orderBy(asc(printEvents.n)));
const isOfAttempt = and(eq(printEvents.jobRef, sql.placeholder("jobRef")), eq(printEvents.attemptId, sql.placeholder("attemptId")));
const wordsOfAttempt = prepared(
  db.select({ toState: printEvents.toState, item: printEvents.item }).from(printEvents).where(isOfAttempt).orderBy(asc(printEvents.n)),
);
/** What was said of the attempt that the job is at, in the order it was said. */
export const wordsOf = async (_tx: Tx, { jobRef: ref, attemptId, said }: Row): Promise<Said[]> =>
  said ?? (await wordsOfAttempt.all({ jobRef: ref, attemptId }));
export const eventsOf = (_tx: Tx, ref: string) => eventsByRef.all({ ref });

/** Whoever reports that an attempt failed may say anything there. */
function dispositionIn(item: BundleItem | null): Pick<JobHistory["data"][number], "label_disposition"> {
  const said = item?.evidence?.["label_disposition"];
  return isObject(said) && typeof said["outcome"] === "string" ? { label_disposition: { ...said, outcome: said["outcome"] } } : {};
}

/** From its first moment on, a page at a time: a job whose lease runs out again and again has many. */
export async function history(tx: Tx, caller: Caller, ref: string, query: PageQuery): Promise<JobHistory> {
  await find(tx, caller.tenantId, ref);
  const { limit, most, after } = wholeOf(query, SEQ);
  const isIts = and(eq(printEvents.jobRef, ref), after === undefined ? undefined : gt(printEvents.n, Number(after)));
  const rows = await tx.db.select().from(printEvents).where(isIts).orderBy(asc(printEvents.n)).limit(most);
  return wholeReply(
    rows,
    limit,
    ({ n }) => String(n),
    ({ at, fromState, toState, attemptId, attempt, actor, reason, item }) => ({
      at: instant(at),
      from: fromState,
      to: toState,
      attempt_id: attemptId,
      attempt,
      actor,
      reason,
      occurred_at: item?.occurred_at === undefined ? null : instant(Date.parse(item.occurred_at)), // the evidence keeps it as it was sent
      ...dispositionIn(item),
    }),
  );
}

/** `why` holds of a job that goes on; one that has ended stays so. */
export const illegal = ({ state: from }: Row, to: JobState, allowed: readonly JobState[], why: string): Refusal =>
  new Refusal("ILLEGAL_TRANSITION", hasEnded(from) ? `the job is ${from} and stays so` : why, { from, to, allowed });
