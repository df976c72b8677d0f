// Voiding: a product as a whole, or one serial of it. What is voided is never printed again, and its link answers with a tombstone.
import { and, eq, isNull } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import { digitalLink } from "#shared/gs1.ts";
import type { Product, Void } from "#shared/wire/products.ts";
import { serials } from "../store/schema.ts";
import { overtaken, type Tx } from "../store/store.ts";
import * as carriers from "./carriers.ts";
import * as epcis from "./epcis.ts";
import type { By } from "./events.ts";
import { instant } from "./instant.ts";
import { cancelAllOf, cancelVoided } from "./job-ends.ts";
import * as jobs from "./jobs.ts";
import * as products from "./products.ts";

/** Without a serial, or with an item's own, it is the product; else one that was allocated for its labels, with the item that has a passport of its own. */
export async function voidIt(tx: Tx, by: By, id: string, said: Void, origin: string, ifMatch?: string): Promise<Product> {
  const product = await products.hold(tx, by.tenantId, id);
  products.refuseStale(product, ifMatch);
  if (said.serial === undefined || (product.granularity === "item" && said.serial === product.serialNumber))
    return voidWhole(tx, by, product, said.reason, origin);
  const row = await carriers.find(tx, by.tenantId, said.serial);
  if (row?.gtin !== product.gtin) throw new Refusal("SERIAL_NOT_ALLOCATED", `serial: ${said.serial} isn't allocated under ${product.gtin}`);
  if (row.voidedAt !== null) throw new Refusal("ALREADY_VOIDED", `it was voided at ${instant(row.voidedAt)}`);
  const hasOwner = row.productId !== product.id && (await products.exists(tx, by.tenantId, row.productId));
  if (hasOwner) await products.hold(tx, by.tenantId, row.productId); // before its jobs and serials, as who voids that one as a whole
  const item = await products.itemOf(tx, by.tenantId, row);
  if (item && item.voidedAt === null) await voidWhole(tx, by, item, said.reason, origin);
  else await voidSerial(tx, by, row, said.reason, origin);
  // The product that the serial hangs on, where it was voided by way of another one of its GTIN, and is still there.
  if (hasOwner && item?.id !== row.productId)
    await products.tellVoided(tx, by, await products.find(tx, by.tenantId, row.productId), row.serial, said.reason);
  return products.tellVoided(tx, by, product, row.serial, said.reason);
}

async function voidWhole(tx: Tx, by: By, row: products.Row, reason: string, origin: string): Promise<Product> {
  const voided = await products.voidIt(tx, by, row.id, reason);
  if (row.printed) await cancelAllOf(tx, by, row.id);
  // An item may be a thing whose serial was allocated under its model.
  const own = row.granularity === "batch" ? undefined : await carriers.find(tx, by.tenantId, row.serialNumber);
  if (own?.gtin === row.gtin && own.voidedAt === null) await voidSerial(tx, by, own, reason, origin);
  return voided;
}

async function voidSerial(tx: Tx, by: By, row: carriers.Row, reason: string, origin: string): Promise<void> {
  if (row.openJob !== null) await jobs.hold(tx, by.tenantId, [row.openJob]); // before its serial, as everybody does
  const isUnvoided = and(eq(serials.tenantId, by.tenantId), eq(serials.serial, row.serial), isNull(serials.voidedAt));
  // As it is now that nobody else can change it.
  const [now] = await tx.db.update(serials).set({ voidedAt: tx.now, voidReason: reason }).where(isUnvoided).returning();
  if (!now) throw overtaken(`serial ${row.serial}`);
  if (now.openJob !== null) await cancelVoided(tx, by, now.openJob, "SERIAL_VOIDED");
  if (now.sealedJob === null && now.printStatus !== "printed") return;
  const at = Math.max(tx.now, (now.printReportedAt ?? 0) + 1); // behind what was said of its print while this unit waited
  await epcis.decommissioned(tx, by.tenantId, { digitalLink: digitalLink(origin, row.gtin, { serial: row.serial }), at });
}
