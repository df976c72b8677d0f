// What the pages compute for themselves: the same as the cloud.
import { hash } from "node:crypto";
import { assert, property, uint8Array } from "fast-check";
import { describe, expect, test } from "vitest";
import { canonical, digestOf } from "#shared/canonical.ts";
import { type Hash, leafHash, nodeHash, splitOf } from "#shared/merkle.ts";
import { type Bundle, judgeBundle } from "#shared/web/proof.ts";
import { sha256Here } from "#shared/web/sha256.ts";

test("the page's own SHA-256 is SHA-256", () => {
  assert(
    property(uint8Array({ maxLength: 300 }), (bytes) => {
      expect(Buffer.from(sha256Here(bytes)).toString("hex")).toBe(hash("sha256", bytes));
    }),
  );
  for (const length of [55, 56, 63, 64, 65, 119, 120, 100_000])
    expect(Buffer.from(sha256Here(new Uint8Array(length).fill(7))).toString("hex")).toBe(hash("sha256", Buffer.alloc(length, 7)));
});

describe("a proof in a log of any size", () => {
  const rootOf = (leaves: readonly Hash[]): Hash => {
    const [first] = leaves;
    if (leaves.length === 1 && first) return first;
    const split = splitOf(leaves.length);
    return nodeHash(rootOf(leaves.slice(0, split)), rootOf(leaves.slice(split)));
  };
  const pathOf = (leaves: readonly Hash[], index: number): Hash[] => {
    if (leaves.length === 1) return [];
    const split = splitOf(leaves.length);
    return index < split
      ? [...pathOf(leaves.slice(0, split), index), rootOf(leaves.slice(split))]
      : [...pathOf(leaves.slice(split), index - split), rootOf(leaves.slice(0, split))];
  };
  const items = [{ status: "RENDERED" as const, evidence: {} }];
  const entry = { kind: "print_bundle" as const, digest: digestOf(items), at: "2026-11-21T12:00:00.000Z" };
  const ours = leafHash(Buffer.from(canonical(entry)));
  function bundleIn(size: number, index: number): Bundle {
    const leaves = Array.from({ length: size }, (_, n) => (n === index ? ours : leafHash(Buffer.from(`leaf ${n}`))));
    const proof = pathOf(leaves, index).map((hash) => hash.toString("hex"));
    const root = rootOf(leaves).toString("hex");
    return { items, sha256: entry.digest, proof: { entry, index, size, leafHash: ours.toString("hex"), proof, root, checkpoint: "" } };
  }
  const judged = async (bundle: Bundle) => {
    const checks = await judgeBundle(bundle, { keys: [], pictureOf: async () => undefined });
    return checks.find(({ name }) => name === "inclusion")?.outcome;
  };

  test("leads to its root from every place", async () => {
    for (let size = 1; size <= 20; size += 1)
      for (let index = 0; index < size; index += 1)
        expect([size, index, await judged(bundleIn(size, index))]).toEqual([size, index, "holds"]);
  });

  test("leads nowhere from another place, with a longer or a shorter path, or out of the tree", async () => {
    const { proof, ...bundle } = bundleIn(13, 6);
    const lies = [
      { index: 7 },
      { index: -1 },
      { index: 13 },
      { index: 0.5 },
      { size: 14 },
      { proof: proof?.proof.slice(1) },
      { proof: [...(proof?.proof ?? []), proof?.root] },
    ];
    for (const lie of lies) {
      const told = { ...bundle, proof: { ...proof, ...lie } } as Bundle;
      expect([lie, await judged(told)]).toEqual([lie, lie.size === 14 ? "holds" : "broken"]);
    }
  });
});

test("the label's own picture is looked at as well as the camera's, each once; another in its place isn't the one that was named", async () => {
  const [drawn, seen] = ["drawn", "seen"].map((text) => new TextEncoder().encode(text)) as [
    Uint8Array<ArrayBuffer>,
    Uint8Array<ArrayBuffer>,
  ];
  const [preview_sha256, image_sha256] = [drawn, seen].map((picture) => hash("sha256", picture));
  const items = [
    { status: "RENDERED" as const, evidence: { render_manifest: { preview_sha256, sha256: "dots" } } },
    { status: "SPOOL_SUBMITTED" as const, evidence: { spool_receipt: { preview_sha256: "../jobs", image_sha256: "A".repeat(64) } } },
    { status: "SCAN_VERIFIED" as const, evidence: { scan_result: { image_sha256 } } },
  ];
  const pictures = async (kept: Record<string, Uint8Array<ArrayBuffer>>) => {
    const asked: string[] = [];
    const pictureOf = async (sha256: string) => {
      asked.push(sha256);
      return kept[sha256];
    };
    const checks = await judgeBundle({ items, sha256: digestOf(items), proof: null }, { keys: [], pictureOf });
    expect(asked).toEqual([preview_sha256, image_sha256]);
    return checks.find(({ name }) => name === "pictures")?.outcome;
  };
  expect(await pictures({ [String(preview_sha256)]: drawn, [String(image_sha256)]: seen })).toBe("holds");
  expect(await pictures({ [String(preview_sha256)]: seen, [String(image_sha256)]: seen })).toBe("broken");
  expect(await pictures({ [String(image_sha256)]: seen })).toBe("unchecked");
});
