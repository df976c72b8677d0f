// The first unit on a restored store: what may have been given out since the backup is given to nobody else, and every tenant is told.
import { eq, notInArray, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { jobStateNames, jobStates } from "#shared/states.ts";
import type { Caller } from "../route.ts";
import { counters, printJobs, serialCounters } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import * as audit from "./audit.ts";
import { newId } from "./ids.ts";

const ENDED = jobStateNames.filter((name) => jobStates[name].next.length === 0);

export async function afterRestore(tx: Tx, { takenAt, logSize }: { takenAt: string; logSize: number }): Promise<void> {
  await tx.db.update(serialCounters).set({ next: sql`${serialCounters.next} + ${limits.RESTORE_SKIP_SERIALS}` });
  await tx.db
    .update(counters)
    .set({ value: sql`${counters.value} + ${limits.RESTORE_SKIP_CREDENTIALS}` })
    .where(eq(counters.name, "credential_status"));
  // A job that was open then may have been printed since: whoever claims it is told to look for the label.
  await tx.db.update(printJobs).set({ duplicateRisk: true }).where(notInArray(printJobs.state, ENDED));
  const requestId = newId();
  for (const tenantId of await audit.chainIds(tx)) {
    const caller = { tenantId, credential: { kind: "system", id: "system", name: "restore" } } as Caller;
    audit.append(tx, caller, { action: "tenant.restored", subject: null, details: { takenAt, logSize }, requestId });
  }
}
