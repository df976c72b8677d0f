// A list by what no index says: looked through a stretch a unit, newest first, so that a million rows that don't fit hold nobody up.
import { setImmediate as turn } from "node:timers/promises";
import type { SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { and, desc, gte, lt } from "../store/drizzle.ts";
import type { Store, Tx } from "../store/store.ts";

const LEAST = 1_024;
/**
 * Where the store is our own process, everybody waits for a stretch: one that takes longer than `ms` is halved, since rows lie close together or each
 * on a page of its own. A server has others to look, and each look is a way there and back: stretches only grow, from one in which most is found.
 */
const OWN = { most: 4_096, ms: 10 };
const SERVER = { most: 65_536, ms: Infinity };

type List<Table extends SQLiteTable> = {
  table: Table;
  /** What its rows are ordered by, and the cursor names. */
  key: SQLiteColumn;
  /** What the key's index begins with. */
  whole: SQL | undefined;
  /** What is asked for besides; undefined for all of it. */
  fits: SQL | undefined;
};
type Page = { limit: number; after: string | undefined };

/** The next `limit` rows, newest first, and one more where there are more. */
export async function lookedThrough<Table extends SQLiteTable>(store: Store, label: string, { limit, after }: Page, list: List<Table>) {
  if (list.fits === undefined) return store.read(label, (tx) => rowsOf(tx, list, restOf(list, after), limit + 1));
  const found: Table["$inferSelect"][] = [];
  const stretches = store.sole ? OWN : SERVER;
  let places = LEAST;
  let before = after;
  for (;;) {
    const stretch = { before, places, most: limit + 1 - found.length };
    const { rows, end, ms } = await store.read(label, (tx) => stretchOf(tx, list, stretch));
    found.push(...rows);
    if (end === undefined || found.length > limit) return found;
    before = end;
    if (ms > stretches.ms) places = Math.max(LEAST, places / 2);
    else if (ms < stretches.ms / 4) places = Math.min(2 * places, stretches.most);
    await turn();
  }
}

const restOf = ({ key, whole }: Pick<List<SQLiteTable>, "key" | "whole">, before: string | undefined): SQL | undefined =>
  and(whole, before === undefined ? undefined : lt(key, before));

const rowsOf = <Table extends SQLiteTable>(tx: Tx, { table, key }: List<Table>, where: SQL | undefined, most: number) =>
  tx.db.select().from(table).where(where).orderBy(desc(key)).limit(most) as unknown as Promise<Table["$inferSelect"][]>;

type Stretch = { before: string | undefined; places: number; most: number };
async function stretchOf<Table extends SQLiteTable>(tx: Tx, list: List<Table>, { before, places, most }: Stretch) {
  const began = performance.now();
  const { table, key, fits } = list;
  const rest = restOf(list, before);
  const keys = tx.db.select({ key }).from(table).where(rest).orderBy(desc(key)); // oxfmt-ignore
  const end = (await keys.limit(1).offset(places - 1))[0]?.key as string | undefined;
  const rows = await rowsOf(tx, list, and(rest, end === undefined ? undefined : gte(key, end), fits), most);
  return { rows, end, ms: performance.now() - began };
}
