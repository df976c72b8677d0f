// The first units on a restored store: what may have been given out since the backup is given to nobody else, and every tenant is told.
import { and, asc, eq, gt, inArray, isNull, lt, lte, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { type JobState, openStates } from "#shared/states.ts";
import { consoleSessions, counters, printJobs, serialCounters, serials } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import * as audit from "./audit.ts";
import { newId } from "./ids.ts";
import { markRestore } from "./set-back.ts";

const AGE_MAX_S = 366 * 86_400; // by a clock that is set decades ahead no serial would be left; so long a time takes an eighth of them

const PLACES = eq(counters.name, "credential_status");

/** How far a store has given out serials, by tenant, and places in status lists. */
export type GivenOut = { serials: { tenantId: string; next: number }[]; places: number };
export async function givenOut({ db }: Tx): Promise<GivenOut> {
  const [counter] = await db.select({ value: counters.value }).from(counters).where(PLACES);
  const serials = await db.select({ tenantId: serialCounters.tenantId, next: serialCounters.next }).from(serialCounters);
  return { serials, places: counter?.value ?? 0 };
}

type Since = {
  takenAt: string;
  logSize: number;
  /** By the stores that the restored one takes the place of. */
  given?: readonly GivenOut[];
  /** When the last restore was that the node knows of, whose settings this has. */
  seenAt?: number | undefined;
};
export async function afterRestore(tx: Tx, { takenAt, logSize, given = [], seenAt }: Since): Promise<void> {
  const seconds = Math.min(AGE_MAX_S, Math.max(0, (tx.now - Date.parse(takenAt)) / 1_000)); // a restore of the same backup before this one left out fewer, though it be in the same second
  const places = limits.RESTORE_SKIP_SERIALS + Math.ceil(seconds * limits.RESTORE_SKIP_SERIALS_PER_S);
  const bits = limits.RESTORE_SKIP_CREDENTIALS + Math.ceil(seconds * limits.RESTORE_SKIP_CREDENTIALS_PER_S);
  await tx.db.update(serialCounters).set({ next: sql`${serialCounters.next} + ${places}` });
  await tx.db
    .update(counters)
    .set({ value: sql`${counters.value} + ${bits}` })
    .where(PLACES);
  for (const { serials: theirs, places: value } of given) {
    for (const { tenantId, next } of theirs)
      await tx.db
        .update(serialCounters)
        .set({ next })
        .where(and(eq(serialCounters.tenantId, tenantId), lt(serialCounters.next, next)));
    await tx.db
      .update(counters)
      .set({ value })
      .where(and(PLACES, lt(counters.value, value)));
  }
  await markRestore(tx, seenAt);
  await tx.db.delete(consoleSessions); // who signed out since isn't to be signed in again
  const requestId = newId();
  for (const tenantId of await audit.chainIds(tx)) {
    const entry = { action: "tenant.restored", subject: null, details: { takenAt, logSize }, requestId } as const;
    audit.append(tx, audit.ourselves(tenantId, "restore"), entry);
  }
}

const RESTORED = "restored"; // where the reference of a job stands else: that of the job that may have been, nobody knows
const SLICE_ROWS = 100_000; // PostgreSQL takes a second for them, and a unit of work may take ten

/** Those in which the tenant has jobs now. */
export const openStatesOf = async (tx: Tx, tenantId: string): Promise<JobState[]> => {
  const isOpen = and(eq(printJobs.tenantId, tenantId), inArray(printJobs.state, openStates));
  return (await tx.db.selectDistinct({ state: printJobs.state }).from(printJobs).where(isOpen)).map(({ state }) => state);
};

const SLICE_JOBS = 10_000; // each of them has several indexes, and a queue may be half a million long
/** A job that was open then may have been printed since: whoever claims it is told to look for the label. Does one slice of a state's; answers its last job. */
export async function warnOfJobs(tx: Tx, tenantId: string, state: JobState, after: string, most = SLICE_JOBS): Promise<string | undefined> {
  const rest = and(eq(printJobs.tenantId, tenantId), eq(printJobs.state, state), gt(printJobs.jobRef, after));
  const places = tx.db.select({ ref: printJobs.jobRef }).from(printJobs).where(rest).orderBy(asc(printJobs.jobRef));
  const last = (await places.limit(1).offset(most - 1))[0]?.ref;
  await tx.db
    .update(printJobs)
    .set({ duplicateRisk: true })
    .where(and(rest, last === undefined ? undefined : lte(printJobs.jobRef, last)));
  return last;
}

/** Any serial may have been printed after the backup was made, so the next job of each begins with the warning. Does one slice; answers its last serial. */
export async function warnOfSerials(tx: Tx, tenantId: string, after: string): Promise<string | undefined> {
  const rest = and(eq(serials.tenantId, tenantId), gt(serials.serial, after));
  const places = tx.db.select({ serial: serials.serial }).from(serials).where(rest).orderBy(asc(serials.serial));
  const last = (await places.limit(1).offset(SLICE_ROWS - 1))[0]?.serial;
  const slice = and(rest, last === undefined ? undefined : lte(serials.serial, last), isNull(serials.voidedAt));
  await tx.db.update(serials).set({ strayJob: RESTORED }).where(slice); // one that it has left earlier is then not the latest any more
  return last;
}
