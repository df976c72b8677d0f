// The log recomputed from its leaves: what every kept hash says is held against what the entries give.
import { and, asc, desc, eq, gte, inArray } from "../store/drizzle.ts";
import { canonical } from "#shared/canonical.ts";
import { EMPTY_ROOT, grow, type Hash, leafHash, rootAt, type Subtree } from "#shared/merkle.ts";
import { logHead, logLeaves, logNodes } from "../store/schema.ts";
import type { Store } from "../store/store.ts";

const SLICE_ROWS = 1_000;

type LogState = { size: number; root: Hash; /** The first that doesn't hold. */ fault: string | undefined };

/** Looks at the leaves from `from` on. Only a look at all of them, from 0, gives a root. */
export async function recompute(store: Store, from = 0): Promise<LogState> {
  const { size, last } = await store.read("log size", async ({ db }) => ({
    size: (await db.select({ size: logHead.size }).from(logHead).get())?.size ?? 0,
    last: (await db.select({ n: logLeaves.n }).from(logLeaves).orderBy(desc(logLeaves.n)).limit(1).get())?.n ?? -1,
  }));
  const broken = (fault: string): LogState => ({ size, root: EMPTY_ROOT, fault });
  if (last !== size - 1) return broken(`the log's head names ${size} leaves, and the last one is leaf ${last}`);
  const open: Subtree[] = [];
  for (let n = Math.max(0, from); n < size; n += SLICE_ROWS) {
    const fault = await takeSlice(store, n, Math.min(SLICE_ROWS, size - n), open);
    if (fault) return broken(fault);
  }
  return { size, root: rootAt(open), fault: undefined };
}

/** Says what is wrong with it; else its subtrees stand in `open`. */
const takeSlice = (store: Store, from: number, count: number, open: Subtree[]): Promise<string | undefined> =>
  store.read("log slice", async ({ db }) => {
    const leaves = await db.select().from(logLeaves).where(gte(logLeaves.n, from)).orderBy(asc(logLeaves.n)).limit(count);
    const closed: Subtree[] = [];
    for (const [i, { n, entry, digest }] of leaves.entries()) {
      if (n !== from + i) return `leaf ${from + i} of the log is missing`;
      if (entry.digest !== digest) return `leaf ${n} is filed under another digest than its entry has`;
      closed.push(...grow(open, { level: 0, n, hash: leafHash(Buffer.from(canonical(entry))) }));
    }
    if (leaves.length < count) return `leaf ${from + leaves.length} of the log is missing`;
    for (const [level, made] of Map.groupBy(closed, (subtree) => subtree.level)) {
      const ids = made.map(({ n }) => n);
      const isAsked = and(eq(logNodes.level, level), inArray(logNodes.n, ids));
      const kept = await db.select().from(logNodes).where(isAsked);
      const hashes = new Map(kept.map(({ n, hash }) => [n, hash]));
      const wrong = made.find(({ n, hash }) => !hashes.get(n)?.equals(hash));
      if (wrong) return `the log's node ${wrong.n} at level ${level} isn't what its leaves give`;
    }
    return undefined;
  });
