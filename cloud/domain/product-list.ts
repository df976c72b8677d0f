// The list of products by what is asked of them: a GTIN off the unique index where it has few, all else a stretch at a time.
import type { SQL } from "drizzle-orm";
import { and, eq, gte, inArray, isNotNull, isNull, like, lt, sql } from "../store/drizzle.ts";
import { gtin14 } from "#shared/gs1.ts";
import { type ProductStage, productStages, VOIDED } from "#shared/states.ts";
import type { ProductQuery } from "#shared/wire/products.ts";
import { products } from "../store/schema.ts";
import { db, type Store } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { pageOf, pageReply } from "./page.ts";
import { fold, toWire } from "./products.ts";
import { lookedThrough } from "./stretches.ts";

const stageOf = (status: string): ProductStage | undefined =>
  (Object.keys(productStages) as ProductStage[]).find((stage) => productStages[stage].status === status);

function filtersOf({ status, q, updatedSince }: ProductQuery): (SQL | undefined)[] {
  const stage = status === undefined ? undefined : stageOf(status);
  return [
    status === VOIDED ? isNotNull(products.voidedAt) : undefined,
    stage === undefined ? undefined : and(eq(products.stage, stage), isNull(products.voidedAt)),
    q === undefined
      ? undefined
      : like(products.nameFolded, sql`${`%${(fold(q) || q).replaceAll(/[\\%_]/g, String.raw`\$&`)}%`} ESCAPE '\\'`),
    updatedSince === undefined ? undefined : gte(products.updatedAt, Date.parse(updatedSince)),
  ];
}

const FEW = 1_000;
/** The identity begins with the GTIN, and "0" is what follows "/": a range of the unique index, which is looked at where it is short. */
async function ofGtin(store: Store, tenantId: string, gtin: string): Promise<{ range: SQL | undefined; isFew: boolean }> {
  const range = and(gte(products.identity, gtin14(gtin)), lt(products.identity, `${gtin14(gtin)}0`));
  const isIts = and(eq(products.tenantId, tenantId), range);
  const some = await store.read("products", ({ db }) => db.select({ identity: products.identity }).from(products).where(isIts).limit(FEW + 1)); // oxfmt-ignore
  return { range, isFew: some.length <= FEW };
}

export async function list(store: Store, { tenantId }: Caller, query: ProductQuery) {
  const page = pageOf(query);
  const { category, gtin } = query;
  const { range, isFew = false } = gtin === undefined ? {} : await ofGtin(store, tenantId, gtin);
  const filters = and(...filtersOf(query));
  const ofTenant = and(eq(products.tenantId, tenantId), category === undefined ? undefined : eq(products.category, category));
  const isIts = and(eq(products.tenantId, tenantId), range);
  const few = inArray(products.id, db.select({ id: products.id }).from(products).where(isIts));
  const { rows, limit } = await lookedThrough(store, "products", page, {
    table: products,
    key: products.id,
    whole: isFew ? and(ofTenant, few, filters) : ofTenant,
    fits: isFew ? undefined : and(range, filters),
    bytes: sql<number>`octet_length(${products.extensions}) + octet_length(${products.description})`,
  });
  return pageReply(rows, limit, ({ id }) => id, toWire);
}
