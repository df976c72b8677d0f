// The validation chain: the current version, signed and anchored in the transparency log. From it follows whether carriers may be printed.
import { and, asc, desc, eq, gt, isNull } from "../store/drizzle.ts";
import type { Caller } from "./callers.ts";
import { newIdIn } from "./ids.ts";
import { API } from "#shared/api.ts";
import { canonical } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import type { Validations } from "#shared/wire/passports.ts";
import type { PassportBundle, Receipt } from "#shared/wire/trust.ts";
import type { Anchor } from "../adapters/anchor.ts";
import type { Signing } from "../keys.ts";
import { prepared, unseen } from "../store/prepared.ts";
import { issuedCredentials, passports as passportsTable, passportVersions, validations } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import { instant } from "./instant.ts";
import { statusListFor } from "./issued-credentials.ts";
import * as events from "./events.ts";
import * as log from "./log.ts";
import { type PageQuery, wholeOf, wholeReply } from "./page.ts";
import * as passports from "./passports.ts";

type Row = typeof validations.$inferSelect;
export type Anchoring = Signing & { anchor: "log" | "off" | Anchor };
/** What was told to an anchoring service, and what it answered. */
export type Anchored = { version: number; digest: string; receipt: Receipt };
const ALGORITHM = "EdDSA";

const toWire = ({ id, at, digest, algorithm, anchor }: Row) => ({
  eventId: id,
  occurredAt: instant(at),
  digest,
  signatureAlgorithm: algorithm,
  jrcAnchor: anchor,
});

/** Its passport is published, neither it nor its credential is revoked, and an anchored validation covers that version as it is: a draft changed since says something else. */
const ready = prepared(
  db
    .select({ passportId: passportsTable.id })
    .from(passportsTable)
    .innerJoin(passportVersions, passports.isPublished)
    .innerJoin(
      validations,
      and(
        eq(validations.passportId, passportVersions.passportId),
        eq(validations.version, passportVersions.version),
        eq(validations.digest, passportVersions.digest),
      ),
    )
    .leftJoin(issuedCredentials, eq(issuedCredentials.id, passportVersions.credentialId))
    .where(
      and(
        eq(passportsTable.tenantId, unseen("tenantId")),
        eq(passportsTable.productId, unseen("productId")),
        eq(passportsTable.state, "published"),
        isNull(passportsTable.revokedAt),
        isNull(issuedCredentials.revokedAt),
      ),
    ),
);
/** May labels of this product be printed? In one look, as every label asks. */
export const isPrintable = async (_tx: Tx, tenantId: string, productId: string): Promise<boolean> =>
  (await ready.get({ tenantId, productId })) !== undefined;

/** In the order they were made, a page at a time; whether labels may be printed is said with each of them. */
export async function list(tx: Tx, caller: Caller, id: string, query: PageQuery): Promise<Validations> {
  const row = await passports.find(tx, caller.tenantId, id);
  const { limit, most, after } = wholeOf(query);
  const isIts = and(eq(validations.passportId, id), after === undefined ? undefined : gt(validations.id, after));
  const rows = await tx.db.select().from(validations).where(isIts).orderBy(asc(validations.id)).limit(most);
  const { data, ...more } = wholeReply(rows, limit, (one) => one.id, toWire);
  return { upi: id, validations: data, readyToPrint: await isPrintable(tx, caller.tenantId, row.productId), ...more };
}

/** The version that a validation is of. */
export async function subjectOf(tx: Tx, tenantId: string, id: string) {
  const row = await passports.find(tx, tenantId, id);
  const version = await passports.currentVersion(tx, row);
  if (!version || !passports.allows(row, "validate"))
    throw passports.rejected(row, "validate", `there is nothing to validate: the passport is ${row.state}`);
  return { row, version };
}

export async function validate(tx: Tx, by: events.By, id: string, { anchor: where, keys, origin }: Anchoring, anchored?: Anchored) {
  if (where === "off") {
    await passports.find(tx, by.tenantId, id);
    throw new Refusal("ANCHORING_UNAVAILABLE");
  }
  const { row, version } = await subjectOf(tx, by.tenantId, id);
  const { digest } = version;
  if (anchored && (anchored.digest !== digest || anchored.version !== version.version))
    throw new Refusal("PASSPORT_CHANGED", "the passport changed while its version was being anchored: look at it and ask again");
  const { index } = await log.append(tx, { kind: "passport", digest }); // with an outside service too: proofs stay ours to give
  const made: Row = {
    passportId: id,
    version: version.version,
    id: newIdIn(tx),
    at: tx.now,
    digest,
    algorithm: ALGORITHM,
    signature: keys.signBytes(Buffer.from(canonical(version.content))).toString("base64url"),
    anchor: anchored?.receipt.anchor ?? `${origin()}${API}/log#${index}`,
    receipt: anchored?.receipt ?? null,
  };
  await tx.db.insert(validations).values(made);
  const changed = await passports.change(tx, row, {});
  await events.record(tx, by, {
    subject: id,
    seq: changed.revision,
    type: "passport.anchored",
    data: { passportId: id, productId: row.productId, version: made.version, digest, anchor: made.anchor },
  });
  const entry = toWire(made);
  return { ...entry, readyToPrint: await isPrintable(tx, by.tenantId, row.productId), data: entry };
}

/** All that `imprimatur verify` needs to judge the current version without us. */
export async function bundle(tx: Tx, caller: Caller, id: string, signing: Signing): Promise<Omit<PassportBundle, "didDocument">> {
  const row = await passports.find(tx, caller.tenantId, id);
  const version = await passports.currentVersion(tx, row);
  const isIts =
    version && and(eq(validations.passportId, id), eq(validations.version, version.version), eq(validations.digest, version.digest));
  const latest = version && (await tx.db.select().from(validations).where(isIts).orderBy(desc(validations.id)).limit(1).get());
  if (!version || !latest) throw new Refusal("NOT_FOUND", "the current version has no validation yet: POST /passports/{id}/validations");
  return {
    credential: version.credential,
    proof: await log.prove(tx, version.digest, signing),
    receipt: latest.receipt,
    statusList: await statusListFor(tx, version.credentialId, signing),
  };
}
