// Passports that were asked for and wait to be made: taken under a lease by whichever node comes first, made one by one.
import { and, asc, eq, gte, lte, sql } from "../store/drizzle.ts";
import type { Signing } from "../keys.ts";
import { passports as table } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { contentOf } from "./passport-content.ts";
import * as passports from "./passports.ts";
import * as products from "./products.ts";

const LEASE_MS = 30_000;

/** Spelled like the condition of the index of waiting passports, so that it is used. */
const isWaiting = sql`${table.state} = 'generating'`;

/** Some passports that wait to be made, for as long as the lease. In the order of that index: in another one all passports would be looked through. */
export async function claim(tx: Tx, most: number): Promise<passports.Row[]> {
  const isDue = and(isWaiting, lte(table.leaseUntil, tx.now));
  const due = await tx.db.select().from(table).where(isDue).orderBy(asc(table.leaseUntil)).limit(most);
  const claimed: passports.Row[] = [];
  for (const row of due) claimed.push(await passports.change(tx, row, { leaseUntil: tx.now + LEASE_MS }));
  return claimed;
}

export async function generate(tx: Tx, { tenantId, id }: passports.Row, signing: Signing): Promise<void> {
  const row = await passports.find(tx, tenantId, id);
  if (row.state !== "generating") return; // another node was faster
  const product = await products.find(tx, tenantId, row.productId);
  await passports.addVersion(tx, row, contentOf(product, signing.origin()), signing);
}

/** By a node that ends before it came to this one. */
export async function release(tx: Tx, { tenantId, id, leaseUntil }: passports.Row): Promise<void> {
  const isOurs = and(eq(table.tenantId, tenantId), eq(table.id, id), eq(table.leaseUntil, leaseUntil), isWaiting);
  await tx.db.update(table).set({ leaseUntil: 0 }).where(isOurs);
}

/** `|| ''` keeps the tenant's own index out of it: the one of waiting passports is far smaller. */
export async function isGenerating(tx: Tx, tenantId: string): Promise<boolean> {
  const isItsOwn = sql`${table.tenantId} || '' = ${tenantId} AND ${isWaiting}`;
  return (await tx.db.select({ id: table.id }).from(table).where(isItsOwn).limit(1)).length > 0;
}

/** For a single node that has just started: all leases were held by the process before it. */
export async function releaseAll(tx: Tx): Promise<void> {
  const isLeased = and(isWaiting, gte(table.leaseUntil, 1));
  await tx.db.update(table).set({ leaseUntil: 0 }).where(isLeased);
}
