// The list of print jobs by what is asked of them: a state or a serial off its index, what is under way off that of its state, all else a stretch at a time.
import type { SQL } from "drizzle-orm";
import { and, eq, inArray, sql } from "../store/drizzle.ts";
import { gtin14 } from "#shared/gs1.ts";
import { type JobState, leaseOf } from "#shared/states.ts";
import type { JobQuery } from "#shared/wire/jobs.ts";
import { printJobs } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import * as carriers from "./carriers.ts";
import { toWire } from "./jobs.ts";
import { pageOf, pageReply } from "./page.ts";
import { lookedThrough } from "./stretches.ts";

const REF = /^pj_[0-9A-HJKMNP-TV-Z]{26}$/;

/** Those in a state, found in the index of states: asked for whole rows, SQLite would look through all jobs that there ever were. */
const latestIn = (tenantId: string, state: JobState, after: string | undefined, most: number): SQL =>
  sql`${printJobs.jobRef} IN (SELECT job_ref FROM print_jobs WHERE tenant_id = ${tenantId} AND state = ${state} AND job_ref < ${after ?? "q"}
    ORDER BY job_ref DESC LIMIT ${most})`; // no reference reaches "q"

/** Jobs under a lease at a time: as many as lines work at, however many were sealed. */
const LEASED_MAX = 1_000_000;

/** Spelled as the index of jobs by their serial has it, and so that SQLite takes that one, and not the tenant's whole history. */
const asideOf = (tenantId: string, serial: string): SQL =>
  sql`tenant_id || '' = ${tenantId} AND serial = ${serial} AND (state IN ('CANCELLED', 'DEAD_LETTER') OR reprint = 1)`;
/** All jobs of a serial. Undefined where a reprint was sealed: the first one that was is then named nowhere, and has to be looked for. */
async function refsOf(tx: Tx, tenantId: string, serial: string): Promise<string[] | undefined> {
  const carrier = await carriers.find(tx, tenantId, serial);
  const others = await tx.db.select({ ref: printJobs.jobRef, state: printJobs.state }).from(printJobs).where(asideOf(tenantId, serial));
  if (others.some(({ state }) => state === "SEALED")) return undefined;
  return [carrier?.openJob ?? [], carrier?.sealedJob ?? [], others.map(({ ref }) => ref)].flat();
}

export async function list(store: Store, { tenantId }: Caller, query: JobQuery) {
  const page = pageOf(query, REF);
  const { state, gtin, serial, device } = query;
  const refs = serial === undefined ? undefined : await store.read("jobs", (tx) => refsOf(tx, tenantId, serial));
  const named = and(
    gtin === undefined ? undefined : eq(printJobs.gtin, gtin14(gtin)),
    serial === undefined ? undefined : eq(printJobs.serial, serial),
    device === undefined ? undefined : eq(printJobs.deviceId, device),
  );
  const inState = state === undefined ? undefined : eq(printJobs.state, state);
  let found: SQL | undefined;
  if (refs) found = and(inArray(printJobs.jobRef, refs), named, inState);
  else if (!named && state !== undefined) found = latestIn(tenantId, state, page.after, page.most);
  else if (state !== undefined && leaseOf(state) !== null) found = and(latestIn(tenantId, state, page.after, LEASED_MAX), named);
  const { rows, limit } = await lookedThrough(store, "jobs", page, {
    table: printJobs,
    key: printJobs.jobRef,
    whole: and(eq(printJobs.tenantId, tenantId), found),
    fits: found ? undefined : and(named, inState),
  });
  return pageReply(rows, limit, (row) => row.jobRef, toWire);
}
