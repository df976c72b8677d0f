// Carriers: serials are allocated by the thousand, read back as what a printer needs, and told what became of them.
import { setImmediate } from "node:timers/promises";
import { and, asc, eq, gt, isNull, lte, sql } from "../store/drizzle.ts";
import { API } from "#shared/api.ts";
import { Refusal } from "#shared/errors.ts";
import { digitalLink, encodeSgtin96, epcSerialFault } from "#shared/gs1.ts";
import { type Carrier, type CarrierRow, type PrintState, printStates } from "#shared/wire/carriers.ts";
import type { Seal } from "../seal.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { serialCounters, serials, tenants } from "../store/schema.ts";
import { db, inTurn, LOCKED, run, type Store, together, type Tx } from "../store/store.ts";
import { type Caller, refuseDead } from "./callers.ts";
import type { By } from "./events.ts";
import { found } from "./found.ts";
import { instant } from "./instant.ts";
import { emit } from "./outbox.ts";
import * as products from "./products.ts";
import { SERIALS_OF_A_TENANT, serialsAt } from "./serial-numbers.ts";
import { begin, renewedUnopened, secretOf } from "./serial-secrets.ts";

export type Row = typeof serials.$inferSelect;
const ROWS_AT_ONCE = 100; // as many values as a statement takes with room to spare
const EXPORT_SLICE_ROWS = 2_000;
const EPC_FILTER = 1; // a point-of-sale item

const takePlaces = prepared(
  db
    .update(serialCounters)
    .set({ next: sql`${serialCounters.next} + ${sql.placeholder("count")}` })
    .where(eq(serialCounters.tenantId, sql.placeholder("tenantId")))
    .returning(),
);

/** The tenant's next places, and the secret that makes serials of them. Waits for whoever else takes some. */
async function take(tx: Tx, tenantId: string, count: number, seal: Seal): Promise<{ secret: Buffer; from: number }> {
  let taken = await takePlaces.get({ tenantId, count });
  if (!taken) {
    await begin(tx, tenantId, seal); // made by a node of the version before
    taken = await takePlaces.get({ tenantId, count });
  }
  if (!taken || taken.next - 1 > SERIALS_OF_A_TENANT) throw new Error(`tenant ${tenantId} has no serials left`);
  const from = taken.next - count;
  return { secret: secretOf(from === 1 ? await renewedUnopened(tx, taken, seal) : taken, seal), from };
}

const COLUMNS = placesOf(serials);
const insertOne = prepared(db.insert(serials).values(COLUMNS));
const VARYING = ["serial", "n"] as const;
const nth = (i: number) => ({ ...COLUMNS, ...Object.fromEntries(VARYING.map((name) => [name, sql.placeholder(`${name}${i}`)])) });
const insertMany = prepared(db.insert(serials).values(Array.from({ length: ROWS_AT_ONCE }, (_, i) => nth(i))));

const unprinted = (tx: Tx, { tenantId, gtin, id }: products.Row): Omit<Row, "serial" | "n"> => ({
  tenantId,
  gtin,
  productId: id,
  printStatus: null,
  printReason: null,
  printDeviceId: null,
  printReportedAt: null,
  printBatch: null,
  openJob: null,
  sealedJob: null,
  strayJob: null,
  voidedAt: null,
  voidReason: null,
  createdAt: tx.now,
});

export type Given = { product: products.Row; serial: string; n: number };
/** Serials that were given out before, each at its own place. */
export async function insertGiven(tx: Tx, all: readonly Given[]): Promise<void> {
  await together(all.map(({ product, serial, n }) => insertOne.run({ ...unprinted(tx, product), serial, n })));
  for (const [product, some] of Map.groupBy(all, (one) => one.product)) await products.count(tx, product, "serials", some.length);
}

