// The nodes that share a store, each with the origin that its links and tokens name, for as long as it says that it is there.
import { between, sql } from "../store/drizzle.ts";
import { bare } from "../store/prepared.ts";
import { nodes } from "../store/schema.ts";
import { SKIP_LOCKED, type Tx } from "../store/store.ts";

const SILENT_MS = 60_000;
/** What clocks may be apart without a word. */
export const CLOCK_OFF_MS = 2_000;
/** How far from the database's instant a machine's clock is, by which that was heard between these two. */
export const clocksApartMs = (theirs: number, before: number, after: number): number => Math.max(theirs - after, before - theirs, 0);

/** Says that a node is there; who hasn't been heard of for a minute is forgotten. */
export async function beHeard(tx: Tx, id: string, origin: string): Promise<void> {
  const heard = { origin, seenAt: tx.now };
  await tx.db
    .insert(nodes)
    .values({ id, ...heard })
    .onConflictDoUpdate({ target: bare(nodes.id), set: heard });
  // One that another node is writing just now is heard again: of two that were both cut off from the store neither waits for the other.
  const isSilent = sql`${nodes.id} IN (SELECT id FROM nodes WHERE seen_at < ${tx.now - SILENT_MS} ${sql.raw(SKIP_LOCKED)})`;
  await tx.db.delete(nodes).where(isSilent);
}

/** What those name that were heard of within the last minute: one, where all were told the same. */
export async function originsHeard(tx: Tx): Promise<string[]> {
  const isHeard = between(nodes.seenAt, tx.now - SILENT_MS, tx.now + SILENT_MS); // beyond that the clock was set back
  const rows = await tx.db.selectDistinct({ origin: nodes.origin }).from(nodes).where(isHeard).orderBy(nodes.origin);
  return rows.map(({ origin }) => origin);
}
