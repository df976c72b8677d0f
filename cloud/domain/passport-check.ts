// Passports against what vouches for them: what is kept of each version against its digest, its credential and its signer, and what was validated against the log.
import { and, desc, eq, inArray, isNotNull, lt } from "../store/drizzle.ts";
import { digestOf } from "#shared/canonical.ts";
import { judgeSignature, openCredential } from "#shared/credential.ts";
import { SINCE, versionOf } from "../store/migrate.ts";
import { passports, passportVersions, retiredKeys, signingKeys, validations } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { type Ring, ringFrom } from "../verify/keys.ts";
import * as log from "./log.ts";

const SLICE_ROWS = 200;
export type Judged = { passports: number; /** The first that doesn't hold. */ fault: string | undefined };
type Kept = Pick<typeof passports.$inferSelect, "tenantId" | "id" | "productId" | "lastVersion">;

/** Every key that what is kept may be signed with: not one that was retired, once all that it had signed was signed anew. */
export async function keysIn(store: Store): Promise<Ring | undefined> {
  const canRetire = (await versionOf(store)) >= SINCE.retiredKeys;
  const rows = await store.read("signing keys", async ({ db }) => {
    const all = await db.select().from(signingKeys);
    const gone = canRetire ? await db.select().from(retiredKeys).where(isNotNull(retiredKeys.resignedAt)) : [];
    return all.filter(({ kid }) => !gone.some((key) => key.kid === kid));
  });
  return rows.length === 0 ? undefined : ringFrom({ keys: rows.map(({ kid, publicJwk }) => ({ ...publicJwk, kid })) });
}

/** All that a tenant has, the latest first, or so many of them. */
export async function judgePassports(store: Store, tenantId: string, keys: Ring | undefined, most = Infinity): Promise<Judged> {
  let judged = 0;
  let near: number | undefined;
  for (let before: string | undefined; judged < most;) {
    const count = Math.min(SLICE_ROWS, most - judged);
    const slice = await store.read("passports", (tx) => sliceOf(tx, tenantId, { before, count, near }));
    near = slice.near;
    for (const passport of slice.rows) {
      const fault = slice.lost.get(passport.id) ?? (await faultOf(store, passport, keys));
      if (fault !== undefined) return { passports: judged, fault: `a passport doesn't hold: the passport ${passport.id}: ${fault}` };
      judged += 1;
    }
    if (slice.rows.length < count) break;
    before = slice.rows.at(-1)?.id;
  }
  return { passports: judged, fault: undefined };
}

type Slice = { before: string | undefined; count: number; /** Where the log holds those of the slice before. */ near: number | undefined };
async function sliceOf(tx: Tx, tenantId: string, { before, count, near }: Slice) {
  const { id } = passports;
  const isNext = and(eq(passports.tenantId, tenantId), before === undefined ? undefined : lt(id, before));
  const rows: Kept[] = await tx.db.select().from(passports).where(isNext).orderBy(desc(id)).limit(count);
  const ids = rows.map((row) => row.id);
  const anchored = await tx.db.select().from(validations).where(inArray(validations.passportId, ids));
  const digests = anchored.map(({ digest }) => digest);
  const logged = await log.absentOf(tx, digests, near);
  const lost = anchored.filter(({ digest }) => logged.absent.has(digest));
  return {
    rows,
    near: logged.near,
    lost: new Map(lost.map(({ passportId, digest }) => [passportId, `the digest that was validated, ${digest}, isn't in the log`])),
  };
}

/** A version at a time: each may have a megabyte. */
async function faultOf(store: Store, { tenantId, id, productId, lastVersion }: Kept, keys: Ring | undefined): Promise<string | undefined> {
  for (let version = 1; version <= lastVersion; version += 1) {
    const isIts = and(eq(passportVersions.passportId, passports.id), eq(passportVersions.version, version));
    const isIt = and(eq(passports.tenantId, tenantId), eq(passports.id, id));
    const found = await store.read("passport version", ({ db }) =>
      db.select().from(passports).leftJoin(passportVersions, isIts).where(isIt).get(),
    );
    if (!found) return undefined; // a draft that was deleted meanwhile
    const fault = found.passport_versions ? await versionFault(found.passport_versions, productId, keys) : "is missing";
    if (fault !== undefined) return `its version ${version} ${fault}`;
  }
  return undefined;
}

async function versionFault(
  { version, content, digest, credential: jws }: typeof passportVersions.$inferSelect,
  productId: string,
  keys: Ring | undefined,
): Promise<string | undefined> {
  const given = digestOf(content);
  if (given !== digest) return `was changed: it gives the digest ${given}, and ${digest} is what was kept of it`;
  const opened = await openCredential(jws).catch((cause: Error) => cause);
  if (opened instanceof Error) return `has a credential that isn't one any more: ${opened.message}`;
  const { outcome, message } = await judgeSignature(jws, opened, keys?.find(opened.kid));
  if (outcome !== "passed") return `has a credential that doesn't hold: ${message}`;
  const id = String(opened.payload["id"]);
  if (!id.endsWith(`/p/${productId}#v${version}`)) return `has a credential of something else, ${id}`;
  const said = digestOf(opened.payload["credentialSubject"] ?? null);
  return said === digest
    ? undefined
    : `isn't what was signed: its credential gives the digest ${said}, and ${digest} is what was kept of it`;
}
