// Passports as EN 18222 reads them: found by their own id or by their product's Digital Link, in EN 18223's envelope, over all tenants.
import { setImmediate as turn } from "node:timers/promises";
import { and, asc, eq, gt, inArray, isNotNull } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import type { Granularity } from "#shared/states.ts";
import type { Dpp, DppElement } from "#shared/wire/dpps.ts";
import { even } from "../store/prepared.ts";
import { claims, issuedCredentials, passports, passportVersions, products } from "../store/schema.ts";
import { type Store, together, type Tx } from "../store/store.ts";
import { linkedBy } from "./epc.ts";
import { instant } from "./instant.ts";
import { UNTP_DPP } from "./issued-credentials.ts";
import { pageOf, type PageQuery, UUID, wholeReply } from "./page.ts";
import { type Content, linkOf } from "./passport-content.ts";
import { isPublished } from "./passports.ts";
import { uriOf } from "./registrations.ts";
import { resolve } from "./resolver.ts";

export type Form = { representation?: "compressed" | "full" };
const absent = () => new Refusal("NOT_FOUND", "there is no published passport of this id");

/** What was never published isn't there; what once was says what became of it. */
async function find(tx: Tx, where: ReturnType<typeof eq>) {
  const found = await tx.db
    .select()
    .from(passports)
    .innerJoin(products, and(eq(products.tenantId, passports.tenantId), eq(products.id, passports.productId)))
    .innerJoin(passportVersions, isPublished)
    .leftJoin(issuedCredentials, eq(issuedCredentials.id, passportVersions.credentialId))
    .where(where)
    .get();
  if (!found) throw absent();
  return found;
}

/** `urn:uuid:…`, as it is shown, or the id in it. */
export async function byId(tx: Tx, dppId: string, form: Form, origin: string): Promise<Read> {
  return envelope(await find(tx, eq(passports.id, dppId.replace(/^urn:uuid:/, ""))), form, origin);
}

export async function byProduct(tx: Tx, name: string, form: Form, origin: string): Promise<Read> {
  const productId = (await productsOf(tx, [name]))[0] ?? (await ofLabel(tx, name, origin));
  if (productId === undefined) throw absent();
  return envelope(await find(tx, eq(passports.productId, productId)), form, origin);
}

/** Names that are looked up in one unit: a store in our own process keeps everybody waiting meanwhile, and a server has others to look them up. */
const [OWN_NAMES, SERVER_NAMES] = [50, 1_000];

async function namedIn(store: Store, names: readonly string[], origin: string): Promise<string[]> {
  const found = new Set<string>();
  const most = store.sole ? OWN_NAMES : SERVER_NAMES;
  for (let from = 0; from < names.length; from += most) {
    if (from > 0) await turn();
    const some = names.slice(from, from + most);
    const ids = await store.read("dpps", async (tx) => [
      ...(await productsOf(tx, some)),
      ...(await together(some.map((name) => ofLabel(tx, name, origin).catch(nothingVoided)))),
    ]);
    for (const id of ids) if (id !== undefined) found.add(id);
  }
  return [...found];
}

/** In the order of the passports' ids, which never changes: a page goes on where the last one ended, whatever was published meanwhile. */
export async function idsOf(store: Store, names: readonly string[], query: PageQuery, origin: string) {
  const { limit, most, after } = pageOf(query);
  const productIds = await namedIn(store, names, origin);
  const isIts = and(
    inArray(passports.productId, even(productIds)),
    isNotNull(passports.publishedVersion),
    after === undefined ? undefined : gt(passports.id, after),
  );
  const rows = await store.read("dpps", ({ db }) =>
    db.select({ id: passports.id }).from(passports).where(isIts).orderBy(asc(passports.id)).limit(most),
  );
  const { data, ...more } = wholeReply(
    rows,
    limit,
    ({ id }) => id,
    ({ id }) => uriOf(id),
  );
  return { dppIds: data, ...more };
}

/** Of many, a label that was voided finds no passport, and stands in no other's way. */
function nothingVoided(error: unknown): undefined {
  if (!(error instanceof Refusal && error.code === "SERIAL_VOIDED")) throw error;
}

type Named = { identity: string; granularity: Granularity };
function namedBy(link: string): Named | undefined {
  const key = linkedBy(link);
  if (key === undefined) return undefined;
  const { gtin, cpv, lot, serial } = key;
  if (serial !== undefined) return { identity: `${gtin}/${serial}`, granularity: "item" };
  if (lot !== undefined) return { identity: `${gtin}/${lot}`, granularity: "batch" };
  return cpv === undefined ? { identity: gtin, granularity: "model" } : undefined;
}

