// A passport's version as a W3C Verifiable Credential 2.0: enveloped in a JWS, issued by did:web, revocable by one bit.
import { gzipSync } from "node:zlib";
import { asc, eq, isNotNull, sql } from "../store/drizzle.ts";
import type { Signing } from "../keys.ts";
import { prepared } from "../store/prepared.ts";
import { counters, passports, tenants } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import type { Content } from "./passport-content.ts";

const VC = "https://www.w3.org/ns/credentials/v2";
const UNTP_DPP = "https://test.uncefact.org/vocabulary/untp/dpp/0.6.0/";
const LIST_BITS = 131_072; // the least that the standard allows: one passport in it tells nothing about which

/** did:web names a host, its port percent-encoded. */
export const didOf = (origin: string): string => `did:web:${encodeURIComponent(new URL(origin).host)}`;
const listUrl = (origin: string, list: number) => `${origin}/status/${list}`;

const takeIndex = prepared(
  db
    .update(counters)
    .set({ value: sql`${counters.value} + 1` })
    .where(eq(counters.name, "credential_status"))
    .returning({ value: counters.value }),
);
export async function nextStatusIndex(): Promise<number> {
  const taken = await takeIndex.get({});
  if (!taken) throw new Error("the counter of status bits is gone");
  return taken.value - 1;
}

function sign(credential: object, { keys, origin }: Signing): string {
  return keys.sign("vc+jwt", credential, `${didOf(origin())}#${keys.kid}`);
}

type Subject = { uid: string; version: number; statusIndex: number; content: Content; tenantId: string };

export async function issue(tx: Tx, { uid, version, statusIndex, content, tenantId }: Subject, signing: Signing): Promise<string> {
  const origin = signing.origin();
  const tenant = await tx.db.select({ name: tenants.name }).from(tenants).where(eq(tenants.id, tenantId)).get();
  const [list, bit] = [Math.floor(statusIndex / LIST_BITS), statusIndex % LIST_BITS];
  return sign(
    {
      "@context": [VC, UNTP_DPP],
      type: ["DigitalProductPassport", "VerifiableCredential"],
      id: `${origin}/p/${uid}#v${version}`,
      issuer: { type: ["CredentialIssuer"], id: didOf(origin), name: tenant?.name ?? tenantId },
      validFrom: new Date(tx.now).toISOString(),
      credentialStatus: {
        id: `${listUrl(origin, list)}#${bit}`,
        type: "BitstringStatusListEntry",
        statusPurpose: "revocation",
        statusListIndex: String(bit),
        statusListCredential: listUrl(origin, list),
      },
      credentialSubject: content,
    },
    signing,
  );
}

/** The bits of a list, signed; a set one means revoked. */
export async function statusList(tx: Tx, list: number, signing: Signing): Promise<string> {
  const origin = signing.origin();
  const from = list * LIST_BITS;
  const rows = await tx.db
    .select({ index: passports.statusIndex })
    .from(passports)
    .where(
      sql`${isNotNull(passports.revokedAt)} AND ${passports.statusIndex} >= ${from} AND ${passports.statusIndex} < ${from + LIST_BITS}`,
    )
    .orderBy(asc(passports.statusIndex));
  const bits = Buffer.alloc(LIST_BITS / 8);
  for (const { index } of rows) bits[(index - from) >> 3] = (bits[(index - from) >> 3] ?? 0) | (0x80 >> ((index - from) & 7)); // bit 0 is the leftmost
  return sign(
    {
      "@context": [VC],
      type: ["VerifiableCredential", "BitstringStatusListCredential"],
      id: listUrl(origin, list),
      issuer: didOf(origin),
      validFrom: new Date(tx.now).toISOString(),
      credentialSubject: {
        id: `${listUrl(origin, list)}#list`,
        type: "BitstringStatusList",
        statusPurpose: "revocation",
        encodedList: `u${gzipSync(bits).toString("base64url")}`,
      },
    },
    signing,
  );
}

/** A voided product's passport is revoked in the commit that voids it. */
export async function revokeOf(tx: Tx, productId: string): Promise<void> {
  await tx.db.update(passports).set({ revokedAt: tx.now }).where(eq(passports.productId, productId));
}

export async function didDocument({ keys, origin }: Signing) {
  const id = didOf(origin());
  const methods = (await keys.all()).map(({ kid, kty, crv, x }) => ({
    id: `${id}#${kid}`,
    type: "JsonWebKey",
    controller: id,
    publicKeyJwk: { kty, crv, x, kid, alg: "EdDSA" },
  }));
  return {
    "@context": ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/jwk/v1"],
    id,
    verificationMethod: methods,
    assertionMethod: methods.map((method) => method.id),
  };
}