export async function allocate(tx: Tx, by: By, { productId, count }: { productId: string; count: number }, seal: Seal) {
  const product = await products.hold(tx, by.tenantId, productId);
  if (product.voidedAt !== null) throw new Refusal("ALREADY_VOIDED", products.NO_MORE_LABELS);
  const { secret, from } = await take(tx, by.tenantId, count, seal);
  const made = serialsAt(secret, from, count);
  const common = unprinted(tx, product);
  let done = 0;
  for (; done + ROWS_AT_ONCE <= count; done += ROWS_AT_ONCE) {
    const slice = made.slice(done, done + ROWS_AT_ONCE).flatMap((serial, i) => [
      [`serial${i}`, serial],
      [`n${i}`, from + done + i],
    ]);
    await insertMany.run({ ...common, ...Object.fromEntries(slice) });
  }
  for (; done < count; done += 1) await insertOne.run({ ...common, serial: made[done], n: from + done });
  await products.count(tx, product, "serials", count);
  await emit(tx, by, "carrier.generated", { productId, gtin: product.gtin, count, exportPath: exportPath(productId) });
  return { allocated: count, serials: made };
}
const exportPath = (productId: string) => `${API}/carriers/export?productId=${productId}`;

export const isIt = and(eq(serials.tenantId, sql.placeholder("tenantId")), eq(serials.serial, sql.placeholder("serial")));
const bySerial = prepared(db.select().from(serials).where(isIt));
export const find = (_tx: Tx, tenantId: string, serial: string): Promise<Row | undefined> => bySerial.get({ tenantId, serial });

const HOLD = `SELECT serial FROM serials WHERE tenant_id = ? AND serial = ? ${LOCKED}`;
/** Waits for whoever changes the serial, and keeps it for this unit; says whether there is one. */
export const hold = async (_tx: Tx, tenantId: string, serial: string): Promise<boolean> =>
  (await run(HOLD, [tenantId, serial], "all")).rows.length > 0;
export const holdAll = async (tx: Tx, tenantId: string, some: Iterable<string>): Promise<void> =>
  void (await Promise.all(inTurn(some, (serial) => serial).map((serial) => hold(tx, tenantId, serial))));

/** The longest company prefix of the tenant's that the GTIN has after its indicator digit. */
const prefixLengthOf = (companyPrefixes: readonly string[], gtin: string): number | undefined =>
  companyPrefixes
    .filter((prefix) => gtin.startsWith(prefix, 1))
    .map((prefix) => prefix.length)
    .toSorted((a, b) => b - a)[0];

/** The EPC, or why there is none. */
export function epcOf(companyPrefixes: readonly string[], gtin: string, serial: string): { epc: string } | { fault: string } {
  const companyPrefixLength = prefixLengthOf(companyPrefixes, gtin);
  if (companyPrefixLength === undefined)
    return { fault: `none of the tenant's company prefixes (PATCH /tenant sets them) begins the GTIN ${gtin} behind its first digit` };
  const fault = epcSerialFault(serial);
  if (fault) return { fault: `the serial ${serial} ${fault}` };
  return { epc: encodeSgtin96({ gtin, serial, companyPrefixLength, filter: EPC_FILTER }) };
}

const prefixesOf = async (tx: Tx, tenantId: string): Promise<string[]> =>
  (await tx.db.select({ prefixes: tenants.companyPrefixes }).from(tenants).where(eq(tenants.id, tenantId)).get())?.prefixes ?? [];

type Naming = { origin: string; prefixes: readonly string[] };
const printOf = ({ printStatus, printReason, printDeviceId, printReportedAt }: Row): CarrierRow["metadata"] => ({
  print:
    printStatus === null
      ? null
      : {
          status: printStatus,
          reason: printReason,
          deviceId: printDeviceId,
          reportedAt: instant(printReportedAt ?? 0),
        },
});

function toRow(row: Row, { origin, prefixes }: Naming): CarrierRow {
  const { gtin, serial } = row;
  const named = epcOf(prefixes, gtin, serial);
  return {
    gtin,
    serial,
    digital_link: digitalLink(origin, gtin, { serial }),
    sgtin96_epc: "epc" in named ? named.epc : "",
    metadata: printOf(row),
  };
}

