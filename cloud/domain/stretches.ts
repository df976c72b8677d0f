// A list by what no index says: looked through a stretch a unit, newest first, so that a million rows that don't fit hold nobody up.
import { setImmediate as turn } from "node:timers/promises";
import type { SQL } from "drizzle-orm";
import type { SQLiteColumn, SQLiteTable } from "drizzle-orm/sqlite-core";
import { limits } from "#shared/limits.ts";
import { and, desc, gte, inArray, lt } from "../store/drizzle.ts";
import { even } from "../store/prepared.ts";
import type { Store, Tx } from "../store/store.ts";
import { fitting } from "./page.ts";

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
  /** How large a row is, where some are so large that a page of them ends before it has as many as it may. */
  bytes?: SQL<number>;
};
type Page = { limit: number; after: string | undefined };

/** The next `limit` rows, newest first, or as many of them as one answer holds, and one more where there are more. */
export async function lookedThrough<Table extends SQLiteTable>(store: Store, label: string, { limit, after }: Page, list: List<Table>) {
  if (list.fits === undefined) {
    const { rows, size } = await store.read(label, (tx) => someOf(tx, list, restOf(list, after), { most: limit, room: limits.PAGE_MAX_BYTES })); // oxfmt-ignore
    return { rows, limit: size };
  }
  const found: Table["$inferSelect"][] = [];
  const stretches = store.sole ? OWN : SERVER;
  let places = LEAST;
  let before = after;
  let [most, room] = [limit, limits.PAGE_MAX_BYTES];
  for (;;) {
    const stretch = { before, places, most: most - found.length, room };
    const { rows, size, bytes, end, ms } = await store.read(label, (tx) => stretchOf(tx, list, stretch));
    found.push(...rows);
    room -= bytes;
    if (size < stretch.most) most = found.length - (rows.length > size ? 1 : 0); // it has bytes enough: whether there is more is looked for further on
    if (end === undefined || found.length > most) return { rows: found, limit: most };
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

type Room = { most: number; room: number };
/** As many as fit, and one more where there are more. Which rows they are is asked once: that may be what takes long. */
async function someOf<Table extends SQLiteTable>(tx: Tx, list: List<Table>, where: SQL | undefined, { most, room }: Room) {
  const { table, key, whole, bytes } = list;
  if (bytes === undefined) return { rows: await rowsOf(tx, list, where, most + 1), size: most, bytes: 0 };
  const heads = await tx.db.select({ key, bytes }).from(table).where(where).orderBy(desc(key)).limit(most + 1); // oxfmt-ignore
  const size = fitting(heads.slice(0, most), most, room);
  const keys = heads.slice(0, size + 1).map((head) => head.key);
  const rows = await rowsOf(tx, list, and(whole, inArray(key, even(keys))), size + 1);
  return { rows, size, bytes: heads.slice(0, size).reduce((sum, head) => sum + head.bytes, 0) };
}

type Stretch = Room & { before: string | undefined; places: number };
async function stretchOf<Table extends SQLiteTable>(tx: Tx, list: List<Table>, { before, places, ...room }: Stretch) {
  const began = performance.now();
  const { table, key, fits } = list;
  const rest = restOf(list, before);
  const keys = tx.db.select({ key }).from(table).where(rest).orderBy(desc(key)); // oxfmt-ignore
  const end = (await keys.limit(1).offset(places - 1))[0]?.key as string | undefined;
  const some = await someOf(tx, list, and(rest, end === undefined ? undefined : gte(key, end), fits), room);
  return { ...some, end, ms: performance.now() - began };
}
