// A passport's version as a W3C Verifiable Credential 2.0: enveloped in a JWS, issued by did:web, revocable by one bit.
import { gzipSync } from "node:zlib";
import { Refusal } from "#shared/errors.ts";
import { and, eq, inArray, isNotNull, isNull, sql } from "../store/drizzle.ts";
import type { Signing } from "../keys.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { counters, issuedCredentials, passports, tenants } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import { newIdIn } from "./ids.ts";
import { instant } from "./instant.ts";
import type { Content } from "./passport-content.ts";

const VC = "https://www.w3.org/ns/credentials/v2";
export const UNTP_DPP = "https://test.uncefact.org/vocabulary/untp/dpp/0.6.0/";
export const LIST_BITS = 131_072; // the least that the standard allows: one credential in it tells nothing about which

/** did:web names a host, its port percent-encoded. */
export const didOf = (origin: string): string => `did:web:${encodeURIComponent(new URL(origin).host)}`;
export const listUrl = (origin: string, list: number | ""): string => `${origin}/status/${list}`;

const takeIndex = prepared(
  db
    .update(counters)
    .set({ value: sql`${counters.value} + 1` })
    .where(eq(counters.name, "credential_status"))
    .returning({ value: counters.value }),
);
async function nextStatusIndex(): Promise<number> {
  const taken = await takeIndex.get({});
  if (!taken) throw new Error("the counter of status bits is gone");
  return taken.value - 1;
}

function sign(credential: object, { keys, origin }: Signing): string {
  return keys.sign("vc+jwt", credential, `${didOf(origin())}#${keys.kid}`);
}

const insertIssued = prepared(db.insert(issuedCredentials).values(placesOf(issuedCredentials)));

type Subject = {
  passport: { id: string; tenantId: string; productId: string; revokedAt: number | null };
  version: number;
  content: Content;
};

