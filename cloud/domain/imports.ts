// Imports: a row that says how far a file is. Rows of the file and that number commit together, so that a restart neither loses nor doubles one.
import { and, asc, eq, gt, lte, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import type { Import } from "#shared/wire/imports.ts";
import { catalogue, type CategoryVersion } from "../catalogue.ts";
import { importErrors, imports } from "../store/schema.ts";
import { run, type Store, type Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import * as events from "./events.ts";
import { found } from "./found.ts";
import { type CsvRow, faultsOf, fileFault, productOf, type RowFault } from "./import-rows.ts";
import { instant } from "./instant.ts";
import { effectiveSchema, shaped } from "./product-rules.ts";
import { newestOf, type PageQuery } from "./page.ts";
import * as products from "./products.ts";
import * as uploads from "./uploads.ts";

export type Row = typeof imports.$inferSelect;
const LEASE_MS = 30_000;

const toWire = (
  { id, category, status, bytes, total, processed, created, failed, fault, createdAt, updatedAt }: Row,
  errors: Import["errors"],
): Import => ({
  id,
  category,
  status,
  bytes,
  total,
  processed,
  created,
  failed,
  fault,
  errors,
  createdAt: instant(createdAt),
  updatedAt: instant(updatedAt),
});

export async function begin(tx: Tx, by: events.By, upload: uploads.Upload, category: string): Promise<Import> {
  effectiveSchema(category, tx.now);
  const row: Row = {
    id: upload.id,
    tenantId: by.tenantId,
    category,
    status: "pending",
    actor: by.actor,
    requestId: by.requestId,
    bytes: upload.bytes,
    total: null,
    processed: 0,
    created: 0,
    failed: 0,
    fault: null,
    leaseUntil: 0,
    createdAt: tx.now,
    updatedAt: tx.now,
  };
  await tx.db.insert(imports).values(row);
  return toWire(row, []);
}

export async function get(tx: Tx, caller: Caller, id: string): Promise<Import> {
  const isIt = and(eq(imports.tenantId, caller.tenantId), eq(imports.id, id));
  const row = found("import", await tx.db.select().from(imports).where(isIt).get());
  const faults = await tx.db
    .select()
    .from(importErrors)
    .where(eq(importErrors.importId, id))
    .orderBy(asc(importErrors.line), asc(importErrors.n))
    .limit(limits.IMPORT_ERRORS_MAX_ITEMS);
  return toWire(
    row,
    faults.map(({ line, field, code, message }) => ({ line, column: field, code, message })),
  );
}

/** Newest first, without the faults of their rows. */
export const list = (tx: Tx, caller: Caller, query: PageQuery) =>
  newestOf(tx, query, { table: imports, where: eq(imports.tenantId, caller.tenantId), toWire: (row) => toWire(row, []) });

const LATEST = "SELECT updated_at FROM imports WHERE tenant_id = ? ORDER BY id DESC LIMIT 100";
const MOVES = `SELECT COUNT(*), MAX(updated_at), (SELECT MAX(updated_at) FROM (${LATEST}) AS latest) FROM imports
  WHERE tenant_id || '' = ? AND status IN ('pending', 'running')`;
/** Another text when any of the tenant's imports has moved. It is asked every second, so it looks at those that are open and at the latest, and not at all that there ever were. */
export const movement = async (_tx: Tx, tenantId: string): Promise<string> => String((await run(MOVES, [tenantId, tenantId], "get")).rows);

const isOpen = sql`${imports.status} IN ('pending', 'running')`;

/**
 * A file that nobody works on, for as long as the lease. Tenants take turns, the next behind `lastTenant` first: one with a hundred files would keep all others
 * waiting for hours. Of one tenant's the first is one whose node died, else the one that has waited longest.
 */
export async function claim(tx: Tx, lastTenant = ""): Promise<Row | undefined> {
  const due = await tx.db
    .select({ id: imports.id })
    .from(imports)
    .where(and(isOpen, lte(imports.leaseUntil, tx.now)))
    .orderBy(
      sql`CASE WHEN ${imports.tenantId} > ${lastTenant} THEN 0 ELSE 1 END`,
      asc(imports.tenantId),
      sql`CASE ${imports.status} WHEN 'running' THEN 0 ELSE 1 END`,
      asc(imports.leaseUntil),
      asc(imports.id),
    )
    .limit(1)
    .get();
  if (!due) return undefined;
  const [row] = await tx.db
    .update(imports)
    .set({ status: "running", leaseUntil: tx.now + LEASE_MS, updatedAt: tx.now })
    .where(and(eq(imports.id, due.id), isOpen, lte(imports.leaseUntil, tx.now)))
    .returning();
  return row;
}

/** By a node that ends in the middle of it. */
export async function release(tx: Tx, { id, leaseUntil }: Row): Promise<void> {
  const isOurs = and(eq(imports.id, id), eq(imports.leaseUntil, leaseUntil), isOpen);
  await tx.db.update(imports).set({ leaseUntil: 0 }).where(isOurs);
}

/** A node that is alone and has just begun: whoever held a lease is dead. */
export async function releaseAll(tx: Tx): Promise<void> {
  const isLeased = and(isOpen, gt(imports.leaseUntil, 0));
  await tx.db.update(imports).set({ leaseUntil: 0 }).where(isLeased);
}

/** The schema that was in effect when the file came in. */
export const schemaOf = ({ category, createdAt }: Row): CategoryVersion => {
  const schema = catalogue.find(category, createdAt);
  if (!schema) throw new Error(`the schema that ${category} had at ${instant(createdAt)} is gone from the catalogue`);
  return schema;
};

/** Changes the row if it is still where we left it; where not, another node has taken over. */
async function advance(tx: Tx, row: Row, changes: Partial<Row>): Promise<Row | undefined> {
  const [moved] = await tx.db
    .update(imports)
    .set({ ...changes, leaseUntil: tx.now + LEASE_MS, updatedAt: tx.now })
    .where(and(eq(imports.id, row.id), eq(imports.processed, row.processed), isOpen))
    .returning();
  return moved;
}

export const setTotal = (tx: Tx, row: Row, total: number) => advance(tx, row, { total });

/** Some rows of the file, each by itself, and how far it is now. */
export async function take(tx: Tx, row: Row, schema: CategoryVersion, slice: readonly CsvRow[]): Promise<Row | undefined> {
  const moved = await advance(tx, row, { processed: row.processed + slice.length });
  if (!moved) return undefined;
  const by = { tenantId: row.tenantId, actor: row.actor, requestId: row.requestId };
  const refused = await products.createEach(
    tx,
    by,
    slice.map((csv) => () => shaped(productOf(csv, schema), tx.now)),
  );
  const faults = slice.flatMap(({ line }, i): RowFault[] => (refused[i] ? faultsOf(line, refused[i]) : []));
  const failed = refused.filter((refusal) => refusal !== undefined).length;
  if (row.failed < limits.IMPORT_ERRORS_MAX_ITEMS && faults.length > 0)
    await tx.db
      .insert(importErrors)
      .values(faults.slice(0, limits.IMPORT_ERRORS_MAX_ITEMS).map((fault, n) => ({ importId: row.id, n, ...fault })));
  const counts = { created: row.created + slice.length - failed, failed: row.failed + failed };
  await tx.db.update(imports).set(counts).where(eq(imports.id, row.id));
  return { ...moved, ...counts };
}

/** Says whether it was ours to end; its file is dropped afterwards. */
export async function finish(tx: Tx, row: Row, fault: string | null): Promise<boolean> {
  const status = fault === null ? "completed" : "failed";
  if (!(await advance(tx, row, { status, fault }))) return false;
  const { id, category, tenantId, actor, requestId, total, processed, created, failed } = row;
  await events.record(
    tx,
    { tenantId, actor, requestId },
    {
      subject: id,
      seq: 1,
      type: fault === null ? "import.completed" : "import.failed",
      data: { importId: id, category, total, processed, created, failed, fault },
    },
  );
  return true;
}

/** Slices that nobody had asked for yet may have been forgotten, by a clock that leapt while the file came in: what is left is another file. */
export async function* fileOf(store: Store, { id, bytes }: Row): AsyncGenerator<Buffer> {
  let left = bytes;
  for await (const slice of uploads.read(store, id)) {
    left -= slice.length;
    yield slice;
  }
  if (left !== 0) throw fileFault(saying("file_torn"));
}
/** Some of the file of one that has ended; says whether there is more of it. */
export const dropFile = (tx: Tx, { id }: Row): Promise<boolean> => uploads.drop(tx, id);
