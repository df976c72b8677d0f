// Who speaks for a GTIN in public: the first tenant that publishes it as a whole, or that publishes this lot, this item or this label's serial of it.
import { and, asc, eq, gt, inArray, ne, or, sql } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import { prepared } from "../store/prepared.ts";
import { claims, claimTurns, type products, serials } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";

const OWNERS_MAX = 10; // tenants that publish parts of one GTIN; more is nobody's honest trade
const isNext = and(eq(claims.gtin, sql.placeholder("gtin")), gt(claims.tenantId, sql.placeholder("after")));
const nextOwner = prepared(db.select({ tenantId: claims.tenantId }).from(claims).where(isNext).orderBy(asc(claims.tenantId)).limit(1));
/** The tenants that publish anything of it. */
export async function* ownersOf(gtin: string): AsyncGenerator<string> {
  for (let [after, n] = ["", 0]; n < OWNERS_MAX; n += 1) {
    const owner = await nextOwner.get({ gtin, after });
    if (!owner) return;
    after = owner.tenantId;
    yield after;
  }
}

type Claimant = Pick<typeof products.$inferSelect, "tenantId" | "id" | "gtin" | "identity" | "granularity" | "serialNumber">;

/** Nobody speaks for a GTIN that another tenant already speaks for. Who claims any part of it takes the GTIN's turn first. */
export async function claim(tx: Tx, product: Claimant): Promise<void> {
  const { tenantId, gtin, identity, id: productId, granularity } = product;
  await tx.db.insert(claimTurns).values({ gtin, turn: 0 }).onConflictDoNothing();
  await tx.db
    .update(claimTurns)
    .set({ turn: sql`${claimTurns.turn} + 1` })
    .where(eq(claimTurns.gtin, gtin)); // held until the commit: what is read next is all there is
  const overlaps = granularity === "model" ? eq(claims.gtin, gtin) : or(eq(claims.identity, gtin), eq(claims.identity, identity));
  const isForeign = and(overlaps, ne(claims.tenantId, tenantId));
  const foreign = await tx.db.select().from(claims).where(isForeign).limit(1);
  if (foreign.length === 0) {
    const made = await tx.db.insert(claims).values({ identity, gtin, tenantId, productId }).onConflictDoNothing().returning();
    if (made.length > 0 && !(await meetsLabels(tx, product))) return;
    const mine = and(eq(claims.identity, identity), eq(claims.tenantId, tenantId));
    if (made.length === 0 && (await tx.db.update(claims).set({ productId }).where(mine).returning()).length > 0) return;
  }
  throw new Refusal("GTIN_CLAIMED", `another tenant publishes ${granularity === "model" ? gtin : identity}`);
}

/** Labels are spoken for by whoever publishes their GTIN: theirs can't become our item, nor one of ours be another's item already. */
async function meetsLabels(tx: Tx, product: Claimant): Promise<boolean> {
  const { tenantId, gtin, granularity, serialNumber } = product;
  const owners = await Array.fromAsync(ownersOf(gtin));
  const others = owners.filter((owner) => owner !== tenantId);
  if (others.length === 0) return false;
  if (granularity === "item") {
    const theirs = and(inArray(serials.tenantId, others), eq(serials.serial, serialNumber), eq(serials.gtin, gtin));
    if ((await tx.db.select({ n: serials.n }).from(serials).where(theirs).limit(1)).length > 0) return true;
  }
  return (await isFirst(tx, product)) && areItems(tx, product);
}

/** Who publishes some of the GTIN already was asked for the labels: to look for them each time takes as long as there are things of it. */
async function isFirst(tx: Tx, { tenantId, gtin, identity }: Claimant): Promise<boolean> {
  const before = and(eq(claims.gtin, gtin), eq(claims.tenantId, tenantId), ne(claims.identity, identity));
  return (await tx.db.select({ identity: claims.identity }).from(claims).where(before).limit(1)).length === 0;
}

/**
 * Whether another tenant publishes a thing that we have a label of: from our labels on, since theirs may be many. The offsets of nothing keep PostgreSQL to
 * that order, and what is put behind the label's tenant from its index: by statistics of yesterday all labels of the tenant are few.
 */
async function areItems(tx: Tx, { tenantId, gtin }: Claimant): Promise<boolean> {
  const found = await tx.db
    .values(sql`SELECT 1 FROM products own WHERE own.tenant_id = ${tenantId} AND own.identity >= ${gtin} AND own.identity < ${`${gtin}0`}
    AND EXISTS (SELECT 1 FROM serials label WHERE label.product_id = own.id AND label.tenant_id || '' = own.tenant_id AND label.gtin = ${gtin}
      AND EXISTS (SELECT 1 FROM claims WHERE claims.identity = ${`${gtin}/`} || label.serial AND claims.tenant_id <> own.tenant_id
        AND EXISTS (SELECT 1 FROM products item WHERE item.tenant_id = claims.tenant_id AND item.id = claims.product_id AND item.granularity = 'item'
        LIMIT 1 OFFSET 0) LIMIT 1 OFFSET 0) LIMIT 1 OFFSET 0)
    ORDER BY own.identity LIMIT 1`);
  return found.length > 0;
}
