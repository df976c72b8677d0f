// The Merkle tree of RFC 6962: what a stranger needs to recompute a proof, and nothing else. Hashes are bytes.
import { hash } from "node:crypto";

export type Hash = Buffer;

const sha256 = (...parts: Uint8Array[]): Hash => hash("sha256", Buffer.concat(parts), "buffer");
const [LEAF, NODE] = [Buffer.of(0), Buffer.of(1)]; // told apart, so that no node can pass for a leaf

export const leafHash = (data: Uint8Array): Hash => sha256(LEAF, data);
export const nodeHash = (left: Hash, right: Hash): Hash => sha256(NODE, left, right);
export const EMPTY_ROOT: Hash = sha256();

/** The largest power of two below n: where RFC 6962 splits a tree of n leaves. */
export function splitOf(n: number): number {
  const power = 2 ** Math.floor(Math.log2(n - 1));
  return power < n ? power : power / 2; // from 2 ** 49 on the logarithm is rounded up to the next whole number
}

/** True when the leaf stands at the index of the tree that has this root. */
export function isIncluded(leaf: Hash, index: number, size: number, proof: readonly Hash[], root: Hash): boolean {
  if (index < 0 || index >= size || !Number.isSafeInteger(size)) return false; // no number of leaves: one less would be the same to us
  const computed = rootFrom(leaf, index, size, proof);
  return computed !== undefined && computed.equals(root);
}

function rootFrom(leaf: Hash, index: number, size: number, proof: readonly Hash[]): Hash | undefined {
  if (size === 1) return proof.length === 0 ? leaf : undefined;
  const sibling = proof.at(-1);
  if (!sibling) return undefined;
  const [rest, split] = [proof.slice(0, -1), splitOf(size)];
  const inner = index < split ? rootFrom(leaf, index, split, rest) : rootFrom(leaf, index - split, size - split, rest);
  if (!inner) return undefined;
  return index < split ? nodeHash(inner, sibling) : nodeHash(sibling, inner);
}

type Roots = { old: Hash; now: Hash };

/** True when the tree of `from` leaves is the beginning of the tree of `to` leaves: nothing was taken back or rewritten. */
export function isConsistent(from: number, to: number, oldRoot: Hash, newRoot: Hash, proof: readonly Hash[]): boolean {
  if (from > to || !Number.isSafeInteger(to)) return false;
  if (from === to) return proof.length === 0 && oldRoot.equals(newRoot);
  if (from === 0) return proof.length === 0;
  const roots = rootsFrom(from, to, proof, oldRoot, true);
  return roots !== undefined && roots.old.equals(oldRoot) && roots.now.equals(newRoot);
}

/** `whole`: the old tree is all of what is looked at here, so the asker knows its root and the proof leaves it out. */
function rootsFrom(from: number, to: number, proof: readonly Hash[], oldRoot: Hash, whole: boolean): Roots | undefined {
  if (from === to) {
    const known = whole ? oldRoot : proof.at(-1);
    return proof.length === (whole ? 0 : 1) && known ? { old: known, now: known } : undefined;
  }
  const sibling = proof.at(-1);
  if (!sibling) return undefined;
  const [rest, split] = [proof.slice(0, -1), splitOf(to)];
  if (from <= split) {
    const left = rootsFrom(from, split, rest, oldRoot, whole);
    return left && { old: left.old, now: nodeHash(left.now, sibling) };
  }
  const right = rootsFrom(from - split, to - split, rest, oldRoot, false);
  return right && { old: nodeHash(sibling, right.old), now: nodeHash(sibling, right.now) };
}

/** A complete subtree of 2 ** level leaves, whose right neighbour isn't complete yet. */
export type Subtree = { level: number; n: number; hash: Hash };

/** Takes the next leaf in at the open right edge: the subtrees that it completes, itself among them, the largest of which stays open. */
export function grow(open: Subtree[], leaf: Subtree): Subtree[] {
  const made = [leaf];
  let top = leaf;
  for (let left = open.at(-1); left && top.n % 2 === 1 && left.level === top.level; left = open.at(-1)) {
    open.pop();
    top = { level: top.level + 1, n: (top.n - 1) / 2, hash: nodeHash(left.hash, top.hash) };
    made.push(top);
  }
  open.push(top);
  return made;
}

export const rootAt = (open: readonly Subtree[]): Hash =>
  open.reduceRight<Hash | undefined>((right, { hash }) => (right ? nodeHash(hash, right) : hash), undefined) ?? EMPTY_ROOT;
