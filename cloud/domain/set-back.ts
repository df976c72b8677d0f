// How far a store had gone when somebody looked: whether it goes on from there, or was set back to before.
import { eq, sql } from "../store/drizzle.ts";
import { bare } from "../store/prepared.ts";
import { counters, serialCounters } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { rootAt, sizeNow } from "./log.ts";

/** The log's head, and how many serials were given out. `first` tells stores apart; `restores` counts how often this one was set back with everybody's knowledge. */
export type Seen = { first: string; size: number; root: string; serials: number; restores: number };

const RESTORES = eq(counters.name, "restores");
const restoresOf = async ({ db }: Tx): Promise<number> =>
  (await db.select({ value: counters.value }).from(counters).where(RESTORES).get())?.value ?? 0;

const serialsOf = async ({ db }: Tx): Promise<number> =>
  Number(
    (
      await db
        .select({ given: sql`sum(${serialCounters.next} - 1)` })
        .from(serialCounters)
        .get()
    )?.given ?? 0,
  );

/** What was seen before counts no more. */
export async function countRestore({ db }: Tx): Promise<void> {
  const once = { name: "restores", value: 1 };
  const again = { value: sql`${counters.value} + 1` };
  await db
    .insert(counters)
    .values(once)
    .onConflictDoUpdate({ target: bare(counters.name), set: again });
}

/** Undefined while there is nothing in the log. */
export async function seenNow(tx: Tx): Promise<Seen | undefined> {
  const size = await sizeNow(tx);
  if (size === 0) return undefined;
  return { first: await rootAt(1), size, root: await rootAt(size), serials: await serialsOf(tx), restores: await restoresOf(tx) };
}

export async function wasSetBack(tx: Tx, known: Seen): Promise<boolean> {
  const size = await sizeNow(tx);
  if (size === 0 || (await rootAt(1)) !== known.first) return false; // another store
  const restores = await restoresOf(tx);
  if (restores !== known.restores) return restores < known.restores;
  return size < known.size || (await serialsOf(tx)) < known.serials || (await rootAt(known.size)) !== known.root;
}
