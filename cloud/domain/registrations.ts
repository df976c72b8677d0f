// What the external registry was told and answered: one registration a version, kept for good.
import { and, desc, eq } from "../store/drizzle.ts";
import type { Registration } from "#shared/wire/trust.ts";
import type { Entry } from "../adapters/registry.ts";
import { registrations } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { instant } from "./instant.ts";
import { linkOf } from "./passport-content.ts";
import type { registrable } from "./passports.ts";

type Row = typeof registrations.$inferSelect;
const toWire = ({ registrationId, version, digest, at }: Row): Registration => ({
  registrationId,
  version,
  digest,
  registeredAt: instant(at),
});

/** A passport and its operator as URIs: names that mean the same on any host. */
export const uriOf = (id: string): string => `urn:uuid:${id}`;

/** The registry's entry (EN 18222 RegisterDPP), with the hash of the version that Regulation (EU) 2026/1778 asks for. */
export function entryOf({ row, product, version }: Awaited<ReturnType<typeof registrable>>, origin: string): Entry {
  return {
    uniqueProductIdentifier: linkOf(origin, product),
    digitalProductPassportId: uriOf(row.id),
    uniqueEconomicOperatorIdentifier: uriOf(row.tenantId),
    dppApiEndpoint: `${origin}/v1/dpps/${uriOf(row.id)}`,
    granularity: product.granularity,
    version: version.version,
    hashAlgorithm: "SHA-256",
    hash: version.digest,
  };
}

export async function ofVersion(tx: Tx, passportId: string, version: number): Promise<Registration | undefined> {
  const isIt = and(eq(registrations.passportId, passportId), eq(registrations.version, version));
  const row = await tx.db.select().from(registrations).where(isIt).get();
  return row && toWire(row);
}

export async function latestOf(tx: Tx, passportId: string): Promise<Registration | null> {
  const isIts = eq(registrations.passportId, passportId);
  const row = await tx.db.select().from(registrations).where(isIts).orderBy(desc(registrations.version)).limit(1).get();
  return row ? toWire(row) : null;
}

type Made = { version: number; registrationId: string; registry: string; digest: string };
/** What the registry answered is a fact, whatever became of the passport meanwhile; the first answer for a version stays. */
export async function record(tx: Tx, passportId: string, made: Made): Promise<Registration> {
  await tx.db
    .insert(registrations)
    .values({ ...made, passportId, at: tx.now })
    .onConflictDoNothing();
  const kept = await ofVersion(tx, passportId, made.version);
  if (!kept) throw new Error(`the registration of ${passportId} is gone`);
  return kept;
}
