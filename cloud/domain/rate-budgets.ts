// Rate budgets of several nodes: what each let through is booked in the store, and each hears what that left for all of them.
import { and, inArray, lt, sql } from "../store/drizzle.ts";
import { burstOf } from "#shared/limits.ts";
import { bare, prepared } from "../store/prepared.ts";
import { rateBudgets } from "../store/schema.ts";
import { db, inTurn, type Tx } from "../store/store.ts";

/** Tokens that one key took of its so many a minute. */
export type Spending = { key: string; perMinute: number; tokens: number };

/** What budgets are told by: so many a minute. */
export const MINUTE_MS = 60_000;
const { placeholder } = sql;

// A bucket is one instant: when it will be full again. Taking moves it on, and time alone fills it. It is never further off than a minute, whatever
// many nodes let through at once: where the clock was set back by an hour, everybody would be refused for that hour.
const book = prepared(
  db
    .insert(rateBudgets)
    .values({ key: placeholder("key"), fullAt: placeholder("fullAt") })
    .onConflictDoUpdate({
      target: bare(rateBudgets.key),
      set: {
        fullAt: sql`CASE WHEN ${rateBudgets.fullAt} > ${placeholder("latest")} THEN ${placeholder("latest")} WHEN ${rateBudgets.fullAt} > ${placeholder("now")} THEN ${rateBudgets.fullAt} ELSE ${placeholder("now")} END + ${placeholder("tookMs")}`,
      },
    })
    .returning({ fullAt: rateBudgets.fullAt }),
);

/** Books it in one round trip; what is left of each key's burst, below zero where nodes took too much. */
export async function settle(tx: Tx, spendings: readonly Spending[]): Promise<Map<string, number>> {
  const { now } = tx;
  const left = inTurn(spendings, ({ key }) => key).map(async ({ key, perMinute, tokens }) => {
    const tokenMs = MINUTE_MS / perMinute;
    const tookMs = Math.round(tokens * tokenMs);
    const booked = await book.get({ key, now, latest: now + MINUTE_MS, tookMs, fullAt: now + tookMs });
    if (!booked) throw new Error(`the rate budget of ${key} wasn't booked`);
    return [key, burstOf(perMinute) - (booked.fullAt - now) / tokenMs] as const;
  });
  return new Map(await Promise.all(left));
}

/** Forgets buckets that are full again; how many. */
export async function forget(tx: Tx, most: number): Promise<number> {
  const isFull = lt(rateBudgets.fullAt, tx.now - MINUTE_MS);
  const full = tx.db.select({ key: rateBudgets.key }).from(rateBudgets).where(isFull).limit(most);
  const gone = await tx.db
    .delete(rateBudgets)
    .where(and(inArray(rateBudgets.key, full), isFull)) // still so where another node books it meanwhile
    .returning({ key: rateBudgets.key });
  return gone.length;
}