/** A label's link names one thing of a product, and the resolver knows of which. */
async function ofLabel(tx: Tx, link: string, origin: string): Promise<string | undefined> {
  const key = linkedBy(link);
  if (key?.serial === undefined) return undefined;
  try {
    return (await resolve(tx, key, new URL(origin).host)).levels[0].productId;
  } catch (error) {
    if (error instanceof Refusal && error.code === "PRODUCT_NOT_FOUND") return undefined;
    throw error;
  }
}

/** The products that these name, by their ids or by the identity that their tenant published. */
async function productsOf(tx: Tx, names: readonly string[]): Promise<string[]> {
  const links = names.map(namedBy).filter((named) => named !== undefined);
  const claimed = await tx.db
    .select({ id: products.id, identity: claims.identity, granularity: products.granularity })
    .from(claims)
    .innerJoin(products, and(eq(products.tenantId, claims.tenantId), eq(products.id, claims.productId)))
    .where(inArray(claims.identity, even(links.map(({ identity }) => identity))));
  const meant = new Set(links.map(({ identity, granularity }) => `${granularity} ${identity}`));
  return [
    ...names.filter((name) => UUID.test(name)),
    ...claimed.filter(({ identity, granularity }) => meant.has(`${granularity} ${identity}`)).map(({ id }) => id),
  ];
}

const STATUS = { published: "active", suspended: "inactive", archived: "archived", draft: "invalid", generating: "invalid" } as const;

/** An envelope; where it is asked for in full, the data that `inFull` is to write into it. */
export type Read = { dpp: Dpp; data?: Content };

function envelope(
  { passports: row, products: product, passport_versions: version, issued_credentials: issued }: Awaited<ReturnType<typeof find>>,
  form: Form,
  origin: string,
): Read {
  const isRevoked = row.revokedAt !== null || (issued !== null && issued.revokedAt !== null);
  const dppStatus = isRevoked ? "invalid" : STATUS[row.state];
  const isActive = dppStatus === "active";
  const data = isActive ? version.content : {};
  const full = form.representation === "full" && isActive;
  const { elements: _, ...compressed } = data; // the full form's own name
  const dpp: Dpp = {
    ...(full ? {} : compressed), // first, so that nothing in it can pass for the envelope's own
    digitalProductPassportId: uriOf(row.id),
    uniqueProductIdentifier: linkOf(origin, product),
    granularity: product.granularity,
    dppSchemaVersion: "EN 18223:2026",
    dppStatus,
    lastUpdated: instant(Math.max(row.updatedAt, row.revokedAt ?? 0, issued?.revokedAt ?? 0)), // its status above all: a void is no change of the passport's own
    economicOperatorId: uriOf(row.tenantId),
    contentSpecificationIds: [UNTP_DPP],
  };
  return full ? { dpp, data } : { dpp };
}

const SLICE_CHARACTERS = 65_536;
/** Data may be thirty times as long in full: it is written while it is sent, and others get a turn in between. */
export async function* inFull(dpp: Dpp, data: Content): AsyncGenerator<string> {
  let text = `${JSON.stringify(dpp).slice(0, -1)},"elements":`;
  for (const piece of elementsOf(data)) {
    text += piece;
    if (text.length < SLICE_CHARACTERS) continue;
    yield text;
    text = "";
    await turn();
  }
  yield `${text}}`;
}

function* listed<Item>(items: Iterable<Item>, one: (item: Item) => Iterable<string>): Generator<string> {
  let before = "[";
  for (const item of items) {
    yield before;
    yield* one(item);
    before = ",";
  }
  yield before === "[" ? "[]" : "]";
}

const TYPES: Record<string, string> = { string: "xsd:string", number: "xsd:decimal", boolean: "xsd:boolean" };
const isPlain = (value: unknown): boolean => typeof value !== "object" || value === null;

const elementsOf = (data: Content): Generator<string> =>
  listed(Object.entries(data), ([name, value]) => elementOf({ dictionaryReference: UNTP_DPP + name, elementId: name }, value));

/** A list of objects is a collection of collections, numbered. */
function* elementOf(named: Pick<DppElement, "dictionaryReference" | "elementId">, value: unknown): Generator<string> {
  const whole = (element: Omit<DppElement, "elementId">) => JSON.stringify({ ...named, ...element });
  if (isPlain(value)) yield whole({ objectType: "SingleValuedDataElement", valueDataType: TYPES[typeof value] ?? "xsd:string", value });
  else if (Array.isArray(value) && value.every(isPlain))
    yield whole({ objectType: "MultiValuedDataElement", valueDataType: TYPES[typeof value[0]] ?? "xsd:string", value });
  else {
    yield `${JSON.stringify({ ...named, objectType: "DataElementCollection" }).slice(0, -1)},"value":`;
    yield* Array.isArray(value)
      ? listed(value.entries(), ([i, item]) => elementOf({ elementId: String(i) }, item))
      : elementsOf(value as Content);
    yield "}";
  }
}
