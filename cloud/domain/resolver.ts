// The resolver's question: which public passport speaks for this GTIN, lot or serial? A known label takes one statement to answer.
import { and, eq, isNotNull, or, sql } from "../store/drizzle.ts";
import type { LinkKey } from "#shared/digital-link.ts";
import { Refusal } from "#shared/errors.ts";
import { prepared, unseen } from "../store/prepared.ts";
import { claims, passports, passportVersions, products, serials } from "../store/schema.ts";
import { db, together, type Tx } from "../store/store.ts";
import { ownersOf } from "./gtin-claims.ts";
import { isPublished } from "./passports.ts";

/** A key of which something is said in public, and the product that says it. */
type Level = { key: LinkKey; productId: string };
/** From what was asked for up to the GTIN; the first is what a redirect goes to. */
export type Resolution = { tenantId: string; at: number; levels: [Level, ...Level[]] };

const target = {
  tenantId: products.tenantId,
  productId: products.id,
  granularity: products.granularity,
  serialNumber: products.serialNumber,
  voidedAt: products.voidedAt,
  state: passports.state,
};
const itsPassport = and(eq(passports.tenantId, products.tenantId), eq(passports.productId, products.id));
const { placeholder } = sql;
const isOfKey = and(eq(serials.serial, placeholder("serial")), eq(serials.gtin, placeholder("gtin")));

/** Who publishes the GTIN as a whole, and who this one thing of it; beside each, the serial as its tenant allocated it. */
const published = prepared(
  db
    .select({ ...target, allocatedTo: serials.productId, serialVoidedAt: serials.voidedAt })
    .from(claims)
    .innerJoin(products, and(eq(products.tenantId, claims.tenantId), eq(products.id, claims.productId)))
    .innerJoin(passports, itsPassport)
    .leftJoin(serials, and(eq(serials.tenantId, claims.tenantId), eq(serials.serial, unseen("serial")), eq(serials.gtin, unseen("gtin"))))
    .where(or(eq(claims.identity, unseen("gtin")), eq(claims.identity, unseen("thing")))),
);
const isProduct = and(eq(products.tenantId, unseen("tenantId")), eq(products.id, unseen("productId")));
const ofProduct = prepared(db.select(target).from(products).leftJoin(passports, itsPassport).where(isProduct));
const isOfTenant = and(eq(serials.tenantId, placeholder("tenantId")), isOfKey);
const allocated = prepared(db.select({ productId: serials.productId, voidedAt: serials.voidedAt }).from(serials).where(isOfTenant));
const isVoidedSerial = and(isOfKey, isNotNull(serials.voidedAt));
const voidedSerials = prepared(db.select({ tenantId: serials.tenantId }).from(serials).where(isVoidedSerial));
const voidedProducts = prepared(
  db
    .select({ tenantId: products.tenantId, granularity: products.granularity })
    .from(products)
    .where(and(eq(products.gtin, placeholder("gtin")), eq(products.serialNumber, placeholder("serial")), isNotNull(products.voidedAt))),
);
const isOfVoided = and(eq(serials.tenantId, products.tenantId), eq(serials.serial, unseen("serial")), eq(serials.productId, products.id));
const labelsOfVoided = prepared(
  db
    .select({ tenantId: products.tenantId })
    .from(products)
    .innerJoin(serials, isOfVoided)
    .where(and(eq(products.gtin, placeholder("gtin")), isNotNull(products.voidedAt)))
    .limit(1),
);

type Target = NonNullable<Awaited<ReturnType<typeof ofProduct.get>>>;
const PUBLIC: ReadonlySet<Target["state"] | null> = new Set(["published", "suspended", "archived"]); // the page says which

export const voided = () => new Refusal("SERIAL_VOIDED");
type Named = Pick<LinkKey, "gtin" | "serial">;
const nameOf = ({ gtin, serial }: Named) => (serial === undefined ? gtin : `${gtin}, serial ${serial}`);
const shown = ({ gtin, serial }: Named, host: string) => ({ gtin, serial: serial ?? null, host });
export const unknown = (key: Named, host: string) =>
  new Refusal("PRODUCT_NOT_FOUND", `nothing public is known here of ${nameOf(key)}`, shown(key, host));
export const noLink = (key: Named, host: string, linkType: string | undefined, available: readonly string[]) =>
  new Refusal("PRODUCT_NOT_FOUND", `${nameOf(key)} has no link of the type ${linkType}; there are ${available.join(", ")}`, {
    ...shown(key, host),
    linkType,
    available,
  });

const isPublic = (target: Target | undefined): target is Target => target !== undefined && PUBLIC.has(target.state);

