// What documents declared around their events: read a few at a time, once a query, and put together again for an answer. Each may have 16 KiB.
import { setImmediate as turn } from "node:timers/promises";
import { and, eq, inArray } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { isObject } from "#shared/object.ts";
import { epcisContexts } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import { spellerOf, type IsUriOf } from "./epcis-looks.ts";
import { extrasOf, type Json, KNOWN_PREFIXES } from "./epcis-rules.ts";

type Of = { contextId: string | null; body: Json };
const AT_ONCE = 16;
/** The contexts of these events by their ids, each once; what was declared is never changed. */
export async function contextsOf(store: Store, tenantId: string, found: readonly Of[]): Promise<Map<string, unknown[]>> {
  const ids = [...new Set(found.flatMap(({ contextId }) => contextId ?? []))];
  const contexts = new Map<string, unknown[]>();
  for (let from = 0; from < ids.length; from += AT_ONCE) {
    if (from > 0) await turn();
    const isOne = and(eq(epcisContexts.tenantId, tenantId), inArray(epcisContexts.id, ids.slice(from, from + AT_ONCE)));
    const rows = await store.read("epcis contexts", ({ db }) => db.select().from(epcisContexts).where(isOne));
    for (const { id, context } of rows) contexts.set(id, context);
  }
  return contexts;
}

/** By the ids of contexts: what each declares, and once it was needed how it spells names. Of a few, which is what most tenants have. */
export type Names = Map<string, { context: unknown[]; isUriOf?: IsUriOf }>;
const KEPT = 64;
export async function learn(store: Store, tenantId: string, rows: readonly Of[], names: Names): Promise<void> {
  if (names.size > KEPT) names.clear();
  const unknown = rows.filter(({ contextId }) => contextId !== null && !names.has(contextId));
  for (const [id, context] of await contextsOf(store, tenantId, unknown)) names.set(id, { context });
}

/** How names are spelt out in this event; `bytes`: of the contexts that had to be looked through for that, at most. */
export function spellingIn(names: Names, { contextId, body }: Of): { isUriOf: IsUriOf; bytes: number } {
  const around = names.get(contextId ?? "");
  const own = extrasOf(body["@context"]);
  if (around?.isUriOf && own.length === 0) return { isUriOf: around.isUriOf, bytes: 0 };
  if (!around && own.length === 0) return { isUriOf: spellerOf([]), bytes: 0 };
  const isUriOf = spellerOf([...(around?.context ?? []), ...own]);
  if (around && own.length === 0) around.isUriOf = isUriOf;
  return { isUriOf, bytes: limits.EPCIS_CONTEXT_MAX_BYTES };
}

/** The standard's own prefixes, which events use that declare nothing. */
const redeclares = (entry: unknown): boolean => isObject(entry) && Object.keys(entry).some((name) => KNOWN_PREFIXES.has(name));

/** `shared`: declarations that one document may hold for all its events; `left`: those of each context whose name means something else in another. */
export async function sharedOf(
  found: readonly Of[],
  contexts: Map<string, unknown[]>,
): Promise<{ shared: unknown[]; left: Map<string, unknown[]> }> {
  const entries = [...contexts.values()].flat();
  const areSeveral = contexts.size > 1;
  const isMixed = areSeveral || found.some(({ contextId }) => contextId === null);
  // What an address declares may be any name's meaning, and stands before or behind what is declared beside it.
  if ((areSeveral && entries.some((entry) => typeof entry === "string")) || (isMixed && entries.some(redeclares)))
    return { shared: [], left: contexts };
  const shared = new Map<string, unknown>();
  const meanings = new Map<string, string>();
  const left = new Map<string, unknown[]>();
  let seen = 0;
  for (const [id, context] of contexts) {
    if ((seen += 1) % AT_ONCE === 0) await turn();
    for (const entry of context) {
      const declared = isObject(entry) ? Object.entries(entry).map(([name, to]) => [name, JSON.stringify(to)] as const) : [];
      const clashes = declared.some(([name, to]) => (meanings.get(name) ?? to) !== to);
      if (clashes) left.set(id, [...(left.get(id) ?? []), entry]);
      else shared.set(JSON.stringify(entry), entry);
      if (!clashes) for (const [name, to] of declared) meanings.set(name, to);
    }
  }
  return { shared: [...shared.values()], left };
}
