// How far a store had gone when somebody looked: whether it goes on from there, or was set back to before.
import { eq, sql } from "../store/drizzle.ts";
import { bare } from "../store/prepared.ts";
import { counters, serialCounters } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { rootAt, sizeNow } from "./log.ts";

/** The log's head, and how many serials were given out. `first` tells stores apart; `restoredAt` says when this one was last set back with everybody's knowledge. */
export type Seen = { first: string; size: number; root: string; serials: number; restoredAt: number };

const RESTORED_AT = eq(counters.name, "restored_at");
const restoredAtOf = async ({ db }: Tx): Promise<number> =>
  (await db.select({ value: counters.value }).from(counters).where(RESTORED_AT).get())?.value ?? 0;

const serialsOf = async ({ db }: Tx): Promise<number> =>
  Number(
    (
      await db
        .select({ given: sql`sum(${serialCounters.next} - 1)` })
        .from(serialCounters)
        .get()
    )?.given ?? 0,
  );

/**
 * What was seen before counts no more. It is no count: the same state may be come back to more than once. `seenAt`: that of the last one that a node knows of,
 * which may be lost here, and have been dated by a clock that was ahead.
 */
export async function markRestore({ db, now }: Tx, seenAt = 0): Promise<void> {
  const at = Math.max(now, seenAt + 1);
  const once = { name: "restored_at", value: at };
  const again = { value: sql`CASE WHEN ${counters.value} < ${at} THEN ${at} ELSE ${counters.value} + 1 END` };
  await db
    .insert(counters)
    .values(once)
    .onConflictDoUpdate({ target: bare(counters.name), set: again });
}

/** Undefined while there is nothing in the log. */
export async function seenNow(tx: Tx): Promise<Seen | undefined> {
  const size = await sizeNow(tx);
  if (size === 0) return undefined;
  return { first: await rootAt(1), size, root: await rootAt(size), serials: await serialsOf(tx), restoredAt: await restoredAtOf(tx) };
}

export async function wasSetBack(tx: Tx, known: Seen): Promise<boolean> {
  const size = await sizeNow(tx);
  if (size === 0 || (await rootAt(1)) !== known.first) return false; // another store
  const restoredAt = await restoredAtOf(tx);
  if (restoredAt !== known.restoredAt) return restoredAt < known.restoredAt;
  return size < known.size || (await serialsOf(tx)) < known.serials || (await rootAt(known.size)) !== known.root;
}
