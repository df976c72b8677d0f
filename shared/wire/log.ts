// The transparency log as strangers see it: entries, proofs and a signed head, all recomputable by shared/merkle.ts.
import { Type } from "typebox";
import { closed, Sha256, type Static } from "./common.ts";

const Size = Type.Integer({ minimum: 0 });

export const LogEntry = closed({
  kind: Type.Enum(["passport", "print_bundle"]),
  digest: Type.String({
    ...Sha256,
    description: "SHA-256 in hex of RFC 8785's form: of a passport's credentialSubject, or of a print's evidence (its items)",
  }),
  at: Type.String({ description: "When it was logged" }),
});
export type LogEntry = Static<typeof LogEntry>;

export const LogProof = closed({
  entry: LogEntry,
  index: Size,
  size: Size,
  leafHash: Type.String({ ...Sha256, description: "SHA-256 in hex of a zero byte and RFC 8785's form of `entry` (RFC 6962, 2.1)" }),
  proof: Type.Array(Sha256, { description: "Siblings from the leaf up (RFC 6962, 2.1.1)" }),
  root: Sha256,
  checkpoint: Type.String({ description: "The signed head of this size, a C2SP signed note" }),
});
export type LogProof = Static<typeof LogProof>;

export const LogConsistency = closed({ from: Size, to: Size, fromRoot: Sha256, toRoot: Sha256, proof: Type.Array(Sha256) });
export type LogConsistency = Static<typeof LogConsistency>;

export const ProofQuery = closed({ digest: Sha256 });
export const ConsistencyQuery = closed({
  from: Type.Integer({ minimum: 1, maximum: 2 ** 48 }),
  to: Type.Integer({ minimum: 1, maximum: 2 ** 48 }),
});
// Names of tiles as C2SP's tlog-tiles has them.
export const LEVEL_PATTERN = "^(entries|[0-9]|[1-5][0-9]|6[0-3])$";
export const NAME_PATTERN = String.raw`^(x[0-9]{3}/){0,3}[0-9]{3}(\.p/([1-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5]))?$`;
export const TileParams = closed({
  level: Type.String({
    pattern: LEVEL_PATTERN,
    description:
      "entries, each behind its length in two bytes, or the level of hashes: 0 for the leaves', each higher one for 256 times as many",
  }),
  n: Type.String({
    pattern: NAME_PATTERN,
    description:
      "Which tile: its number in groups of three digits, all but the last behind an x (x001/x234/067); of the last, which isn't full, also how much of it (067.p/12)",
  }),
});
