// Passports: made from a ready product, edited as drafts, published version by version, suspended, archived; the table of commands decides.
import { and, eq, inArray, isNotNull, isNull, sql } from "../store/drizzle.ts";
import type { Caller } from "./callers.ts";
import { newIdIn } from "./ids.ts";
import { digestOf } from "#shared/canonical.ts";
import { Refusal } from "#shared/errors.ts";
import { type PassportCommand, passportCommands } from "#shared/states.ts";
import type { Passport, PassportListed, PassportQuery, PassportWhole } from "#shared/wire/passports.ts";
import type { Signing } from "../keys.ts";
import { issuedCredentials, passports, passportVersions } from "../store/schema.ts";
import { even, prepared } from "../store/prepared.ts";
import { db, overtaken, type Store, type Tx } from "../store/store.ts";
import * as carriers from "./carriers.ts";
import { claim } from "./gtin-claims.ts";
import { issue, revoke, revokedAtOf, wasRevoked } from "./issued-credentials.ts";
import type { By } from "./events.ts";
import { found } from "./found.ts";
import { instant } from "./instant.ts";
import { pageOf, pageReply } from "./page.ts";
import { type Content, contentOf, identified } from "./passport-content.ts";
import { refuseUnjudged } from "./product-rules.ts";
import * as products from "./products.ts";
import { latestOf } from "./registrations.ts";
import { lookedThrough } from "./stretches.ts";

export type Row = typeof passports.$inferSelect;
type Version = typeof passportVersions.$inferSelect;

/** The version that the public sees, beside its passport. */
export const isPublished = and(eq(passportVersions.passportId, passports.id), eq(passportVersions.version, passports.publishedVersion));

/** The version that counts: the published one where there is one, else the draft. */
export const currentOf = ({ publishedVersion, draftVersion }: Row): number | null => publishedVersion ?? draftVersion;

export const toWire = (row: Row): Passport => ({
  id: row.id,
  upi: row.id,
  uid: row.productId,
  status: row.state,
  version: currentOf(row),
  publishedVersion: row.publishedVersion,
  draftVersion: row.draftVersion,
  revokedAt: instant(row.revokedAt),
  createdAt: instant(row.createdAt),
  updatedAt: instant(row.updatedAt),
});

export async function find(tx: Tx, tenantId: string, id: string): Promise<Row> {
  const isIt = and(eq(passports.tenantId, tenantId), eq(passports.id, id));
  return found("passport", await tx.db.select().from(passports).where(isIt).get());
}

const isOfProduct = and(eq(passports.tenantId, sql.placeholder("tenantId")), eq(passports.productId, sql.placeholder("productId")));
const byProduct = prepared(db.select().from(passports).where(isOfProduct));
export const ofProduct = (_tx: Tx, tenantId: string, productId: string): Promise<Row | undefined> => byProduct.get({ tenantId, productId });

const isVersion = (id: string, version: number) => and(eq(passportVersions.passportId, id), eq(passportVersions.version, version));
export const versionOf = (tx: Tx, { id }: Row, version: number): Promise<Version | undefined> =>
  tx.db.select().from(passportVersions).where(isVersion(id, version)).get();

export async function currentVersion(tx: Tx, row: Row): Promise<Version | undefined> {
  const current = currentOf(row);
  return current === null ? undefined : versionOf(tx, row, current);
}

export async function get(tx: Tx, caller: Caller, id: string, asked?: number): Promise<PassportWhole> {
  const row = await find(tx, caller.tenantId, id);
  const version = asked === undefined ? await currentVersion(tx, row) : await versionOf(tx, row, asked);
  if (asked !== undefined && !version) throw new Refusal("NOT_FOUND", `the passport has no version ${asked}`);
  const { version: shown = null, content = null, digest = null, credential = null, credentialId = null } = version ?? {};
  const credentialRevokedAt = instant(await revokedAtOf(tx, credentialId));
  const whole = { content, digest, credential, credentialId, credentialRevokedAt, registration: await latestOf(tx, id) };
  return { ...toWire(row), version: shown, ...whole };
}

export async function list(store: Store, { tenantId }: Caller, { status, productId, ...query }: PassportQuery) {
  const page = pageOf(query);
  const { rows, limit } = await lookedThrough(store, "passports", page, {
    table: passports,
    key: passports.id,
    whole: and(eq(passports.tenantId, tenantId), productId === undefined ? undefined : eq(passports.productId, productId)), // it has one at most
    fits: status === undefined ? undefined : eq(passports.state, status),
  });
  const revoked = await store.read("passports", (tx) => revokedOf(tx, tenantId, rows));
  return pageReply(
    rows,
    limit,
    ({ id }) => id,
    (row): PassportListed => ({ ...toWire(row), credentialRevokedAt: instant(revoked.get(row.id) ?? null) }),
  );
}

