// What is forgotten and when: one table. What isn't in it stays: evidence, jobs and their history, the audit chains, the log, products and their versions.
import { and, eq, gt, lte, or } from "../store/drizzle.ts";
import { counters } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import * as sessions from "./console-sessions.ts";
import * as deliveries from "./deliveries.ts";
import * as idempotency from "./idempotency.ts";
import { foldHours } from "./job-hours.ts";
import * as rateBudgets from "./rate-budgets.ts";
import { forgetScans } from "./scans.ts";
import { forgetAbandoned } from "./uploads.ts";

/** Forgets at most so many rows, oldest first; says how many there were. */
export type Forget = (tx: Tx, most: number) => Promise<number>;

export const retained: Record<string, Forget> = {
  "idempotency answers": idempotency.forget,
  "upload slices": forgetAbandoned,
  "console sessions": sessions.forget,
  scans: forgetScans,
  deliveries: deliveries.forgetEnded,
  "held deliveries": deliveries.forgetHeld,
  events: deliveries.forgetEvents,
  "job hours": foldHours,
  "rate budgets": rateBudgets.forget,
};

const TURN_MS = 120_000;
const SWEEP = eq(counters.name, "sweep_until");

/** Takes the sweeping for a while, or keeps it: until when; undefined while another node has it. */
export async function takeSweep(tx: Tx, held: number): Promise<number | undefined> {
  const until = tx.now + TURN_MS;
  const isOver = or(lte(counters.value, tx.now), gt(counters.value, tx.now + 2 * TURN_MS)); // nobody takes so long a turn: it was by a clock that was ahead
  const isFree = held > 0 ? or(isOver, eq(counters.value, held)) : isOver;
  const taken = await tx.db.update(counters).set({ value: until }).where(and(SWEEP, isFree)).returning({ value: counters.value });
  return taken[0]?.value;
}

/** Leaves it to whoever comes first. */
export async function endSweep(tx: Tx, held: number): Promise<void> {
  const isOurs = and(SWEEP, eq(counters.value, held));
  await tx.db.update(counters).set({ value: 0 }).where(isOurs);
}
