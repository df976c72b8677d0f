// The transparency log: whatever was signed for once can't be denied or rewritten later, and anybody can check that it wasn't.
import { and, eq, inArray, sql } from "../store/drizzle.ts";
import { canonical } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { EMPTY_ROOT, type Hash, leafHash, nodeHash, splitOf } from "#shared/merkle.ts";
import { type Head, signedNote } from "#shared/note.ts";
import type { LogEntry, LogProof } from "#shared/wire/log.ts";
import type { Signing } from "../keys.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { logHead, logLeaves, logNodes } from "../store/schema.ts";
import { db, type Finale, type Parting, LOCKED, run, together, type Tx } from "../store/store.ts";
import { instant } from "./instant.ts";
import { ranks } from "./ranks.ts";

// Reading the head locks the log until the commit: leaves of all nodes and tenants stand in one order.
const HEAD = `SELECT size FROM log_head WHERE id = 1 ${LOCKED}`;
const moveHead = prepared(
  db
    .update(logHead)
    .set({ size: sql`${sql.placeholder("size")}` })
    .where(eq(logHead.id, 1)),
);
const insertLeaf = prepared(db.insert(logLeaves).values(placesOf(logLeaves)));
const insertNode = prepared(db.insert(logNodes).values(placesOf(logNodes)));
const isNode = and(eq(logNodes.level, sql.placeholder("level")), eq(logNodes.n, sql.placeholder("n")));
const readNode = prepared(db.select({ hash: logNodes.hash }).from(logNodes).where(isNode));

async function node(level: number, n: number): Promise<Hash> {
  const found = await readNode.get({ level, n });
  if (!found) throw new Error(`the log's node ${n} at level ${level} is gone`);
  return found.hash;
}

type Leaf = { entry: LogEntry; digest: string };
const leafOf = (tx: Tx, { kind, digest }: Pick<LogEntry, "kind" | "digest">): Leaf => ({
  entry: { kind, digest, at: instant(tx.now) },
  digest,
});

/** Appends now, for who has to know the place: from here to the commit every other leaf, on all nodes, waits. */
export async function append(tx: Tx, what: Pick<LogEntry, "kind" | "digest">): Promise<{ index: number; entry: LogEntry }> {
  const leaf = leafOf(tx, what);
  const { size, write } = await growth([leaf]);
  await write();
  return { index: size, entry: leaf.entry };
}

const appending: Finale<Leaf> = { rank: ranks.log, say: async (leaves) => (await growth(leaves)).write };
/** Appends at the end of the commit. */
export const appendLast = (tx: Tx, what: Pick<LogEntry, "kind" | "digest">): void => tx.atEnd(appending, leafOf(tx, what));

/** By their level, the subtrees at the log's right edge that so many more leaves complete a larger one with. */
async function leftOf(size: number, more: number): Promise<(Hash | undefined)[]> {
  const at = (level: number, count: number) => Math.floor(count / 2 ** level);
  const levels = Array.from({ length: Math.ceil(Math.log2(size + more + 1)) }, (_, level) => level);
  const isJoined = (level: number) => at(level, size) % 2 === 1 && at(level + 1, size + more) > at(level + 1, size);
  return together(levels.map(async (level) => (isJoined(level) ? node(level, at(level, size) - 1) : undefined)));
}

/** Leaves in order, and every subtree that one completes: two rows a leaf in the long run. The first one stands at `size`. */
async function growth(leaves: readonly Leaf[]): Promise<{ size: number; write: Parting }> {
  const { rows } = await run(HEAD, [], "get");
  const [size] = (rows ?? []) as [number?];
  if (size === undefined) throw new Error("the log has no head");
  const left = await leftOf(size, leaves.length);
  const nodes = new Map<string, { level: number; n: number; hash: Hash }>();
  const add = (level: number, n: number, hash: Hash) => void nodes.set(`${level} ${n}`, { level, n, hash });
  for (const [i, { entry }] of leaves.entries()) {
    let hash = leafHash(Buffer.from(canonical(entry)));
    add(0, size + i, hash);
    for (let [level, n] = [0, size + i]; n % 2 === 1; level += 1, n = (n - 1) / 2) {
      hash = nodeHash(nodes.get(`${level} ${n - 1}`)?.hash ?? (left[level] as Hash), hash);
      add(level + 1, (n - 1) / 2, hash);
    }
  }
  const write = () =>
    together([
      ...leaves.map((leaf, i) => insertLeaf.run({ n: size + i, ...leaf })),
      ...[...nodes.values()].map((each) => insertNode.run(each)),
      moveHead.run({ size: size + leaves.length }),
    ]);
  return { size, write };
}

export const sizeNow = async (tx: Tx): Promise<number> => (await tx.db.select({ size: logHead.size }).from(logHead).get())?.size ?? 0;

/** Root of the leaves from `from` on, `count` of them; a complete subtree is one row. */
async function rootOf(from: number, count: number): Promise<Hash> {
  if (count === 0) return EMPTY_ROOT;
  const level = Math.log2(count);
  if (Number.isInteger(level)) return node(level, from / count);
  const split = splitOf(count);
  return nodeHash(await rootOf(from, split), await rootOf(from + split, count - split));
}

