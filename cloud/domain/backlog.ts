// What waits and what is stuck, in figures: for the doctor and for whoever watches. Every count has an end, so that asking costs little.
import { run, type Tx } from "../store/store.ts";
import { WENT_WRONG } from "./deliveries.ts";

export const COUNTED_MAX_ROWS = 10_000;

export type Backlog = {
  /** Events of which deliveries have still to be made. */
  eventsWaiting: number;
  deliveriesWaiting: number;
  /** Deliveries that failed for good, or are held because their webhook is disabled. */
  deliveriesUnwell: number;
  webhooksDisabled: number;
  /** How long the webhook that is due longest has waited for somebody to work on it, or the oldest event for its deliveries. */
  dispatchLateMs: number;
  /** How long the print job that is due longest has waited for the reaper. */
  reapLateMs: number;
  importsOpen: number;
};

const COUNTS = {
  eventsWaiting: "outbox WHERE targets IS NOT NULL",
  deliveriesWaiting: "deliveries WHERE due_at IS NOT NULL",
  deliveriesUnwell: `deliveries WHERE ${WENT_WRONG}`,
  webhooksDisabled: "webhooks WHERE enabled = 0",
  importsOpen: "imports WHERE status IN ('pending', 'running')",
} as const;
const OLDEST_JOB = "SELECT min(look_at) FROM print_jobs WHERE look_at IS NOT NULL";
const OLDEST_LANE = "SELECT min(due_at) FROM lanes WHERE due_at > 0 AND lease_until <= ?";
// A new delivery makes its lane due at 0, whatever the clock says: of such lanes, some, how old what waits there is.
const FIRST_TRY = "SELECT d.created_at FROM deliveries d WHERE d.webhook_id = l.webhook_id AND d.due_at = 0 ORDER BY d.id LIMIT 1";
const OLDEST_FIRST_TRY = `SELECT min(created_at) FROM (SELECT (${FIRST_TRY}) AS created_at FROM lanes l WHERE due_at = 0 AND lease_until <= ? LIMIT 100) AS waiting`;

const OLDEST_EVENT = "SELECT at FROM outbox WHERE targets IS NOT NULL ORDER BY id LIMIT 1";

export async function backlog(tx: Tx): Promise<Backlog> {
  const one = async (sql: string, params: unknown[]) => ((await run(sql, params, "get")).rows?.[0] ?? null) as number | null;
  const counted = async (what: string) =>
    (await one(`SELECT count(*) FROM (SELECT 1 FROM ${what} LIMIT ?) AS counted`, [COUNTED_MAX_ROWS])) ?? 0;
  const lateMs = (dueAt: number | null) => (dueAt === null ? 0 : Math.max(0, tx.now - dueAt));
  const counts = {} as Record<keyof typeof COUNTS, number>;
  for (const [name, what] of Object.entries(COUNTS)) counts[name as keyof typeof COUNTS] = await counted(what);
  return {
    ...counts,
    dispatchLateMs: Math.max(
      lateMs(await one(OLDEST_LANE, [tx.now])),
      lateMs(await one(OLDEST_FIRST_TRY, [tx.now])),
      lateMs(await one(OLDEST_EVENT, [])),
    ),
    reapLateMs: lateMs(await one(OLDEST_JOB, [])),
  };
}
