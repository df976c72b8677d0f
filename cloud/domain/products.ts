// Products: created, read, changed, moved on, voided, deleted. Every change is a version, an event and an audit row in one commit.
import { and, desc, eq, inArray, ne, sql } from "../store/drizzle.ts";
import type { Caller } from "./callers.ts";
import { newIdIn } from "./ids.ts";
import { canonical } from "#shared/canonical.ts";
import { type FieldFault, Refusal, refusalOr } from "#shared/errors.ts";
import { type ProductStage, productStages, VOIDED } from "#shared/states.ts";
import type { BatchResult, Product, ProductCreate, ProductPatch, ProductVersion, Transition } from "#shared/wire/products.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { products } from "../store/schema.ts";
import { db, eachBeside, inTurn, LOCKED, overtaken, run, type Tx } from "../store/store.ts";
import { revokeOf } from "./issued-credentials.ts";
import { type By, list as listEvents, record as recordEvent, type Row as Event, snapshots } from "./events.ts";
import { found } from "./found.ts";
import { instant } from "./instant.ts";
import { type PageQuery, pageReply } from "./page.ts";
import { duplicate, type Judged, judged, moreFaults, refuseUnjudged, shaped } from "./product-rules.ts";

export type Row = typeof products.$inferSelect;
type EventType = "product.created" | "product.updated" | "product.deleted" | "product.published";

const insertNew = prepared(db.insert(products).values(placesOf(products)).onConflictDoNothing().returning({ id: products.id }));
const isMine = and(eq(products.tenantId, sql.placeholder("tenantId")), eq(products.id, sql.placeholder("id")));
const byId = prepared(db.select().from(products).where(isMine));
const isOfSerial = and(
  eq(products.tenantId, sql.placeholder("tenantId")),
  inArray(products.identity, [sql.placeholder("gtin"), sql.placeholder("item")]),
  eq(products.serialNumber, sql.placeholder("serial")),
  ne(products.granularity, "batch"), // there it is the lot
);
const bySerial = prepared(db.select({ id: products.id }).from(products).where(isOfSerial).orderBy(desc(products.identity)).limit(1));

const statusOf = ({ voidedAt, stage }: Row): Product["status"] => (voidedAt === null ? productStages[stage].status : VOIDED);
/** Without case and accents: upper case, because lower case knows two sigmas and two i. */
export const fold = (text: string) => text.normalize("NFKD").replaceAll(/\p{M}/gu, "").toUpperCase();

export const toWire = (row: Row): Product => ({
  id: row.id,
  status: statusOf(row),
  stage: row.stage,
  productName: row.name,
  productDescription: row.description,
  category: row.category,
  gtin: row.gtin,
  serialNumber: row.serialNumber,
  granularity: row.granularity,
  extensions: row.extensions,
  schemaVersion: row.schemaVersion,
  version: row.version,
  voidedAt: instant(row.voidedAt),
  voidReason: row.voidReason,
  createdAt: instant(row.createdAt),
  updatedAt: instant(row.updatedAt),
});

/** What a product's event says; the snapshot beside it is the version. */
async function record(tx: Tx, by: By, type: EventType, row: Row, changed: string[], more: Record<string, unknown> = {}): Promise<void> {
  const { id, gtin, serialNumber, granularity, category, stage, version } = row;
  await recordEvent(tx, by, {
    subject: id,
    seq: version,
    type,
    data: { productId: id, gtin, serialNumber, granularity, category, status: statusOf(row), stage, version, changed, ...more },
    snapshot: type === "product.deleted" ? null : toWire(row),
  });
}

const fresh = (tx: Tx, by: By, input: ProductCreate): Row => ({
  ...judged(input, tx.now),
  tenantId: by.tenantId,
  id: newIdIn(tx),
  nameFolded: fold(input.name),
  stage: "draft",
  version: 1,
  voidedAt: null,
  voidReason: null,
  serials: 0,
  printed: false,
  passports: 0,
  createdAt: tx.now,
  updatedAt: tx.now,
});
const CREATED = ["name", "description", "category", "gtin", "serialNumber", "granularity", "extensions"];