export async function resolve(tx: Tx, key: LinkKey, host: string): Promise<Resolution> {
  const { gtin, lot, serial } = key;
  const [kind, id] = serial === undefined ? (["batch", lot] as const) : (["item", serial] as const);
  const rows = await published.all({ gtin, thing: id === undefined ? gtin : `${gtin}/${id}`, serial: serial ?? "" });
  const model = rows.find(({ granularity }) => granularity === "model");
  const own = id === undefined ? undefined : rows.find(({ granularity }) => granularity === kind);
  const carrier = rows.find(({ allocatedTo }) => allocatedTo !== null);
  if (typeof carrier?.serialVoidedAt === "number") throw voided();

  // A lot that nobody speaks of is answered for by its GTIN; a serial that nobody made isn't: it may be a forgery.
  const found = own ?? (serial === undefined ? model : await ofSerial(gtin, serial, model, carrier));
  if (found === model && lot !== undefined && serial === undefined && (await isLotBuried(gtin, lot, model))) throw voided();
  if (typeof found?.voidedAt === "number") throw voided(); // whether or not it was ever published
  if (!isPublic(found)) throw unknown(key, host);
  const thing: LinkKey = { gtin, ...(serial !== undefined ? { serial } : own && lot !== undefined ? { lot } : {}) };
  const whole = found === own || serial !== undefined ? model : undefined;
  const above: Level[] = isPublic(whole) && whole.voidedAt === null ? [levelOf({ gtin }, whole)] : [];
  if (serial !== undefined && lot !== undefined) above.unshift(...(await levelsOfLot(gtin, lot, found)));
  return { tenantId: found.tenantId, at: tx.now, levels: [levelOf(thing, found), ...above] };
}

/** What stands between a serial and its GTIN where the link names a lot too, and the serial is of no other. */
async function levelsOfLot(gtin: string, lot: string, { tenantId, granularity, productId }: Target): Promise<Level[]> {
  const rows = await published.all({ gtin, thing: `${gtin}/${lot}`, serial: "" });
  const mayBeItsOwn = (row: Target) => row.tenantId === tenantId && (granularity !== "batch" || row.productId === productId);
  const itsOwn = rows.filter((row) => row.granularity === "batch" && mayBeItsOwn(row) && row.voidedAt === null && isPublic(row));
  return itsOwn.map((row) => levelOf({ gtin, lot }, row));
}
const levelOf = (key: LinkKey, { productId }: Target): Level => ({ key, productId });

const publishedContent = prepared(
  db
    .select({ content: passportVersions.content })
    .from(passports)
    .innerJoin(passportVersions, isPublished)
    .where(
      and(
        eq(passports.tenantId, placeholder("tenantId")),
        eq(passports.productId, placeholder("productId")),
        eq(passports.state, "published"), // what was taken from the public isn't told here either
      ),
    ),
);
/** What each of them is called in its published passport: a name that was changed since is nobody's business yet. */
export async function namesIn(_tx: Tx, { tenantId, levels }: Resolution): Promise<ReadonlyMap<string, string>> {
  const named = levels.map(async ({ productId }) => {
    const product = (await publishedContent.get({ tenantId, productId }))?.content["product"] as { name?: string } | undefined;
    return [productId, product?.name ?? ""] as const;
  });
  return new Map(await together(named));
}

type Published = Awaited<ReturnType<typeof published.all>>[number];

async function ofSerial(gtin: string, serial: string, model?: Published, carrier?: Published): Promise<Target | undefined> {
  if (carrier?.allocatedTo) {
    const { tenantId, productId, allocatedTo } = carrier;
    return allocatedTo === productId ? carrier : ofProduct.get({ tenantId, productId: allocatedTo });
  }
  if (model?.serialNumber !== serial) return ofOwners(gtin, serial);
  if (await isBuried(gtin, serial, [model.tenantId])) throw voided(); // an item of the same number
  return model;
}

/** A serial of a GTIN that nobody publishes as a whole: allocated by one of those who publish lots of it, or a tombstone. */
async function ofOwners(gtin: string, serial: string): Promise<Target | undefined> {
  const owners: string[] = [];
  for await (const tenantId of ownersOf(gtin)) {
    owners.push(tenantId);
    const known = await allocated.get({ tenantId, gtin, serial });
    if (known && known.voidedAt !== null) throw voided();
    if (known) return ofProduct.get({ tenantId, productId: known.productId });
  }
  if (await isBuried(gtin, serial, owners)) throw voided();
  return undefined;
}

/** A lot that was voided before it was ever published: its GTIN doesn't answer for it. */
async function isLotBuried(gtin: string, lot: string, model?: Published): Promise<boolean> {
  const graves = (await voidedProducts.all({ gtin, serial: lot })).filter(({ granularity }) => granularity === "batch");
  if (graves.length === 0) return false;
  const owners = model ? [model.tenantId] : await Array.fromAsync(ownersOf(gtin));
  return isOfOwners(graves, owners);
}

/** Voided before it was ever published; only who publishes the GTIN may say so, unless nobody does. */
async function isBuried(gtin: string, serial: string, owners: readonly string[]): Promise<boolean> {
  const things = (await voidedProducts.all({ gtin, serial })).filter(({ granularity }) => granularity !== "batch");
  if (isOfOwners([...things, ...(await voidedSerials.all({ gtin, serial }))], owners)) return true;
  return owners.length === 0 && (await labelsOfVoided.get({ gtin, serial })) !== undefined; // else the owners' labels were looked through
}
const isOfOwners = (graves: readonly { tenantId: string }[], owners: readonly string[]): boolean =>
  graves.some(({ tenantId }) => owners.length === 0 || owners.includes(tenantId));
