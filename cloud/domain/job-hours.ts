// How many jobs came to which end in which hour: counted in the commit that ends them, so that nobody ever has to count history.
import { and, eq, gte, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import type { JobState } from "#shared/states.ts";
import { prepared } from "../store/prepared.ts";
import { jobHours } from "../store/schema.ts";
import { db, type Finale, inTurn, run, together, type Tx } from "../store/store.ts";
import { ranks } from "./ranks.ts";

export const HOUR_MS = 3_600_000;
export const hourOf = (at: number): number => at - (at % HOUR_MS);

const COUNT = `INSERT INTO job_hours (tenant_id, state, hour, jobs) VALUES (?, ?, ?, ?)
  ON CONFLICT (tenant_id, state, hour) DO UPDATE SET jobs = job_hours.jobs + excluded.jobs`;
type End = { tenantId: string; state: JobState; hour: number };
const counting: Finale<End> = {
  rank: ranks.jobHours,
  say: async (ends) => {
    const rows = Map.groupBy(ends, ({ tenantId, state, hour }) => `${tenantId} ${state} ${hour}`);
    const counts = inTurn(rows, ([name]) => name).flatMap(([, [end, ...more]]) => (end ? { ...end, jobs: 1 + more.length } : []));
    await together(counts.map(({ tenantId, state, hour, jobs }) => run(COUNT, [tenantId, state, hour, jobs], "run")));
  },
};
export const countEnd = (tx: Tx, tenantId: string, state: JobState): void => tx.atEnd(counting, { tenantId, state, hour: hourOf(tx.now) });

const ofTenant = eq(jobHours.tenantId, sql.placeholder("tenantId"));
const sums = prepared(
  db
    .select({ state: jobHours.state, jobs: sql<number>`CAST(SUM(${jobHours.jobs}) AS INTEGER)`.mapWith(Number) })
    .from(jobHours)
    .where(ofTenant)
    .groupBy(jobHours.state),
);
const isShown = and(ofTenant, eq(jobHours.state, sql.placeholder("state")), gte(jobHours.hour, sql.placeholder("from")));
const hours = prepared(db.select({ hour: jobHours.hour, jobs: jobHours.jobs }).from(jobHours).where(isShown));

/** All there ever were, by the state that they ended in. */
export const endedJobs = (_tx: Tx, tenantId: string) => sums.all({ tenantId });
export const jobsByHour = (_tx: Tx, tenantId: string, state: JobState, from: number) => hours.all({ tenantId, state, from });

const LONG_AGO = 0;
/** Hours that nobody looks at one by one any more become one row a tenant and state, so that the totals stay; how many there were. */
export async function foldHours(tx: Tx, most: number): Promise<number> {
  const before = hourOf(tx.now - limits.JOB_HOURS_KEEP_MS);
  const old = sql`SELECT tenant_id, state, hour FROM job_hours WHERE hour > ${LONG_AGO} AND hour < ${before} ORDER BY hour LIMIT ${most}`;
  const isOld = sql`(tenant_id, state, hour) IN (${old})`;
  const gone = await tx.db.delete(jobHours).where(isOld).returning();
  for (const row of gone) await run(COUNT, [row.tenantId, row.state, LONG_AGO, row.jobs], "run");
  return gone.length;
}
