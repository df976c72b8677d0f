// Credentials by their ids, and what one may think of any credential: each check by itself, and "unknown" where one can't be made here.
import { and, eq, sql } from "../store/drizzle.ts";
import { judgeIssuer, judgeSchema, judgeSignature, judgeValidity, type Opened, openCredential, verdictOf } from "#shared/credential.ts";
import { Refusal } from "#shared/errors.ts";
import type { Credential, CredentialCheck, CredentialListed, CredentialVerdict } from "#shared/wire/trust.ts";
import type { Signing } from "../keys.ts";
import { issuedCredentials, passports, passportVersions } from "../store/schema.ts";
import { overtaken, type Tx } from "../store/store.ts";
import { didOf, isRevoked, LIST_BITS, listUrl, revoke } from "./issued-credentials.ts";
import { found } from "./found.ts";
import { instant } from "./instant.ts";
import { newestOf, type PageQuery } from "./page.ts";
import { currentOf } from "./passports.ts";

type Issued = typeof issuedCredentials.$inferSelect;
type Found = { issued: Issued; kept: typeof passportVersions.$inferSelect | null };

/** The version that it was signed for, while it still is that version's. */
const isItsVersion = and(
  eq(passportVersions.passportId, issuedCredentials.passportId),
  eq(passportVersions.version, issuedCredentials.version),
  eq(passportVersions.credentialId, issuedCredentials.id),
);

/** By its own id, by the id that is written in it, or by its passport's, which stands for the current version's. */
async function find(tx: Tx, tenantId: string, id: string): Promise<Found> {
  const [, uid, version] = WRITTEN.exec(id) ?? [];
  const ofTenant = eq(passports.tenantId, tenantId);
  const isIts = and(ofTenant, uid === undefined ? eq(passports.id, id) : eq(passports.productId, uid));
  const passport = await tx.db.select().from(passports).where(isIts).get();
  const wanted = version === undefined ? passport && currentOf(passport) : Number(version);
  const named = passport && wanted !== null && wanted !== undefined;
  const isIt = and(
    eq(issuedCredentials.tenantId, tenantId),
    named ? and(eq(passportVersions.passportId, passport.id), eq(passportVersions.version, wanted)) : eq(issuedCredentials.id, id),
  );
  const row = await tx.db.select().from(issuedCredentials).leftJoin(passportVersions, isItsVersion).where(isIt).get();
  const { issued_credentials: issued, passport_versions: kept } = found("credential", row);
  return { issued, kept };
}
/** Under whatever public URL this cloud had when it signed. */
const WRITTEN = /^https?:\/\/[^/?#]+\/p\/([\w-]{1,64})#v(\d{1,9})$/;

const toListed = ({ id, passportId, version, issuedAt, revokedAt }: Issued): CredentialListed => ({
  id,
  passportId,
  version,
  issuedAt: instant(issuedAt),
  revokedAt: instant(revokedAt),
});
const toWire = ({ issued, kept }: Found): Credential => ({
  ...toListed(issued),
  current: kept !== null,
  credential: kept?.credential ?? null,
});

/** An early version named a credential by its passport's id and the version. */
const shape = /^[0-9a-f-]{36}(\.\d{1,9})?$/;
export const list = (tx: Tx, tenantId: string, query: PageQuery) =>
  newestOf(tx, query, { table: issuedCredentials, where: eq(issuedCredentials.tenantId, tenantId), toWire: toListed, shape });

export const get = async (tx: Tx, tenantId: string, id: string): Promise<Credential> => toWire(await find(tx, tenantId, id));

/** For good: a bit that was set stays set, whatever becomes of the passport, and no other version's bit moves with it. */
export async function revokeOne(tx: Tx, tenantId: string, id: string): Promise<Credential> {
  const found = await find(tx, tenantId, id);
  const { revokedAt } = found.issued;
  if (revokedAt !== null) throw new Refusal("ALREADY_REVOKED", `it was revoked at ${instant(revokedAt)}`);
  await tx.db
    .update(passports)
    .set({ revision: sql`${passports.revision} + 1` }) // what was thought of it before, its compliance above all, isn't so any more
    .where(and(eq(passports.tenantId, tenantId), eq(passports.id, found.issued.passportId)));
  if ((await revoke(tx, tenantId, [found.issued.id])) === 0) throw overtaken(`credential ${found.issued.id}`); // a passport's id may mean another by now
  return { ...toWire(found), revokedAt: instant(tx.now) };
}

/** What needs no store but our keys: made before the unit begins. */
export async function examine(jws: string, signing: Signing): Promise<{ opened: Opened | undefined; checks: CredentialCheck[] }> {
  const opened = await openCredential(jws).catch((error: unknown) => error as Error);
  if (opened instanceof Error)
    return {
      opened: undefined,
      checks: [{ name: "signature", outcome: "failed", message: `it isn't a signed credential: ${opened.message}` }],
    };
  const own = didOf(signing.origin());
  const kid = opened.kid?.startsWith(`${own}#`) ? opened.kid.slice(own.length + 1) : undefined;
  const foreign = opened.issuer !== own || kid === undefined;
  const key = kid === undefined ? undefined : await signing.keys.find(kid);
  const otherwise = foreign
    ? ({ outcome: "unknown", message: `only keys of ${own} are known here; those of others aren't fetched` } as const)
    : signing.keys.isOver(kid)
      ? ({ outcome: "failed", message: `the key ${kid} was retired: nothing that it signed counts any more` } as const)
      : undefined;
  const signature = await judgeSignature(jws, opened, key, otherwise);
  return { opened, checks: [signature, judgeIssuer(opened, own)] };
}

export async function verify(
  tx: Tx,
  { opened, checks }: Awaited<ReturnType<typeof examine>>,
  signing: Signing,
): Promise<CredentialVerdict> {
  const all = opened
    ? [...checks, judgeValidity(opened, tx.now), await judgeStatus(tx, opened, signing), await judgeSchema(opened)]
    : checks;
  return { verdict: verdictOf(all), checks: all };
}

/** The number of a list of ours: a did:web names the host alone, so that what was signed before there was TLS is ours as well. */
function listOf(url: string, { origin }: Signing): string | undefined {
  const here = listUrl(`://${new URL(origin()).host}`, "");
  return new RegExp(`^https?${RegExp.escape(here)}(\\d{1,6})$`).exec(url)?.[1];
}
async function judgeStatus(tx: Tx, { status }: Opened, signing: Signing): Promise<CredentialCheck> {
  const said = (outcome: CredentialCheck["outcome"], message: string): CredentialCheck => ({ name: "status", outcome, message });
  if (status === undefined) return said("passed", "it names no status list: it can't be revoked");
  const textOf = (name: string) => (typeof status[name] === "string" ? status[name] : "");
  const list = listOf(textOf("statusListCredential"), signing);
  const bit = textOf("statusListIndex");
  if (
    list === undefined ||
    status["type"] !== "BitstringStatusListEntry" ||
    status["statusPurpose"] !== "revocation" ||
    !/^\d{1,6}$/.test(bit)
  )
    return said("unknown", "its status list isn't one of ours, and isn't fetched");
  if (Number(bit) >= LIST_BITS) return said("failed", `status list ${list} has no such bit: ${bit}`);
  return (await isRevoked(tx, Number(list), Number(bit)))
    ? said("failed", `it was revoked: bit ${bit} of status list ${list} is set`)
    : said("passed", `bit ${bit} of status list ${list} isn't set`);
}
