// Pages by key, never by offset: a cursor names the last row seen, so rows that come and go shift nothing.
import type { SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { invalid } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { and, desc, lt } from "../store/drizzle.ts";
import type { Tx } from "../store/store.ts";

export const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
export const SEQ = /^[0-9]{1,15}$/;

export type PageQuery = { limit?: number; cursor?: string };
const encode = (key: string): string => Buffer.from(key, "utf8").toString("base64url");

/** Reads `limit` and `cursor`; `after` is the key of the last row of the page before, and `most` rows tell whether there is another page. */
export function pageOf(query: PageQuery, shape = UUID, name = "cursor"): { limit: number; most: number; after: string | undefined } {
  const { limit = limits.PAGE_DEFAULT_ITEMS, cursor } = query;
  const most = limit + 1;
  if (cursor === undefined) return { limit, most, after: undefined };
  const after = Buffer.from(cursor, "base64url").toString("utf8");
  if (!shape.test(after) || encode(after) !== cursor) throw unknownCursor(name);
  return { limit, most, after };
}
/** For a list that most callers take for whole: without a `limit` a page is as large as it may be. */
export const wholeOf = (query: PageQuery, shape = UUID) => pageOf({ limit: limits.PAGE_MAX_ITEMS, ...query }, shape);
const unknownCursor = (field = "cursor") =>
  invalid([{ field, rule: "cursor", message: "isn't one that this list gave out: start without it" }]);

/** From limit + 1 rows: the one too many only says that there is more. */
export function pageReply<Row, Wire>(rows: Row[], limit: number, keyOf: (row: Row) => string, toWire: (row: Row) => Wire) {
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { data: page.map(toWire), nextCursor: rows.length > limit && last ? encode(keyOf(last)) : null };
}

/** Likewise: `nextCursor` is there only where that wasn't all. */
export function wholeReply<Row, Wire>(rows: Row[], limit: number, keyOf: (row: Row) => string, toWire: (row: Row) => Wire) {
  const { data, nextCursor } = pageReply(rows, limit, keyOf, toWire);
  return { data, ...(nextCursor === null ? {} : { nextCursor }) };
}

/** How many of these are a page, by their bytes: the last one is the one with which it has enough. */
export function fitting(rows: readonly { bytes: number }[], limit: number, room: number = limits.PAGE_MAX_BYTES): number {
  let sum = 0;
  const full = rows.findIndex(({ bytes }) => (sum += bytes) >= room);
  return full < 0 ? limit : full + 1;
}

type Listed = SQLiteTable & { id: SQLiteColumn };
type Which<Table extends Listed, Wire> = {
  table: Table;
  where: SQL | undefined;
  toWire(row: Table["$inferSelect"]): Wire;
  shape?: RegExp;
  /** How large a row is, where some are so large that a page of them ends before it has as many as it may. */
  bytes?: SQL<number>;
};
/** A page of a table's rows, newest first: ids sort as they were made. */
export async function newestOf<Table extends Listed, Wire>(
  tx: Tx,
  query: PageQuery,
  { table, where, toWire, shape, bytes }: Which<Table, Wire>,
) {
  const { limit, after } = pageOf(query, shape);
  const { id } = table;
  const rest = and(where, after === undefined ? undefined : lt(id, after));
  const size = bytes ? fitting(await tx.db.select({ bytes }).from(table).where(rest).orderBy(desc(id)).limit(limit), limit) : limit; // oxfmt-ignore
  const most = size + 1;
  const rows: Table["$inferSelect"][] = await tx.db.select().from<SQLiteTable>(table).where(rest).orderBy(desc(id)).limit(most); // oxfmt-ignore
  return pageReply(rows, size, (row) => String(row["id"]), toWire);
}

/** A page of what is known whole, in its own order. */
export function pageFrom<Row>(all: readonly Row[], query: PageQuery, keyOf: (row: Row) => string) {
  const { limit, after } = pageOf(query, /./);
  const last = after === undefined ? -1 : all.findIndex((row) => keyOf(row) === after);
  if (after !== undefined && last < 0) throw unknownCursor();
  return pageReply(all.slice(last + 1, last + limit + 2), limit, keyOf, (row) => row);
}
