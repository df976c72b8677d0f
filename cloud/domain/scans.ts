// Scans: that a label's link was followed, by a person's browser or by a program; never from where.
import { inArray, lt } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { scans } from "../store/schema.ts";
import { db, eachBeside, type Tx } from "../store/store.ts";
import { instant } from "./instant.ts";
import { emit, listenersOf } from "./outbox.ts";

/** What is kept of it, and the request that it is told under. */
export type Scan = typeof scans.$inferSelect & { requestId: string };

const insertScan = prepared(db.insert(scans).values(placesOf(scans)));

/** Kept, and told to whoever listens. */
export async function recordScans(tx: Tx, seen: readonly Scan[]): Promise<void> {
  const tenants = [...new Set(seen.map(({ tenantId }) => tenantId))];
  const listeners = new Map(await eachBeside(tenants, async (tenantId) => [tenantId, await listenersOf(tx, tenantId, "scan.recorded")]));
  await eachBeside(seen, async ({ requestId, ...scan }) => {
    const { tenantId, productId, gtin, serial, at } = scan;
    const told = { gtin, serial, productId, at: instant(at), source: "resolver" } as const;
    await insertScan.run(scan);
    await emit(tx, { tenantId, requestId }, "scan.recorded", told, { listeners: listeners.get(tenantId) as string[] });
  });
}

/** Those of them that aren't there: whose commit was asked for and not answered, as where a connection broke, may be. */
export async function unrecorded(tx: Tx, seen: readonly Scan[]): Promise<Scan[]> {
  const ids = seen.map(({ id }) => id);
  const there = await tx.db.select({ id: scans.id }).from(scans).where(inArray(scans.id, ids));
  const known = new Set(there.map(({ id }) => id));
  return seen.filter(({ id }) => !known.has(id));
}

/** Forgets the oldest; how many. */
export async function forgetScans(tx: Tx, most: number): Promise<number> {
  const isOld = lt(scans.at, tx.now - limits.SCAN_KEEP_MS);
  const old = tx.db.select({ id: scans.id }).from(scans).where(isOld).limit(most);
  return (await tx.db.delete(scans).where(inArray(scans.id, old)).returning({ id: scans.id })).length;
}