/** Signs, and takes a bit of its own: revoking one version's credential says nothing of another's. */
export async function issue(tx: Tx, { passport, version, content }: Subject, signing: Signing): Promise<{ id: string; jws: string }> {
  const origin = signing.origin();
  const { tenantId, id: passportId, productId: uid, revokedAt } = passport;
  const tenant = await tx.db.select({ name: tenants.name }).from(tenants).where(eq(tenants.id, tenantId)).get();
  const statusIndex = await nextStatusIndex();
  const [list, bit] = [Math.floor(statusIndex / LIST_BITS), statusIndex % LIST_BITS];
  const id = newIdIn(tx);
  await insertIssued.run({ id, tenantId, passportId, version, statusIndex, issuedAt: tx.now, revokedAt });
  const jws = sign(
    {
      "@context": [VC, UNTP_DPP],
      type: ["DigitalProductPassport", "VerifiableCredential"],
      id: `${origin}/p/${uid}#v${version}`,
      issuer: { type: ["CredentialIssuer"], id: didOf(origin), name: tenant?.name ?? tenantId },
      validFrom: instant(tx.now),
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
  return { id, jws };
}

const unrevoked = isNull(issuedCredentials.revokedAt);

/** Sets the bits of these; says how many weren't set before. */
export async function revoke(tx: Tx, tenantId: string, ids: (string | null)[]): Promise<number> {
  const these = ids.filter((id) => id !== null);
  const areUnrevoked = and(eq(issuedCredentials.tenantId, tenantId), inArray(issuedCredentials.id, these), unrevoked);
  const done = await tx.db.update(issuedCredentials).set({ revokedAt: tx.now }).where(areUnrevoked).returning({ id: issuedCredentials.id });
  return done.length;
}

const isNamed = eq(issuedCredentials.id, sql.placeholder("id"));
const revocation = prepared(db.select({ revokedAt: issuedCredentials.revokedAt }).from(issuedCredentials).where(isNamed));
/** By itself or with its product. */
export async function revokedAtOf(_tx: Tx, credentialId: string | null): Promise<number | null> {
  return credentialId === null ? null : ((await revocation.get({ id: credentialId }))?.revokedAt ?? null);
}
export const wasRevoked = async (tx: Tx, credentialId: string | null): Promise<boolean> => (await revokedAtOf(tx, credentialId)) !== null;

/** Whether the bit that an entry of one of our own lists names is set. */
export async function isRevoked(tx: Tx, list: number, bit: number): Promise<boolean> {
  const index = list * LIST_BITS + bit;
  const isSet = and(eq(issuedCredentials.statusIndex, index), isNotNull(issuedCredentials.revokedAt));
  const rows = await tx.db.select({ id: issuedCredentials.id }).from(issuedCredentials).where(isSet).limit(1);
  return rows.length > 0;
}

type Bits = { set: string; encoded: string };
/** Of each cloud. A bit that was set stays set; the sum tells one apart that was read before a commit that then failed. */
const bitsOf = new WeakMap<Signing["keys"], Map<number, Bits>>();

/** Anybody may ask for a list, and one that is full of revoked ones takes longer to read than to count. */
async function bitsIn(tx: Tx, list: number, { keys }: Signing): Promise<string> {
  const from = list * LIST_BITS;
  const { statusIndex, revokedAt } = issuedCredentials;
  const its = sql`FROM ${issuedCredentials} WHERE ${revokedAt} IS NOT NULL AND ${statusIndex} >= ${from} AND ${statusIndex} < ${from + LIST_BITS}`;
  const [counted] = await tx.db.values<[number, number | null]>(sql`SELECT COUNT(*), SUM(${statusIndex}) ${its}`);
  const set = String(counted);
  const lists = bitsOf.get(keys) ?? new Map<number, Bits>();
  const known = lists.get(list);
  if (known?.set === set) return known.encoded;
  const rows = await tx.db.values<[number]>(sql`SELECT ${statusIndex} ${its}`);
  const bits = Buffer.alloc(LIST_BITS / 8);
  for (const [index] of rows) bits[(index - from) >> 3] = (bits[(index - from) >> 3] ?? 0) | (0x80 >> ((index - from) & 7)); // bit 0 is the leftmost
  const encoded = `u${gzipSync(bits).toString("base64url")}`;
  if (rows.length > 0) bitsOf.set(keys, lists.set(list, { set, encoded }));
  return encoded;
}

const placesTaken = prepared(db.select({ value: counters.value }).from(counters).where(eq(counters.name, "credential_status")));

/** The bits of a list, signed; a set one means revoked. Of a list that no credential can be in yet nothing is signed, but for the first. */
export async function statusList(tx: Tx, list: number, signing: Signing): Promise<string> {
  const taken = await placesTaken.get({});
  if (list > 0 && list * LIST_BITS >= (taken?.value ?? 0)) throw new Refusal("NOT_FOUND", `there is no status list ${list}`);
  const origin = signing.origin();
  return sign(
    {
      "@context": [VC],
      type: ["VerifiableCredential", "BitstringStatusListCredential"],
      id: listUrl(origin, list),
      issuer: didOf(origin),
      validFrom: instant(tx.now),
      credentialSubject: {
        id: `${listUrl(origin, list)}#list`,
        type: "BitstringStatusList",
        statusPurpose: "revocation",
        encodedList: await bitsIn(tx, list, signing),
      },
    },
    signing,
  );
}

/** The list that a credential's bit stands in. */
export async function statusListFor(tx: Tx, credentialId: string | null, signing: Signing): Promise<string> {
  const { id, statusIndex } = issuedCredentials;
  const isIt = eq(id, credentialId ?? "");
  const row = await tx.db.select({ index: statusIndex }).from(issuedCredentials).where(isIt).get();
  if (!row) throw new Error(`the credential ${credentialId} has no bit`);
  return statusList(tx, Math.floor(row.index / LIST_BITS), signing);
}

/** A voided product's passport is revoked in the commit that voids it, with every credential that was signed for it. */
export async function revokeOf(tx: Tx, productId: string): Promise<void> {
  const rows = await tx.db
    .update(passports)
    .set({ revokedAt: tx.now, revision: sql`${passports.revision} + 1` }) // whoever signs another meanwhile was overtaken
    .where(eq(passports.productId, productId))
    .returning({ id: passports.id });
  for (const { id } of rows) {
    const areIts = and(eq(issuedCredentials.passportId, id), unrevoked);
    await tx.db.update(issuedCredentials).set({ revokedAt: tx.now }).where(areIts);
  }
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
