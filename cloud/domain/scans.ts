// Scans: that a label's link was followed, by a person's browser or by a program; never from where.
import { randomUUIDv7 } from "node:crypto";
import { inArray, lt } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { scans } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import { instant } from "./instant.ts";
import { emit } from "./outbox.ts";

/** What is kept of it, and the request that it is told under. */
export type Scan = Omit<typeof scans.$inferSelect, "id"> & { requestId: string };

const insertScan = prepared(db.insert(scans).values(placesOf(scans)));

/** Kept, and told to whoever listens. */
export async function recordScans(tx: Tx, seen: readonly Scan[]): Promise<void> {
  for (const { requestId, ...scan } of seen) {
    await insertScan.run({ ...scan, id: randomUUIDv7() });
    const { tenantId, productId, gtin, serial, at } = scan;
    await emit(tx, { tenantId, requestId }, "scan.recorded", {
      gtin,
      serial,
      productId,
      at: instant(at),
      source: "resolver",
    });
  }
}

/** Forgets the oldest; how many. */
export async function forgetScans(tx: Tx, most: number): Promise<number> {
  const old = tx.db
    .select({ id: scans.id })
    .from(scans)
    .where(lt(scans.at, tx.now - limits.SCAN_KEEP_MS))
    .limit(most);
  return (await tx.db.delete(scans).where(inArray(scans.id, old)).returning({ id: scans.id })).length;
}
