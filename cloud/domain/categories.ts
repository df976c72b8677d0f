// Categories as discovery shows them, and the CSV template that import reads back.
import { setImmediate as turn } from "node:timers/promises";
import { sql } from "../store/drizzle.ts";
import { API } from "#shared/api.ts";
import { jurisdictionOf } from "#shared/compliance.ts";
import { Refusal } from "#shared/errors.ts";
import type { CategoryEntry, CategorySchema } from "#shared/wire/schemas.ts";
import { catalogue, type CategoryVersion, HOME, isEffective } from "../catalogue.ts";
import { products } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { instant } from "./instant.ts";
import { pageFrom, type PageQuery } from "./page.ts";

export const RESERVED_COLUMNS = ["name", "description", "gtin", "serialNumber", "granularity"] as const;
export const columnsOf = ({ fieldSchema }: CategoryVersion): string[] => [...RESERVED_COLUMNS, ...Object.keys(fieldSchema.properties)];

const windowOf = ({ jurisdiction, effectiveFrom, effectiveUntil }: CategoryVersion) => ({ jurisdiction, effectiveFrom, effectiveUntil });

export function list(at: number, query: PageQuery) {
  const entries = [...Map.groupBy(catalogue.all, ({ category }) => category)].map(([category, versions]): CategoryEntry => {
    const now = versions.find((entry) => isEffective(entry, at));
    const shown = (now ?? versions.at(-1)) as CategoryVersion;
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
  throw new Refusal("SCHEMA_NOT_FOUND", `no schema of "${category}" is in effect in ${law} at ${instant(at)}`, {
    availableCategories: catalogue.effective(at, law),
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

/** Products that are counted in one unit: a store in our own process keeps everybody waiting meanwhile, and a server has others to count. */
const [OWN_ROWS, SERVER_ROWS] = [4_096, 65_536];

async function countedOf(store: Store, tenantId: string): Promise<Map<string, number>> {
  const used = new Map<string, number>();
  const most = store.sole ? OWN_ROWS : SERVER_ROWS;
  let [category, id] = ["", ""];
  for (;;) {
    const some = await store.read("categories", ({ db }) =>
      db.values<[string, number | string, string]>(sql`SELECT category, COUNT(*), MAX(id) FROM (
        SELECT category, id FROM ${products} WHERE tenant_id = ${tenantId} AND (category, id) > (${category}, ${id})
        ORDER BY category, id LIMIT ${most}) AS slice GROUP BY category ORDER BY category`),
    );
    let rows = 0;
    for (const [name, count, last] of some) {
      used.set(name, (used.get(name) ?? 0) + Number(count));
      rows += Number(count);
      [category, id] = [name, last];
    }
    if (rows < most) return used;
    await turn();
  }
}

/** How many products of the tenant each category has; those in effect and without any stand at 0. */
export async function uses(store: Store, { tenantId }: Caller, query: PageQuery) {
  const used = await countedOf(store, tenantId);
  const effective = await store.read("categories", async ({ now }) => catalogue.effective(now));
  const names = [...new Set([...effective, ...used.keys()])].toSorted();
  const entries = names.map((category) => ({ category, products: used.get(category) ?? 0, effectiveNow: effective.includes(category) }));
  return pageFrom(entries, query, ({ category }) => category);
}
