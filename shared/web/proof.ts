// Sealed evidence judged in the reader's own browser: the bundle's digest, its place in the log, the log's signed head. Nothing is taken on trust but the keys.
import canonicalize from "canonicalize";
import { picturesIn } from "../pictures.ts";
import type { EvidenceBundle } from "../wire/jobs.ts";
import type { LogProof } from "../wire/log.ts";
import { bytesOf, hexOf, isOnItsOwn, sha256 } from "./sha256.ts";

/** What is judged of it. */
export type Bundle = Pick<EvidenceBundle, "items" | "sha256" | "proof" | "fault">;
export type Jwk = { kid?: string; kty?: string; crv?: string; x?: string };

type CheckName = "bundle" | "pictures" | "entry" | "inclusion" | "head" | "signature";
export type Outcome = "holds" | "broken" | "unchecked";
export type Check = { name: CheckName; outcome: Outcome };

const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);
const digestOf = async (value: unknown): Promise<string> => hexOf(await sha256(encode(canonicalize(value) ?? "")));
const joined = (...parts: Uint8Array[]): Uint8Array<ArrayBuffer> => Uint8Array.from(parts.flatMap((part) => [...part]));
const leafHash = (data: Uint8Array) => sha256(joined(Uint8Array.of(0), data));
const nodeHash = (left: Uint8Array, right: Uint8Array) => sha256(joined(Uint8Array.of(1), left, right));

/** RFC 9162, 2.1.3.2: the root that the path leads to from the leaf, undefined where it is too long or too short. */
async function rootFrom(leaf: Uint8Array<ArrayBuffer>, index: number, size: number, path: readonly string[]) {
  let [node, last, root] = [index, size - 1, leaf];
  if (!Number.isSafeInteger(index) || index < 0 || index >= size) return undefined;
  for (const sibling of path.map(bytesOf)) {
    if (last === 0) return undefined;
    const isRight = node % 2 === 1 || node === last;
    root = isRight ? await nodeHash(sibling, root) : await nodeHash(root, sibling);
    if (isRight) while (node % 2 === 0 && node !== 0) [node, last] = [node / 2, Math.floor(last / 2)];
    [node, last] = [Math.floor(node / 2), Math.floor(last / 2)];
  }
  return last === 0 ? hexOf(root) : undefined;
}

const NOTE = /^([^\n]+\n(\d+)\n([A-Za-z0-9+/]{43}=)\n[^]*?)\n((?:\u2014 [^\n]+\n)+)$/;
const fromBase64 = (text: string) => Uint8Array.from(atob(text), (letter) => letter.codePointAt(0) ?? 0);

/** Any of the keys that the cloud publishes; null where this browser can't tell. */
async function isSigned(text: string, lines: string, keys: readonly Jwk[]): Promise<boolean | null> {
  const signatures = lines
    .trimEnd()
    .split("\n")
    .map((line) => fromBase64(line.split(" ")[2] ?? "").subarray(4));
  if (isOnItsOwn()) return null;
  try {
    for (const jwk of keys) {
      const key = await crypto.subtle.importKey("jwk", { kty: "OKP", crv: "Ed25519", x: jwk.x ?? "" }, "Ed25519", false, ["verify"]);
      for (const signature of signatures) if (await crypto.subtle.verify("Ed25519", key, signature, encode(text))) return true;
    }
    return false;
  } catch {
    return null; // a browser without Ed25519: imprimatur verify has it
  }
}

async function judgeHead({ checkpoint, size, root }: LogProof, keys: readonly Jwk[]): Promise<Check[]> {
  const [, text = "", noted, notedRoot = "", lines = ""] = NOTE.exec(checkpoint) ?? [];
  const same = text !== "" && Number(noted) === size && hexOf(fromBase64(notedRoot)) === root;
  const signed = same ? await isSigned(text, lines, keys) : false;
  return [
    { name: "head", outcome: same ? "holds" : "broken" },
    { name: "signature", outcome: signed === null ? "unchecked" : signed ? "holds" : "broken" },
  ];
}

async function judgePictures(
  { items }: Bundle,
  pictureOf: (sha256: string) => Promise<Uint8Array<ArrayBuffer> | undefined>,
): Promise<Outcome> {
  const named = picturesIn(items);
  const kept = await Promise.all(named.map(async (hash) => ({ hash, bytes: await pictureOf(hash) })));
  for (const { hash, bytes } of kept) if (bytes && hexOf(await sha256(bytes)) !== hash) return "broken";
  return named.length === 0 || kept.some(({ bytes }) => bytes === undefined) ? "unchecked" : "holds";
}

type Sources = { keys: readonly Jwk[]; pictureOf(sha256: string): Promise<Uint8Array<ArrayBuffer> | undefined> };
/** Every check by itself, in the order in which one rests on the other; a job that isn't sealed has no proof, and only its digest to judge. */
export async function judgeBundle(bundle: Bundle, { keys, pictureOf }: Sources): Promise<Check[]> {
  const held = (name: CheckName, holds: boolean): Check => ({ name, outcome: holds ? "holds" : "broken" });
  const computed = await digestOf(bundle.items);
  const first = [
    held("bundle", computed === bundle.sha256),
    { name: "pictures", outcome: await judgePictures(bundle, pictureOf) } as const,
  ];
  const { proof } = bundle;
  if (!proof) return bundle.fault === undefined ? first : [...first, held("entry", false)];
  const leaf = await leafHash(encode(canonicalize(proof.entry) ?? ""));
  return [
    ...first,
    held("entry", bundle.fault === undefined && proof.entry.digest === computed && hexOf(leaf) === proof.leafHash),
    held("inclusion", (await rootFrom(leaf, proof.index, proof.size, proof.proof)) === proof.root),
    ...(await judgeHead(proof, keys)),
  ];
}