async function add(tx: Tx, by: By, row: Row): Promise<Product> {
  if (!(await insertNew.get(row))) throw duplicate(row);
  await record(tx, by, "product.created", row, CREATED);
  return toWire(row);
}

export const create = async (tx: Tx, by: By, input: ProductCreate): Promise<Product> => add(tx, by, fresh(tx, by, input));

/** Each by itself: what is refused is told at its place, the others stand. */
export async function createEach(tx: Tx, by: By, inputs: readonly (() => ProductCreate)[]): Promise<(Refusal | undefined)[]> {
  const refused: (Refusal | undefined)[] = inputs.map(() => undefined);
  const judgedAs = async <T>(index: number, act: () => T | Promise<T>): Promise<T | undefined> => {
    const done = await refusalOr(act);
    if (!(done instanceof Refusal)) return done;
    refused[index] = done;
    return undefined;
  };
  const made: { index: number; row: Row }[] = [];
  for (const [index, input] of inputs.entries()) {
    const row = await judgedAs(index, () => fresh(tx, by, input()));
    if (row) made.push({ index, row });
  }
  await eachBeside(
    inTurn(made, ({ row }) => row.identity),
    ({ index, row }) => judgedAs(index, () => add(tx, by, row)),
  );
  return refused;
}

export async function createBatch(tx: Tx, by: By, items: readonly unknown[]): Promise<BatchResult> {
  const refused = await createEach(
    tx,
    by,
    items.map((item) => () => shaped(item, tx.now)),
  );
  const errors = refused.flatMap((refusal, index) => (refusal ? { index, error: refusal.line } : []));
  return { created: items.length - errors.length, failed: errors.length, errors };
}

export const find = async (_tx: Tx, tenantId: string, id: string): Promise<Row> => found("product", await byId.get({ tenantId, id }));

/** The item of this number, else the model that bears it itself. */
export const ofSerial = (_tx: Tx, tenantId: string, gtin: string, serial: string): Promise<Pick<Row, "id"> | undefined> =>
  bySerial.get({ tenantId, gtin, item: `${gtin}/${serial}`, serial });

const isModel = and(eq(products.tenantId, sql.placeholder("tenantId")), eq(products.identity, sql.placeholder("gtin")));
const byGtin = prepared(db.select({ id: products.id }).from(products).where(isModel));
export const modelOf = async (_tx: Tx, tenantId: string, gtin: string): Promise<string | undefined> =>
  (await byGtin.get({ tenantId, gtin }))?.id;

const HOLD = `SELECT id FROM products WHERE tenant_id = ? AND id = ? ${LOCKED}`;
/** Found, and kept as it is until the commit: for whoever hangs something on it, or decides by what hangs on it. */
export const hold = async (tx: Tx, tenantId: string, id: string): Promise<Row> => found("product", await holdAny(tx, tenantId, id));
export async function holdAny(_tx: Tx, tenantId: string, id: string): Promise<Row | undefined> {
  await run(HOLD, [tenantId, id], "all");
  return byId.get({ tenantId, id });
}

export const NO_MORE_LABELS = "the product is voided: it gets no more labels";
const voidedAt = prepared(db.select({ voidedAt: products.voidedAt }).from(products).where(isMine));
export const isVoided = async (_tx: Tx, tenantId: string, id: string): Promise<boolean> =>
  typeof (await voidedAt.get({ tenantId, id }))?.voidedAt === "number";

export const exists = async (_tx: Tx, tenantId: string, id: string): Promise<boolean> => (await byId.get({ tenantId, id })) !== undefined;
export const get = async (tx: Tx, caller: Caller, id: string): Promise<Product> => toWire(await find(tx, caller.tenantId, id));

