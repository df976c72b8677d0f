// Categories as discovery shows them, and the CSV template that import reads back.
import { count, eq } from "../store/drizzle.ts";
import { API } from "#shared/api.ts";
import { jurisdictionOf } from "#shared/compliance.ts";
import { Refusal } from "#shared/errors.ts";
import type { CategoryEntry, CategorySchema } from "#shared/wire/schemas.ts";
import { catalogue, type CategoryVersion, HOME, isEffective } from "../catalogue.ts";
import { products } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { instant } from "./instant.ts";
import { pageFrom, type PageQuery } from "./page.ts";

export const RESERVED_COLUMNS = ["name", "description", "gtin", "serialNumber", "granularity"] as const;
export const columnsOf = ({ fieldSchema }: CategoryVersion): string[] => [...RESERVED_COLUMNS, ...Object.keys(fieldSchema.properties)];

const windowOf = ({ jurisdiction, effectiveFrom, effectiveUntil }: CategoryVersion) => ({ jurisdiction, effectiveFrom, effectiveUntil });

export function list(at: number, query: PageQuery) {
  const entries = [...Map.groupBy(catalogue.all, ({ category }) => category)].map(([category, versions]): CategoryEntry => {
    const now = versions.find((entry) => isEffective(entry, at));
    const shown = now ?? versions[versions.length - 1]!;
    return {
      category,
      title: shown.title,
      effectiveNow: now !== undefined,
      ...windowOf(shown),
      versions: versions.map((entry) => ({
        schemaId: entry.schemaId,
        version: entry.version,
        ...windowOf(entry),
        effectiveNow: isEffective(entry, at),
      })),
    };
  });
  return pageFrom(entries, query, ({ category }) => category);
}

export function find(category: string, at: number, jurisdiction?: string): CategoryVersion {
  const law = jurisdiction === undefined ? HOME : (jurisdictionOf(jurisdiction) ?? jurisdiction);
  const found = catalogue.find(category, at, law);
  if (found) return found;
  const availableCategories = catalogue.effective(at, law);
  throw new Refusal("SCHEMA_NOT_FOUND", `no schema of "${category}" is in effect in ${law} at ${instant(at)}`, {
    availableCategories,
  });
}

export function shown(entry: CategoryVersion, includeFields: boolean): CategorySchema {
  const { schemaId, schemaRegistryId, category, title, version, jurisdiction, basis, fieldSchema } = entry;
  const self = `${API}/schemas/categories/${category}`;
  const query = jurisdiction === HOME ? "" : `?jurisdiction=${jurisdiction}`;
  return {
    schemaId,
    schemaRegistryId,
    category,
    title,
    version,
    ...windowOf(entry),
    basis,
    ...(includeFields ? { fieldSchema } : {}),
    _links: { self: `${self}${query}`, importTemplate: `${self}/import-template${query}` },
  };
}

/** How many products of the tenant each category has; those in effect and without any stand at 0. */
export async function uses(tx: Tx, caller: Caller, query: PageQuery) {
  const rows = await tx.db
    .select({ category: products.category, products: count() })
    .from(products)
    .where(eq(products.tenantId, caller.tenantId))
    .groupBy(products.category);
  const effective = catalogue.effective(tx.now);
  const names = [...new Set([...effective, ...rows.map(({ category }) => category)])].toSorted();
  const used = new Map(rows.map((row) => [row.category, row.products]));
  const entries = names.map((category) => ({ category, products: used.get(category) ?? 0, effectiveNow: effective.includes(category) }));
  return pageFrom(entries, query, ({ category }) => category);
}
