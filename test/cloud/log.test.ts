// The transparency log: proofs that a stranger recomputes, against a tree built the slow way, and every forgery refused.
import { createHash, createPublicKey, verify } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { sql } from "drizzle-orm";
import { canonical } from "#shared/canonical.ts";
import { EMPTY_ROOT, isConsistent, isIncluded, leafHash, nodeHash, splitOf } from "#shared/merkle.ts";
import { keyHash, parseNote } from "#shared/note.ts";
import * as log from "../../cloud/domain/log.ts";
import { world } from "../world.ts";

const w = await world();
const digestOf = (n: number) => n.toString(16).padStart(64, "0");
const bytes = (hex: string) => Buffer.from(hex, "hex");
const LEAVES = 70;
const entries: Buffer[] = [];
for (let n = 0; n < LEAVES; n += 1) {
  const { entry } = await w.store.write("append", (tx) => log.append(tx, { kind: "passport", digest: digestOf(n) }));
  entries.push(leafHash(Buffer.from(canonical(entry))));
}

/** RFC 6962, 2.1, as it is written there. */
function slowRoot(leaves: Buffer[]): Buffer {
  if (leaves.length === 0) return EMPTY_ROOT;
  if (leaves.length === 1) return leaves[0] as Buffer;
  const split = splitOf(leaves.length);
  return nodeHash(slowRoot(leaves.slice(0, split)), slowRoot(leaves.slice(split)));
}
const proofOf = async (n: number) => (await w.nobody.get(`/log/proof?digest=${digestOf(n)}`)).body;

test("every leaf has a proof to the root of the tree built the slow way, and no proof serves another leaf, place or root", async () => {
  const root = slowRoot(entries);
  for (let n = 0; n < LEAVES; n += 1) {
    const { index, size, leafHash: leaf, proof, root: told } = await proofOf(n);
    const siblings = proof.map(bytes);
    expect([index, size, told, leaf]).toEqual([n, LEAVES, root.toString("hex"), entries[n]?.toString("hex")]);
    const holds = (at: number, of: Buffer | undefined = entries[n], path = siblings, head = root) =>
      isIncluded(of as Buffer, at, size, path, head);
    expect([holds(n), holds((n + 1) % LEAVES), holds(n, entries[(n + 1) % LEAVES]), holds(n, entries[n], siblings.slice(1))]).toEqual([
      true,
      false,
      false,
      false,
    ]);
    expect(holds(n, entries[n], siblings, Buffer.alloc(32))).toBe(false);
  }
});

test("a proof is as long as its tree is deep, however large the tree is said to be", () => {
  const [leaf, ...siblings] = Array.from({ length: 50 }, (_, n) => leafHash(Buffer.of(n))) as [Buffer, ...Buffer[]];
  const root = siblings.reduce((hash, sibling) => nodeHash(hash, sibling), leaf);
  expect(isIncluded(leaf, 0, 2 ** 49, siblings, root)).toBe(true);
  expect(isConsistent(1, 2 ** 49, leaf, root, siblings)).toBe(true);
  const endless = Array<Buffer>(5_000).fill(leaf);
  for (const size of [2 ** 49, Number.MAX_SAFE_INTEGER, 2 ** 53, 1e300])
    expect([size, isIncluded(leaf, 0, size, endless, root), isConsistent(1, size, leaf, root, endless)]).toEqual([size, false, false]);
});

test("any two heads are shown to be one log; a rewritten or rolled-back one isn't", async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: LEAVES }), fc.integer({ min: 1, max: LEAVES }), async (a, b) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)];
      const told = (await w.nobody.get(`/log/consistency?from=${from}&to=${to}`)).body;
      const [old, now, proof] = [slowRoot(entries.slice(0, from)), slowRoot(entries.slice(0, to)), told.proof.map(bytes)];
      expect([told.fromRoot, told.toRoot]).toEqual([old.toString("hex"), now.toString("hex")]);
      expect(isConsistent(from, to, old, now, proof)).toBe(true);
      const rewritten = slowRoot([leafHash(Buffer.from("another")), ...entries.slice(1, from)]);
      expect(isConsistent(from, to, rewritten, now, proof)).toBe(false);
      if (from < to) expect(isConsistent(to, from, now, old, proof)).toBe(false);
      if (proof.length > 0) expect(isConsistent(from, to, old, now, proof.slice(1))).toBe(false);
    }),
    { numRuns: 60 },
  );
});

