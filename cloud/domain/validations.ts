// The validation chain: the current version, signed and anchored in the transparency log. From it follows whether carriers may be printed.
import { and, asc, eq } from "../store/drizzle.ts";
import { newId } from "./ids.ts";
import { canonical } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import type { Validations } from "#shared/wire/passports.ts";
import type { Signing } from "../keys.ts";
import type { Caller } from "../route.ts";
import { validations } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import * as events from "./events.ts";
import * as log from "./log.ts";
import * as passports from "./passports.ts";

type Row = typeof validations.$inferSelect;
export type Anchoring = Signing & { anchor: string | undefined };
const ALGORITHM = "EdDSA";

const toWire = ({ id, at, digest, algorithm, anchor }: Row) => ({
  eventId: id,
  occurredAt: new Date(at).toISOString(),
  digest,
  signatureAlgorithm: algorithm,
  jrcAnchor: anchor,
});

/** Published now, and an anchored validation covers the version that is published. */
async function isReady(tx: Tx, row: passports.Row): Promise<boolean> {
  if (row.state !== "published" || row.publishedVersion === null || row.revokedAt !== null) return false;
  const covering = await tx.db
    .select({ id: validations.id })
    .from(validations)
    .where(and(eq(validations.passportId, row.id), eq(validations.version, row.publishedVersion)))
    .limit(1);
  return covering.length > 0;
}

/** May labels of this product be printed? */
export async function isPrintable(tx: Tx, tenantId: string, productId: string): Promise<boolean> {
  const row = await passports.ofProduct(tx, tenantId, productId);
  return row !== undefined && isReady(tx, row);
}

export async function list(tx: Tx, caller: Caller, id: string): Promise<Validations> {
  const row = await passports.find(tx, caller.tenantId, id);
  const rows = await tx.db.select().from(validations).where(eq(validations.passportId, id)).orderBy(asc(validations.id));
  return { upi: id, validations: rows.map(toWire), readyToPrint: await isReady(tx, row) };
}

export async function validate(tx: Tx, by: events.By, id: string, { anchor: where, keys, origin }: Anchoring) {
  const row = await passports.find(tx, by.tenantId, id);
  if (where !== "log") throw new Refusal("ANCHORING_UNAVAILABLE");
  const current = row.publishedVersion ?? row.draftVersion;
  const version = current === null ? undefined : await passports.versionOf(tx, row, current);
  if (!version || row.state === "archived")
    throw new Refusal("GUARD_REJECTED", `there is nothing to validate: the passport is ${row.state}`, {
      state: row.state,
      command: "validate",
    });
  const { digest } = version;
  const { index } = await log.append(tx, { kind: "passport", digest });
  const made: Row = {
    passportId: id,
    version: version.version,
    id: newId(),
    at: tx.now,
    digest,
    algorithm: ALGORITHM,
    signature: keys.signBytes(Buffer.from(canonical(version.content))).toString("base64url"),
    anchor: `${origin()}/api/v2/log#${index}`,
  };
  await tx.db.insert(validations).values(made);
  const changed = await passports.change(tx, row, {});
  await events.record(tx, by, {
    subject: id,
    seq: changed.revision,
    type: "passport.anchored",
    data: { passportId: id, productId: row.productId, version: made.version, digest, anchor: made.anchor },
  });
  return { data: toWire(made), readyToPrint: await isReady(tx, changed) };
}
