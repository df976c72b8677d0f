// A list by what no index says: looked through a stretch a unit, newest first, so that a million rows that don't fit hold nobody up.
import { setImmediate as turn } from "node:timers/promises";
import type { SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { and, desc, gte, lt } from "../store/drizzle.ts";
import type { Store, Tx } from "../store/store.ts";

/** Where the store is our own process, everybody waits for a stretch; a server has others to look, and each look is a way there and back. */
const OWN = { least: 1_024, most: 4_096 };
const SERVER = { least: 65_536, most: 65_536 };
/** A stretch that takes longer is halved, one that takes a quarter of it doubled: rows lie close together, or each on a page of its own. */
const STRETCH_MS = 10;

type List<Row> = {
  table: SQLiteTable;
  /** What its rows are ordered by, and the cursor names. */
  key: SQLiteColumn;
  /** What the key's index begins with. */
  whole: SQL | undefined;
  /** What is asked for besides; undefined for all of it. */
  fits: SQL | undefined;
  /** At most so many of these, newest first. */
  rows(tx: Tx, where: SQL | undefined, most: number): Promise<Row[]>;
};
type Page = { limit: number; after: string | undefined };

/** The next `limit` rows, and one more where there are more. */
export async function lookedThrough<Row>(store: Store, label: string, { limit, after }: Page, list: List<Row>): Promise<Row[]> {
  if (list.fits === undefined) return store.read(label, (tx) => list.rows(tx, restOf(list, after), limit + 1));
  const found: Row[] = [];
  const { least, most } = store.sole ? OWN : SERVER;
  for (let [places, from] = [least, after]; ;) {
    const stretch = { before: from, places, most: limit + 1 - found.length };
    const { rows, end, ms } = await store.read(label, (tx) => stretchOf(tx, list, stretch));
    found.push(...rows);
    if (end === undefined || found.length > limit) return found;
    from = end;
    if (ms > STRETCH_MS) places = Math.max(least, places / 2);
    else if (ms < STRETCH_MS / 4) places = Math.min(2 * places, most);
    await turn();
  }
}

const restOf = <Row>({ key, whole }: List<Row>, before: string | undefined): SQL | undefined =>
  and(whole, before === undefined ? undefined : lt(key, before));

type Stretch = { before: string | undefined; places: number; most: number };
async function stretchOf<Row>(tx: Tx, list: List<Row>, { before, places, most }: Stretch) {
  const began = performance.now();
  const { table, key, fits } = list;
  const rest = restOf(list, before);
  const keys = tx.db.select({ key }).from(table).where(rest).orderBy(desc(key)); // oxfmt-ignore
  const end = (await keys.limit(1).offset(places - 1))[0]?.key as string | undefined;
  const rows = await list.rows(tx, and(rest, end === undefined ? undefined : gte(key, end), fits), most);
  return { rows, end, ms: performance.now() - began };
}