/** Writes the changes if nobody was faster, and tells of them. */
async function change(
  tx: Tx,
  by: By,
  before: Row,
  changes: Partial<Row>,
  more: Record<string, unknown> = {},
  type: EventType = "product.updated",
): Promise<Product> {
  const after: Row = { ...before, ...changes, version: before.version + 1, updatedAt: tx.now };
  const changed = (Object.keys(changes) as (keyof Row)[]).filter((key) => canonical(before[key]) !== canonical(after[key]));
  if (changed.length === 0 && type === "product.updated" && Object.keys(more).length === 0) return toWire(before); // nothing to tell of
  const written = await tx.db
    .update(products)
    .set({ ...changes, version: after.version, updatedAt: tx.now })
    .where(and(eq(products.tenantId, before.tenantId), eq(products.id, before.id), eq(products.version, before.version)))
    .returning({ id: products.id });
  if (written.length === 0) throw overtaken(`product ${before.id}`);
  await record(
    tx,
    by,
    type,
    after,
    changed.filter((key) => !(key in INNER)),
    more,
  );
  return toWire(after);
}
/** Columns that follow from others: no change by themselves. */
const INNER: Partial<Record<keyof Row, true>> = { nameFolded: true, identity: true, schemaVersion: true };

const alreadyVoided = ({ voidedAt }: Row) => new Refusal("ALREADY_VOIDED", `it was voided at ${instant(voidedAt)}`);

export function refuseStale({ version }: Row, ifMatch: string | undefined): void {
  if (ifMatch === undefined || ifMatch.trim() === "*") return;
  const tags = ifMatch.split(",").map((tag) => tag.trim());
  if (tags.includes(`"${version}"`)) return;
  const why = tags.includes(`W/"${version}"`)
    ? `W/"${version}" is what a proxy that compresses made of our ETag, and If-Match takes strong ones only: send "${version}"`
    : `the product is at version ${version}, not at ${tags.join(", ")}`;
  throw new Refusal("PRECONDITION_FAILED", why, { version });
}

export async function patch(tx: Tx, by: By, id: string, changes: ProductPatch, ifMatch?: string): Promise<Product> {
  const row = await hold(tx, by.tenantId, id);
  refuseStale(row, ifMatch);
  if (row.voidedAt !== null) throw alreadyVoided(row);
  const { name, description, category, gtin, serialNumber, granularity, extensions } = row;
  const next = judged({ name, description, category, gtin, serialNumber, granularity, extensions, ...changes }, tx.now);
  if ((next.identity !== row.identity || next.granularity !== row.granularity) && row.serials + row.passports > 0)
    throw new Refusal("SCHEME_LOCKED", `${row.serials} serials and ${row.passports} passports hang on ${row.identity}: it can't change`);
  if (next.category !== row.category && row.stage !== "draft")
    throw new Refusal("SCHEME_LOCKED", `the product is ${row.stage} as ${row.category}: its category can change in a draft only`);
  if (next.identity !== row.identity) await refuseTaken(tx, by, next);
  return change(tx, by, row, { ...next, nameFolded: fold(next.name) });
}

/** The product that is this one thing, where there is one. */
export const itemOf = (tx: Tx, tenantId: string, { gtin, serial }: { gtin: string; serial: string }): Promise<Row | undefined> =>
  tx.db
    .select()
    .from(products)
    .where(and(eq(products.tenantId, tenantId), eq(products.identity, `${gtin}/${serial}`), eq(products.granularity, "item")))
    .get();

type Unfit = { tx: Tx; caller: Caller; params: { id: string }; body: unknown; found: readonly FieldFault[] };
/** What is wrong with an unfit change's extensions, beside what was found: their category is the product's, where it names none. */
export async function faultsBeside({ tx, caller, params, body, found }: Unfit): Promise<FieldFault[]> {
  const { category } = await find(tx, caller.tenantId, params.id);
  return moreFaults({ category, ...(body as object) }, found, tx.now);
}

/** The unique index has the last word; this look gives it a sentence. */
async function refuseTaken(tx: Tx, by: By, next: Judged): Promise<void> {
  const isSame = and(eq(products.tenantId, by.tenantId), eq(products.identity, next.identity));
  const taken = await tx.db.select({ id: products.id }).from(products).where(isSame).get();
  if (taken) throw duplicate(next);
}

