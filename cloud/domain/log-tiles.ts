// The log as tiles: what a monitor needs to have all of it, and to recompute every head by itself.
import { and, asc, eq, gte, lt } from "../store/drizzle.ts";
import { canonical } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { bundled, type Tile, TILE_WIDTH, tileName } from "#shared/tiles.ts";
import { logLeaves, logNodes } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { sizeNow } from "./log.ts";

const LEVELS_A_TILE = 8; // of the tree: 256 is 2 ** 8

export async function tile(tx: Tx, { level, n, width }: Tile): Promise<Buffer> {
  const height = level === "entries" ? 0 : level;
  const size = await sizeNow(tx);
  const [from, there] = [n * TILE_WIDTH, Math.floor(size / TILE_WIDTH ** height)];
  if (from + width > there) throw missing(size, { n, width: there - from });
  const to = from + width;
  if (level !== "entries") {
    const isAsked = and(eq(logNodes.level, LEVELS_A_TILE * height), gte(logNodes.n, from), lt(logNodes.n, to));
    const rows = await tx.db.select({ hash: logNodes.hash }).from(logNodes).where(isAsked).orderBy(asc(logNodes.n));
    return Buffer.concat(whole(rows, width).map(({ hash }) => hash));
  }
  const isAsked = and(gte(logLeaves.n, from), lt(logLeaves.n, to));
  const rows = await tx.db.select({ entry: logLeaves.entry }).from(logLeaves).where(isAsked).orderBy(asc(logLeaves.n));
  return bundled(whole(rows, width).map(({ entry }) => Buffer.from(canonical(entry))));
}

/** Whoever keeps a tile keeps it for ever: none goes out that a damaged store cut short. */
function whole<Row>(rows: Row[], width: number): Row[] {
  if (rows.length !== width) throw new Error(`of a tile of the log ${width - rows.length} rows are gone`);
  return rows;
}

const missing = (size: number, part: Omit<Tile, "level">): Refusal =>
  new Refusal(
    "NOT_FOUND",
    `the log has ${size} entries: ${part.width > 0 ? `of this there is ${tileName(part)} yet` : "this isn't there yet"}`,
  );