/** Of those of which the version that counts was revoked, when that was. */
async function revokedOf(tx: Tx, tenantId: string, rows: readonly Row[]): Promise<Map<string, number | null>> {
  const isIts = and(
    eq(passportVersions.passportId, passports.id),
    eq(passportVersions.version, sql`COALESCE(${passports.publishedVersion}, ${passports.draftVersion})`),
  );
  const these = and(eq(passports.tenantId, tenantId), inArray(passports.id, even(rows.map(({ id }) => id))));
  const revoked = await tx.db
    .select({ id: passports.id, at: issuedCredentials.revokedAt })
    .from(passports)
    .innerJoin(passportVersions, isIts)
    .innerJoin(issuedCredentials, eq(issuedCredentials.id, passportVersions.credentialId))
    .where(and(these, isNotNull(issuedCredentials.revokedAt)));
  return new Map(revoked.map(({ id, at }) => [id, at]));
}

/** What there is to do about a passport that is there already. */
const INSTEAD: Record<Row["state"], string> = {
  generating: "it is being made",
  draft: "edit its draft, or delete it first",
  published: "revise it instead",
  suspended: "publish it again, then revise it",
  archived: "it was put away for good, and there is no other",
};

/** Counted on the product in the same commit, so that its guards see it. */
async function insert(tx: Tx, by: By, productId: string, state: Row["state"]): Promise<{ row: Row; product: products.Row }> {
  const product = await products.hold(tx, by.tenantId, productId);
  refuseUnjudged(product);
  if (product.stage !== "ready_for_dpp" || product.voidedAt !== null)
    throw new Refusal("PRODUCT_NOT_READY", `the product is ${product.voidedAt === null ? product.stage : "voided"}, not ready_for_dpp`);
  const row: Row = {
    tenantId: by.tenantId,
    id: newIdIn(tx),
    productId,
    state,
    draftVersion: null,
    publishedVersion: null,
    lastVersion: 0,
    revokedAt: null,
    actor: by.actor,
    requestId: by.requestId,
    leaseUntil: 0,
    revision: 1,
    createdAt: tx.now,
    updatedAt: tx.now,
  };
  const made = await tx.db.insert(passports).values(row).onConflictDoNothing().returning({ id: passports.id });
  if (made.length === 0) {
    const there = await ofProduct(tx, by.tenantId, productId);
    if (!there) throw overtaken(`passport of ${productId}`);
    throw new Refusal("PASSPORT_EXISTS", `the product has the passport ${there.id}: ${INSTEAD[there.state]}`, { id: there.id });
  }
  await products.count(tx, product, "passports", 1);
  return { row, product };
}

/** Taken now, made by a worker. */
export const request = async (tx: Tx, by: By, productId: string): Promise<Row> => (await insert(tx, by, productId, "generating")).row;

/** Made at once, with the content given or the product's own. */
export async function create(tx: Tx, by: By, productId: string, content: Content | undefined, signing: Signing): Promise<Passport> {
  const { row, product } = await insert(tx, by, productId, "draft");
  const origin = signing.origin();
  return toWire(await addVersion(tx, row, content ? identified(content, product, origin) : contentOf(product, origin), signing));
}

/** Writes the changes if nobody was faster. */
export async function change(tx: Tx, row: Row, changes: Partial<Row>): Promise<Row> {
  const [changed] = await tx.db
    .update(passports)
    .set({ ...changes, revision: row.revision + 1, updatedAt: tx.now })
    .where(and(eq(passports.tenantId, row.tenantId), eq(passports.id, row.id), eq(passports.revision, row.revision)))
    .returning();
  if (!changed) throw overtaken(`passport ${row.id}`);
  return changed;
}

/** A version's content with what vouches for it. */
async function signed(tx: Tx, passport: Row, version: number, content: Content, signing: Signing) {
  const { id: credentialId, jws: credential } = await issue(tx, { passport, version, content }, signing);
  return { content, digest: digestOf(content), credential, credentialId };
}

/** The next version, as the draft. */
export async function addVersion(tx: Tx, row: Row, content: Content, signing: Signing): Promise<Row> {
  const version = row.lastVersion + 1;
  const state = row.state === "generating" ? "draft" : row.state;
  const changed = await change(tx, row, { state, draftVersion: version, lastVersion: version, leaseUntil: 0 });
  const said = await signed(tx, row, version, content, signing);
  await tx.db.insert(passportVersions).values({ passportId: row.id, version, ...said, createdAt: tx.now, publishedAt: null });
  return changed;
}

export const rejected = ({ state }: Row, command: PassportCommand, message: string): Refusal =>
  new Refusal("GUARD_REJECTED", message, { state, command, from: passportCommands[command].from });

export const allows = ({ state }: Row, command: PassportCommand): boolean =>
  (passportCommands[command].from as readonly string[]).includes(state);

function guard(row: Row, command: PassportCommand): void {
  const { from, draft } = passportCommands[command];
  const isIts = allows(row, command);
  if (isIts && (!draft || row.draftVersion !== null)) return;
  const lacks = isIts ? "has no open draft: revise it first" : `is ${row.state}, and that takes ${from.join(" or ")}`;
  throw rejected(row, command, `${command} isn't possible: the passport ${lacks}`);
}

