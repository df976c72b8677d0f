// What vouches for a passport beyond its signature: an anchor's receipt, a registry's number, a verdict on a credential, a bundle to keep.
import { Type } from "typebox";
import { closed, Id, Instant, nullable, Sha256, type Static } from "./common.ts";
import { LogProof } from "./log.ts";

const Word = Type.String({ minLength: 1, maxLength: 500, pattern: "^[\\x21-\\x7e]+$" });

/** What an anchoring service has to answer: bound to our digest, and more if it likes, which is kept. */
export const Receipt = Type.Object({
  digest: Sha256,
  anchor: Type.String({ ...Word, description: "Where the digest stands now: a transaction, a URL" }),
  anchoredAt: Instant,
});
export type Receipt = Static<typeof Receipt>;

/** What a registry has to answer. */
export const Registered = Type.Object({ registrationId: Word });
export type Registered = Static<typeof Registered>;

export const Registration = closed({
  registrationId: Word,
  version: Type.Integer({ description: "The version of the passport that was broadcast" }),
  digest: Sha256,
  registeredAt: Instant,
});
export type Registration = Static<typeof Registration>;

export const CredentialVerify = closed({
  credential: Type.String({ minLength: 1, description: "The credential as it was given out: application/vc+jwt" }),
});

const OUTCOMES = ["passed", "failed", "unknown"] as const;
const CHECKS = ["signature", "issuer", "validity", "status", "schema"] as const;
export const CredentialCheck = closed({ name: Type.Enum([...CHECKS]), outcome: Type.Enum([...OUTCOMES]), message: Type.String() });
export type CredentialCheck = Static<typeof CredentialCheck>;
export const CredentialVerdict = closed({
  verdict: Type.Enum(["valid", "invalid", "unknown"], {
    description: "invalid: a check failed; unknown: none failed, one couldn't be made",
  }),
  checks: Type.Array(CredentialCheck),
});
export type CredentialVerdict = Static<typeof CredentialVerdict>;

export const CredentialListed = closed({
  id: Id,
  passportId: Id,
  version: Type.Integer({ description: "The version of the passport that it says" }),
  issuedAt: Instant,
  revokedAt: nullable(Instant),
});
export type CredentialListed = Static<typeof CredentialListed>;
export const Credential = closed({
  ...CredentialListed.properties,
  current: Type.Boolean({ description: "False once an edit of the draft replaced it" }),
  credential: nullable(Type.String({ description: "application/vc+jwt; null for a replaced or deleted draft's, which isn't kept" })),
});
export type Credential = Static<typeof Credential>;

/** One file that `imprimatur verify` needs nothing else for. */
export const PassportBundle = closed({
  credential: Type.String({ description: "The version as application/vc+jwt" }),
  proof: LogProof,
  receipt: nullable(Receipt),
  statusList: Type.String({ description: "The status list of the credential as it was now, application/vc+jwt" }),
  didDocument: Type.Object({ id: Type.String() }),
});
export type PassportBundle = Static<typeof PassportBundle>;