export async function transition(tx: Tx, by: By, id: string, { stage: to, reason }: Transition, ifMatch?: string): Promise<Product> {
  const row = await hold(tx, by.tenantId, id);
  refuseStale(row, ifMatch);
  const hasPassport = row.voidedAt === null && row.stage === "ready_for_dpp" && row.passports > 0;
  const from = row.voidedAt === null ? row.stage : "voided";
  const allowed: readonly ProductStage[] = from === "voided" || hasPassport ? [] : productStages[from].next;
  const does = `${allowed.join(" or ") || "nothing"} does${hasPassport ? " while there is a passport" : ""}`;
  if (!allowed.includes(to)) throw new Refusal("ILLEGAL_TRANSITION", `${to} doesn't follow ${from}; ${does}`, { from, to, allowed });
  refuseUnjudged(row);
  return change(tx, by, row, { stage: to }, { from, to, reason: reason ?? null });
}

/** So many more hang on the product, or fewer: no change of its own, so no version. */
export async function count(tx: Tx, { tenantId, id }: Row, what: "serials" | "passports", by: number): Promise<void> {
  await tx.db
    .update(products)
    .set({ [what]: sql`${products[what]} + ${by}` })
    .where(and(eq(products.tenantId, tenantId), eq(products.id, id)));
}

const isUnprinted = and(isMine, eq(products.printed, false));
const firstPrint = prepared(db.update(products).set({ printed: true }).where(isUnprinted));
/** From its first print job or outcome on, the product has a history that has to stay. Written once, so that labels don't queue for its row. */
export const nowPrinted = async (_tx: Tx, tenantId: string, id: string): Promise<void> => void (await firstPrint.run({ tenantId, id }));

/** The product's version that says that its passport is public. */
export async function tellPublished(tx: Tx, by: By, row: Row, more: Record<string, unknown>): Promise<void> {
  await change(tx, by, row, {}, more, "product.published");
}

/** Likewise the one that says that a serial of its labels was voided. */
export const tellVoided = (tx: Tx, by: By, row: Row, serial: string, reason: string): Promise<Product> =>
  change(tx, by, row, {}, { serial, reason });

export async function voidIt(tx: Tx, by: By, id: string, reason: string): Promise<Product> {
  const row = await hold(tx, by.tenantId, id);
  if (row.voidedAt !== null) throw alreadyVoided(row);
  await revokeOf(tx, row.id);
  return change(tx, by, row, { voidedAt: tx.now, voidReason: reason }, { reason });
}

export async function remove(tx: Tx, by: By, id: string, ifMatch?: string): Promise<Row> {
  const row = await hold(tx, by.tenantId, id);
  refuseStale(row, ifMatch);
  if (row.printed) throw new Refusal("PRODUCT_REFERENCED", "its serials have been in the print loop: void the product instead");
  if (row.voidedAt !== null) throw alreadyVoided(row); // its tombstone has to stay
  if (row.passports > 0)
    throw new Refusal(
      "PRODUCT_REFERENCED",
      "a passport speaks of this product: void the product, or delete the passport first if it was never published",
    );
  const isUnchanged = and(eq(products.tenantId, by.tenantId), eq(products.id, id), eq(products.version, row.version));
  const gone = await tx.db.delete(products).where(isUnchanged).returning({ id: products.id });
  if (gone.length === 0) throw overtaken(`product ${id}`);
  await record(tx, by, "product.deleted", { ...row, version: row.version + 1 }, []);
  return row;
}

export async function versions(tx: Tx, caller: Caller, id: string, query: PageQuery) {
  await find(tx, caller.tenantId, id);
  const { rows, limit } = await snapshots(tx, caller.tenantId, id, query);
  return pageReply(rows, limit, ({ seq }) => String(seq), toVersion);
}

/** Why it was, or what it was of where no field of the product's changed: a label's serial, a passport. */
const BESIDES = ["reason", "serial", "passportVersion"] as const;
const toVersion = ({ seq, at, actor, requestId, type, data, snapshot }: Event): ProductVersion => ({
  version: seq,
  at: instant(at),
  actor,
  correlationId: requestId,
  type,
  changed: data["changed"] as string[],
  ...Object.fromEntries(BESIDES.filter((name) => name in data).map((name) => [name, data[name]])),
  snapshot: snapshot as Product,
});

export async function history(tx: Tx, caller: Caller, id: string, query: PageQuery) {
  await find(tx, caller.tenantId, id);
  return listEvents(tx, caller.tenantId, id, query);
}
