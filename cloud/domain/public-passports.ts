// What anybody may see of a passport: its published version with what vouches for it, or the reason why there is nothing to see.
import { and, desc, eq, sql } from "../store/drizzle.ts";
import { serialFault } from "#shared/gs1.ts";
import { Refusal } from "#shared/errors.ts";
import { prepared, unseen } from "../store/prepared.ts";
import { issuedCredentials, passports, passportVersions, products, serials, tenants, validations } from "../store/schema.ts";
import { db } from "../store/store.ts";
import { unknown, voided } from "./resolver.ts";

const { placeholder } = sql;
const byUid = prepared(
  db
    .select({
      tenantId: passports.tenantId,
      passportId: passports.id,
      state: passports.state,
      publishedVersion: passports.publishedVersion,
      updatedAt: passports.updatedAt,
      gtin: products.gtin,
      granularity: products.granularity,
      serialNumber: products.serialNumber,
      voidedAt: products.voidedAt,
      issuer: tenants.name,
    })
    .from(passports)
    .innerJoin(products, and(eq(products.tenantId, passports.tenantId), eq(products.id, passports.productId)))
    .innerJoin(tenants, eq(tenants.id, passports.tenantId))
    .where(eq(passports.productId, unseen("uid"))),
);
const { content, digest, credential, publishedAt } = passportVersions;
const itsVersion = prepared(
  db
    .select({ content, digest, credential, publishedAt, revokedAt: issuedCredentials.revokedAt })
    .from(passportVersions)
    .leftJoin(issuedCredentials, eq(issuedCredentials.id, passportVersions.credentialId))
    .where(and(eq(passportVersions.passportId, placeholder("passportId")), eq(passportVersions.version, placeholder("version")))),
);
const lastAnchored = prepared(
  db
    .select({ at: validations.at, anchor: validations.anchor })
    .from(validations)
    .where(
      and(
        eq(validations.passportId, placeholder("passportId")),
        eq(validations.version, placeholder("version")),
        eq(validations.digest, placeholder("digest")),
      ),
    )
    .orderBy(desc(validations.id))
    .limit(1),
);
const allocated = prepared(
  db
    .select()
    .from(serials)
    .where(
      and(
        eq(serials.tenantId, placeholder("tenantId")),
        eq(serials.serial, placeholder("serial")),
        eq(serials.productId, placeholder("uid")),
      ),
    ),
);

export type PublicPassport = {
  uid: string;
  gtin: string;
  serial: string | undefined;
  lot: string | undefined;
  /** Whom the passport is of. */
  issuer: string;
  version: number;
  digest: string;
  content: Record<string, unknown>;
  credential: string;
  publishedAt: number | null;
  anchored: { at: number; anchor: string } | undefined;
  /** When the label of this serial was reported as printed and checked. */
  sealedAt: number | undefined;
  revokedAt: number | null;
};

/** Of the product as a whole, or of one serial of it. */
export async function open(uid: string, asked: string | undefined, host: string): Promise<PublicPassport> {
  const fault = asked === undefined ? undefined : serialFault(asked);
  if (fault) throw new Refusal("INVALID_SERIAL", `the serial ${fault}`);
  const row = await byUid.get({ uid });
  if (row && row.voidedAt !== null) throw voided();
  if (!row || row.publishedVersion === null) throw new Refusal("NOT_FOUND", "there is no public passport at this address");
  const { tenantId, passportId, publishedVersion, state, gtin, granularity, serialNumber, issuer } = row;
  const serial = asked ?? (granularity === "item" ? serialNumber : undefined);
  const carrier = serial === undefined ? undefined : await allocated.get({ tenantId, serial, uid });
  if (carrier && carrier.voidedAt !== null) throw voided();
  if (serial !== undefined && !carrier && (granularity === "batch" || serial !== serialNumber)) throw unknown({ gtin, serial }, host);
  if (state !== "published") throw new Refusal("PASSPORT_WITHDRAWN");
  const version = await itsVersion.get({ passportId, version: publishedVersion });
  if (!version) throw new Error(`passport ${passportId} has lost its version ${publishedVersion}`);
  return {
    ...version,
    uid,
    gtin,
    serial,
    lot: granularity === "batch" ? serialNumber : undefined,
    issuer,
    version: publishedVersion,
    anchored: await lastAnchored.get({ passportId, version: publishedVersion, digest: version.digest }),
    sealedAt: carrier?.printStatus === "printed" ? (carrier.printReportedAt ?? undefined) : undefined,
  };
}

/** The signed document itself, as JSON-LD: what the credential's payload says, to the letter. */
export const documentOf = ({ credential }: PublicPassport): string =>
  Buffer.from(credential.split(".")[1] ?? "", "base64url").toString("utf8");