test("the checkpoint is a signed note that plain crypto verifies with the published key", async () => {
  const { text } = await w.nobody.get("/log/checkpoint");
  const note = parseNote(text);
  expect(note?.head).toMatchObject({ origin: `${new URL(w.url).host}/log`, size: LEAVES, root: slowRoot(entries) });
  const { keys } = (await w.nobody.get("//.well-known/jwks.json")).body;
  const publicBytes = Buffer.from(keys[0].x, "base64url");
  const [made] = note?.signatures ?? [];
  expect(made?.keyHash).toEqual(keyHash({ name: note?.head.origin ?? "", publicBytes }));
  const key = createPublicKey({ key: keys[0], format: "jwk" });
  expect(verify(null, Buffer.from(note?.text ?? ""), key, made?.signature ?? Buffer.alloc(0))).toBe(true);
  expect(verify(null, Buffer.from((note?.text ?? "").replace(`${LEAVES}`, "9")), key, made?.signature ?? Buffer.alloc(0))).toBe(false);
  expect((await proofOf(3)).checkpoint).toBe(text);
});

test("what isn't in the log is 404, what isn't a digest, a size or a way forward 400", async () => {
  const status = async (path: string) => (await w.nobody.get(path)).status;
  expect(await status(`/log/proof?digest=${"f".repeat(64)}`)).toBe(404);
  expect(await status("/log/proof?digest=abc")).toBe(400);
  expect(await status("/log/proof")).toBe(400);
  expect(await status(`/log/consistency?from=1&to=${LEAVES + 1}`)).toBe(404);
  expect(await status(`/log/consistency?from=${LEAVES + 1}&to=${LEAVES + 1}`)).toBe(404);
  expect((await w.nobody.get("/log/consistency?from=5&to=2")).body.error).toMatchObject({
    code: "VALIDATION_ERROR",
    details: { fields: [{ field: "from" }] },
  });
  expect(await status("/log/consistency?from=0&to=2")).toBe(400);
});

test("appends at once stand in one order without a gap, and a unit that fails leaves none", async () => {
  const { store } = await world();
  const append = (n: number) => store.write("append", (tx) => log.append(tx, { kind: "print_bundle", digest: digestOf(n) }));
  const results = await Promise.all(Array.from({ length: 32 }, (_, n) => append(n)));
  expect(results.map(({ index }) => index).toSorted((a, b) => a - b)).toEqual(Array.from({ length: 32 }, (_, n) => n));
  await expect(
    store.write("failing", async (tx) => {
      await log.append(tx, { kind: "passport", digest: digestOf(99) });
      throw new Error("no");
    }),
  ).rejects.toThrow("no");
  const rows = await store.read("count", async ({ db }) => db.values(sql`SELECT count(*) FROM log_leaves`));
  expect(rows).toEqual([[32]]);
});

test("a digest is found in whichever run of the log it stands, the latest of it first, and what isn't there is named", async () => {
  const { store, nobody } = await world();
  const SIZE = 17_000; // three runs
  const random = (n: number) => createHash("sha256").update(String(n)).digest("hex");
  await store.write("append", async (tx) => {
    for (let n = 0; n < SIZE; n += 1) log.appendLast(tx, { kind: "print_bundle", digest: random(n) });
    log.appendLast(tx, { kind: "print_bundle", digest: random(5) });
  });
  const indexOf = async (n: number) => (await nobody.get(`/log/proof?digest=${random(n)}`)).body.index;
  for (const n of [0, 8_191, 8_192, 16_383, 16_384, SIZE - 1]) expect(await indexOf(n)).toBe(n);
  expect(await indexOf(5)).toBe(SIZE);
  const sought = [0, 1, 8_200, 16_400, SIZE + 1].map(random);
  for (const near of [undefined, 0, 1, 2]) {
    const { absent } = await store.read("absent", (tx) => log.absentOf(tx, sought, near));
    expect([...absent]).toEqual([random(SIZE + 1)]);
  }
  expect((await store.read("near", (tx) => log.absentOf(tx, [random(8_200)]))).near).toBe(1);
  expect([...(await store.read("none", (tx) => log.absentOf(tx, []))).absent]).toEqual([]);
});

test("a note that isn't one is nothing", () => {
  for (const text of ["", "a\n1\n", "a\n1\nAAAA\n\n\u2014 a b\n", `a\n-1\n${"A".repeat(43)}=\n\n\u2014 a b\n`])
    expect(parseNote(text)).toBeUndefined();
});