/** RFC 6962, 2.1.1: the siblings of a leaf, from the leaf up. */
async function pathOf(index: number, from: number, count: number): Promise<Hash[]> {
  if (count === 1) return [];
  const split = splitOf(count);
  return index < split
    ? [...(await pathOf(index, from, split)), await rootOf(from + split, count - split)]
    : [...(await pathOf(index - split, from + split, count - split)), await rootOf(from, split)];
}

/** RFC 6962, 2.1.2: what shows that the first `old` of these leaves are still the first. */
async function growthOf(old: number, from: number, count: number, whole: boolean): Promise<Hash[]> {
  if (old === count) return whole ? [] : [await rootOf(from, count)];
  const split = splitOf(count);
  return old <= split
    ? [...(await growthOf(old, from, split, whole)), await rootOf(from + split, count - split)]
    : [...(await growthOf(old - split, from + split, count - split, false)), await rootOf(from, split)];
}

const hex = (hash: Hash) => hash.toString("hex");
/** Of the log as it was with so many leaves. */
export const rootAt = async (size: number): Promise<string> => hex(await rootOf(0, size));
/** The log's name in its checkpoints. */
export const nameAt = (origin: string): string => `${new URL(origin).host}/log`;

function noteOf(head: Omit<Head, "origin">, signing: Signing): string {
  const name = nameAt(signing.origin());
  const { publicBytes, signBytes } = signing.keys;
  return signedNote({ origin: name, ...head }, { name, publicBytes }, signBytes);
}

export async function checkpoint(tx: Tx, signing: Signing): Promise<string> {
  const size = await sizeNow(tx);
  return noteOf({ size, root: await rootOf(0, size) }, signing);
}

// A digest is looked for run by run, as SQLite's index has them; a server's index goes by the digest alone.
const RUN_LEAVES = 8_192;
const { placeholder } = sql;
const runOf = sql`${logLeaves.n} >> 13`;
const tail = sql`substr(${logLeaves.digest}, 57, 8)`;
const tailOf = (digest: string) => digest.slice(56);
const isLatest = sql`${logLeaves.n} = (
        WITH RECURSIVE runs (run) AS (SELECT (size - 1) >> 13 FROM log_head UNION ALL SELECT run - 1 FROM runs WHERE run > 0)
        SELECT max(n) FROM runs CROSS JOIN log_leaves
        WHERE n >> 13 = run AND substr(digest, 57, 8) = ${placeholder("tail")} AND digest = ${placeholder("digest")})`;
const latest = prepared(db.select({ n: logLeaves.n, entry: logLeaves.entry }).from(logLeaves).where(isLatest));

/** Which of these aren't in the log. `near` is where others like them were found, and becomes where these were: they came at about the same time. */
export async function absentOf(tx: Tx, digests: readonly string[], near?: number): Promise<{ absent: Set<string>; near: number }> {
  const newest = Math.max(0, Math.ceil((await sizeNow(tx)) / RUN_LEAVES) - 1);
  const absent = new Set(digests);
  const first = near ?? newest;
  let last = first;
  for (let away = 0; away <= newest && absent.size > 0; away += 1)
    for (const run of new Set([first - away, first + away].filter((one) => one >= 0 && one <= newest))) {
      const some = [...absent];
      const found = await tx.db
        .select({ digest: logLeaves.digest })
        .from(logLeaves)
        .where(and(sql`${runOf} = ${run}`, inArray(tail, some.map(tailOf)), inArray(logLeaves.digest, some))); // by the tail here, by the digest there
      for (const { digest } of found) if (absent.delete(digest)) last = run;
    }
  return { absent, near: last };
}

/** The latest entry of this digest, and the way from it to the head; undefined where there is none. */
export async function proofOf(tx: Tx, digest: string, signing: Signing): Promise<LogProof | undefined> {
  const leaf = await latest.get({ tail: tailOf(digest), digest });
  if (!leaf) return undefined;
  const size = await sizeNow(tx);
  const root = await rootOf(0, size);
  return {
    entry: leaf.entry,
    index: leaf.n,
    size,
    leafHash: hex(await node(0, leaf.n)),
    proof: (await pathOf(leaf.n, 0, size)).map(hex),
    root: hex(root),
    checkpoint: noteOf({ size, root }, signing),
  };
}

export async function prove(tx: Tx, digest: string, signing: Signing): Promise<LogProof> {
  const proof = await proofOf(tx, digest, signing);
  if (!proof) throw new Refusal("NOT_FOUND", "nothing of this digest is in the log");
  return proof;
}

export async function consistency(tx: Tx, { from, to }: { from: number; to: number }) {
  const size = await sizeNow(tx);
  if (to > size) throw new Refusal("NOT_FOUND", `the log has ${size} entries: to must be at most that`);
  const proof = await growthOf(from, 0, to, true);
  return { from, to, fromRoot: hex(await rootOf(0, from)), toRoot: hex(await rootOf(0, to)), proof: proof.map(hex) };
}