const revokeDraft = async (tx: Tx, row: Row): Promise<void> => {
  const draft = row.draftVersion === null ? undefined : await versionOf(tx, row, row.draftVersion);
  if (draft) await revoke(tx, row.tenantId, [draft.credentialId]);
};

/** Refuses where no content at all could be taken. */
export async function mayEdit(tx: Tx, tenantId: string, id: string): Promise<Row> {
  const row = await find(tx, tenantId, id);
  guard(row, "edit");
  return row;
}

export async function edit(tx: Tx, by: By, id: string, sent: Content, signing: Signing): Promise<Passport> {
  const row = await mayEdit(tx, by.tenantId, id);
  const content = identified(sent, await products.find(tx, by.tenantId, row.productId), signing.origin());
  const version = row.draftVersion as number;
  const edited = await change(tx, row, {}); // before its versions and credentials, as everybody does
  await revokeDraft(tx, row); // what it said is no longer what anybody stands for
  const said = await signed(tx, row, version, content, signing);
  await tx.db.update(passportVersions).set(said).where(isVersion(id, version));
  return toWire(edited);
}

export async function remove(tx: Tx, by: By, id: string): Promise<Row> {
  const row = await find(tx, by.tenantId, id);
  guard(row, "delete");
  const product = await products.hold(tx, by.tenantId, row.productId); // before its passport, as everybody does
  await revokeDraft(tx, await change(tx, row, {})); // whoever publishes it meanwhile was faster, or finds it gone
  await tx.db.delete(passportVersions).where(eq(passportVersions.passportId, id));
  await tx.db.delete(passports).where(and(eq(passports.tenantId, by.tenantId), eq(passports.id, id)));
  await products.count(tx, product, "passports", -1);
  return row;
}

/** Opens the next draft from the product as it is now; the published version stays public. */
export async function revise(tx: Tx, by: By, id: string, signing: Signing): Promise<Passport> {
  const row = await find(tx, by.tenantId, id);
  guard(row, "revise");
  if (row.draftVersion !== null) throw rejected(row, "revise", `draft ${row.draftVersion} is open already`);
  const product = await products.find(tx, by.tenantId, row.productId);
  return toWire(await addVersion(tx, row, contentOf(product, signing.origin()), signing));
}

export async function move(tx: Tx, by: By, id: string, command: "suspend" | "archive"): Promise<Passport> {
  const row = await find(tx, by.tenantId, id);
  guard(row, command);
  return toWire(await change(tx, row, { state: command === "suspend" ? "suspended" : "archived" }));
}

/** An item whose serial was allocated for a label of its model, and voided there. */
async function isBuried(tx: Tx, { tenantId, gtin, granularity, serialNumber }: products.Row): Promise<boolean> {
  const carrier = granularity === "item" ? await carriers.find(tx, tenantId, serialNumber) : undefined;
  return carrier?.gtin === gtin && carrier.voidedAt !== null;
}

/** The draft becomes what the public sees, or what was suspended is seen again; the product tells of it. */
export async function publish(tx: Tx, by: By, productId: string): Promise<Passport> {
  const product = await products.hold(tx, by.tenantId, productId);
  const row = await ofProduct(tx, by.tenantId, productId);
  if (!row || row.state === "generating" || product.voidedAt !== null)
    throw new Refusal(
      "PASSPORT_NOT_PUBLISHABLE",
      row ? `the passport is ${product.voidedAt === null ? row.state : "voided"}` : "the product has no passport",
    );
  guard(row, row.state === "suspended" && row.draftVersion === null ? "reinstate" : "publish");
  if (await isBuried(tx, product)) throw new Refusal("PASSPORT_NOT_PUBLISHABLE", `the serial ${product.serialNumber} was voided`);
  await claim(tx, product);
  const version = (row.draftVersion ?? row.publishedVersion) as number;
  const published = await change(tx, row, { state: "published", publishedVersion: version, draftVersion: null });
  const isUnpublished = and(isVersion(row.id, version), isNull(passportVersions.publishedAt));
  await tx.db.update(passportVersions).set({ publishedAt: tx.now }).where(isUnpublished);
  await products.tellPublished(tx, by, product, { passportId: row.id, passportVersion: version });
  return toWire(published);
}

/** What a registry may be told of: the version that is public now. */
export async function registrable(tx: Tx, tenantId: string, id: string) {
  const row = await find(tx, tenantId, id);
  const product = await products.find(tx, tenantId, row.productId);
  const version = row.publishedVersion === null ? undefined : await versionOf(tx, row, row.publishedVersion);
  const state = product.voidedAt === null ? row.state : "voided";
  if (state !== "published" || !version)
    throw new Refusal("PASSPORT_NOT_PUBLISHABLE", `the passport is ${state}, and only a published one is broadcast`);
  if (await wasRevoked(tx, version.credentialId))
    throw new Refusal("PASSPORT_NOT_PUBLISHABLE", "the credential of the published version was revoked");
  return { row, product, version };
}