export async function get(tx: Tx, caller: Caller, serial: string, origin: string): Promise<Carrier> {
  const row = found("serial", await find(tx, caller.tenantId, serial));
  return {
    ...toRow(row, { origin, prefixes: await prefixesOf(tx, caller.tenantId) }),
    productId: row.productId,
    voidedAt: instant(row.voidedAt),
    createdAt: instant(row.createdAt),
  };
}

/** What was voided is in no list of what is to be printed. */
const inState = {
  printed: eq(serials.printStatus, "printed"),
  failed: and(sql`${serials.printStatus} = 'failed'`, isNull(serials.voidedAt)), // spelled out, so that the index of the re-print file is found
  pending: and(isNull(serials.printStatus), isNull(serials.voidedAt)),
} satisfies Record<PrintState, unknown>;

export const isPrintState = (word: string): word is PrintState => (printStates as readonly string[]).includes(word);

type From = Pick<Caller, "tenantId" | "credential"> & { productId: string; state: PrintState | undefined };

/** All carriers of a product in the order of their allocation. */
export async function exported(store: Store, from: From, origin: string): Promise<AsyncGenerator<CarrierRow[]>> {
  const { prefixes, voidedAt } = await store.read("export", async (tx) => {
    const product = await products.find(tx, from.tenantId, from.productId);
    return { prefixes: await prefixesOf(tx, from.tenantId), voidedAt: product.voidedAt };
  });
  const isMoot = voidedAt !== null && from.state !== "printed"; // with the product, all that is to print is voided
  return isMoot ? nothing() : slices(store, from, { origin, prefixes });
}

async function* nothing(): AsyncGenerator<never> {}

let queue = Promise.resolve();
/** Of all exports one goes on at a time: the slices of fifty in a row would take a second, in which nobody else is answered. */
const turn = (): Promise<void> => (queue = queue.then(() => setImmediate()));

/**
 * A slice a unit, made when it is asked for, so that a million rows take no more memory than a page; others get a turn between slices. It takes as long
 * as its reader likes: who loses the key meanwhile reads no further.
 */
async function* slices(store: Store, from: From, naming: Naming): AsyncGenerator<CarrierRow[]> {
  for (let after: number | undefined = 0; after !== undefined; await turn()) {
    const before: number = after;
    const { rows, last } = await store.read("export", async (tx) => {
      await refuseDead(tx, from.credential);
      return sliceOf(tx, from, before);
    });
    if (rows.length > 0) yield rows.map((row) => toRow(row, naming));
    after = last;
  }
}

type Slice = { rows: Row[]; /** The place behind which the next one begins, if there is one. */ last: number | undefined };
/** So many places of the product's and no more: where few of a million are in the state, all others would be looked through at once. */
async function sliceOf(tx: Tx, { tenantId, productId, state }: From, after: number): Promise<Slice> {
  const isNext = and(eq(serials.productId, productId), gt(serials.n, after));
  const places = tx.db.select({ n: serials.n }).from(serials).where(isNext).orderBy(asc(serials.n));
  const isIndexed = state === "failed"; // those are a list of their own
  const end = isIndexed ? undefined : (await places.limit(1).offset(EXPORT_SLICE_ROWS - 1))[0]?.n;
  const isWanted = and(
    eq(serials.tenantId, tenantId),
    isNext,
    end === undefined ? undefined : lte(serials.n, end),
    state === undefined ? isNull(serials.voidedAt) : inState[state],
  );
  const rows = await tx.db.select().from(serials).where(isWanted).orderBy(asc(serials.n)).limit(EXPORT_SLICE_ROWS);
  return { rows, last: end ?? (rows.length < EXPORT_SLICE_ROWS ? undefined : rows.at(-1)?.n) };
}

export const unknownState = (word: string): Refusal =>
  new Refusal("INVALID_PRINT_STATE", `printState: ${word.slice(0, 50)} isn't one; it is ${printStates.join(", ")}`, {
    allowed: printStates,
  });
