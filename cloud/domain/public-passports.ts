// What anybody may see of a passport: its published version with what vouches for it, or the reason why there is nothing to see.
import { and, desc, eq, isNotNull, sql } from "../store/drizzle.ts";
import { serialFault } from "#shared/gs1.ts";
import { Refusal } from "#shared/errors.ts";
import { prepared, unseen } from "../store/prepared.ts";
import { events, issuedCredentials, passports, passportVersions, printJobs, products, serials, validations } from "../store/schema.ts";
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
    })
    .from(passports)
    .innerJoin(products, and(eq(products.tenantId, passports.tenantId), eq(products.id, passports.productId)))
    .where(eq(passports.productId, unseen("uid"))),
);
/** A product that was voided before it had a passport. Its first event, found by the product's id alone, says whose it is. */
const buried = prepared(
  db
    .select({ at: products.voidedAt })
    .from(events)
    .innerJoin(products, and(eq(products.tenantId, events.tenantId), eq(products.id, events.subject), isNotNull(products.voidedAt)))
    .where(and(eq(events.subject, unseen("uid")), eq(events.seq, 1))),
);
const { digest, credential, publishedAt } = passportVersions;
const itsVersion = prepared(
  db
    .select({ digest, credential, publishedAt, revokedAt: issuedCredentials.revokedAt })
    .from(passportVersions)
    .leftJoin(issuedCredentials, eq(issuedCredentials.id, passportVersions.credentialId))
    .where(and(eq(passportVersions.passportId, placeholder("passportId")), eq(passportVersions.version, placeholder("version")))),
);
const isOfVersion = and(
  eq(validations.passportId, placeholder("passportId")),
  eq(validations.version, placeholder("version")),
  eq(validations.digest, placeholder("digest")),
);
const lastAnchored = prepared(
  db.select({ at: validations.at, anchor: validations.anchor }).from(validations).where(isOfVersion).orderBy(desc(validations.id)).limit(1),
);
/** The serial as its tenant allocated it, for this product or for the model of which it is one item, and the job that sealed its label. */
const allocated = prepared(
  db
    .select({
      productId: serials.productId,
      voidedAt: serials.voidedAt,
      printStatus: serials.printStatus,
      sealedAt: printJobs.updatedAt,
      simulated: printJobs.simulated,
    })
    .from(serials)
    .leftJoin(printJobs, and(eq(printJobs.tenantId, serials.tenantId), eq(printJobs.jobRef, serials.sealedJob)))
    .where(and(eq(serials.tenantId, unseen("tenantId")), eq(serials.serial, unseen("serial")), eq(serials.gtin, unseen("gtin")))),
);

export type PublicPassport = {
  uid: string;
  gtin: string;
  serial: string | undefined;
  lot: string | undefined;
  /** Who signed it, by the name that they signed with. */
  issuer: string;
  version: number;
  digest: string;
  content: Record<string, unknown>;
  credential: string;
  publishedAt: number | null;
  anchored: { at: number; anchor: string } | undefined;
  /** When the label of this serial was sealed; a mere report that it was printed is no evidence, and neither is a simulation. */
  sealedAt: number | undefined;
  revokedAt: number | null;
};

export const absent = () => new Refusal("NOT_FOUND", "there is no public passport at this address");

/** Of the product as a whole, or of one serial of it. */
export async function open(uid: string, asked: string | undefined, host: string): Promise<PublicPassport> {
  const fault = asked === undefined ? undefined : serialFault(asked);
  if (fault) throw new Refusal("INVALID_SERIAL", `the serial ${fault}`);
  const row = await byUid.get({ uid });
  if (row ? row.voidedAt !== null : await buried.get({ uid })) throw voided();
  if (!row || row.publishedVersion === null) throw absent();
  const { tenantId, passportId, publishedVersion, state, gtin, granularity, serialNumber } = row;
  const serial = asked ?? (granularity === "item" ? serialNumber : undefined);
  const carrier = serial === undefined ? undefined : await allocated.get({ tenantId, serial, gtin });
  if (carrier && carrier.voidedAt !== null) throw voided();
  if (serial !== undefined && carrier?.productId !== uid && (granularity === "batch" || serial !== serialNumber))
    throw unknown({ gtin, serial }, host);
  if (state !== "published") throw new Refusal("PASSPORT_WITHDRAWN");
  const version = await itsVersion.get({ passportId, version: publishedVersion });
  if (!version) throw new Error(`passport ${passportId} has lost its version ${publishedVersion}`);
  const { issuer, credentialSubject } = JSON.parse(documentOf(version)) as Document;
  return {
    ...version,
    content: credentialSubject, // what was signed: a page says nothing else
    uid,
    gtin,
    serial,
    lot: granularity === "batch" ? serialNumber : undefined,
    issuer: issuer.name,
    version: publishedVersion,
    anchored: await lastAnchored.get({ passportId, version: publishedVersion, digest: version.digest }),
    sealedAt: carrier?.printStatus === "printed" && carrier.simulated === false ? (carrier.sealedAt ?? undefined) : undefined,
  };
}

/** The signed document itself, as JSON-LD: what the credential's payload says, to the letter. */
export const documentOf = ({ credential }: Pick<PublicPassport, "credential">): string =>
  Buffer.from(credential.split(".")[1] ?? "", "base64url").toString("utf8");
type Document = { issuer: { name: string }; credentialSubject: PublicPassport["content"] };
