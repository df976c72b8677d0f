// The audit log: a hash chain per tenant, appended in the commit of what it tells of, recomputable by anybody who may read it.
import { setImmediate as turn } from "node:timers/promises";
import { and, asc, desc, eq, gt, inArray, max, sql } from "../store/drizzle.ts";
import type { SQL } from "drizzle-orm";
import { digestOf } from "#shared/canonical.ts";
import { type AuditAction, auditActions } from "#shared/audit.ts";
import type { AuditQuery, AuditRow, AuditVerdict } from "#shared/wire/audit.ts";
import type { Caller } from "../route.ts";
import { auditHeads, auditLog, tenants } from "../store/schema.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { db, type Finale, LOCKED, run, type Store, together, type Tx } from "../store/store.ts";
import { pageOf, pageReply, SEQ } from "./page.ts";
import { ranks } from "./ranks.ts";

const FIRST_HASH = "0".repeat(64);
const SINCE_MAX_ROWS = 1_000;
const SLICE_ROWS = 250; // recomputed within some 10 ms

export type Entry = { action: AuditAction; subject: string | null; details?: Record<string, unknown> | undefined; requestId: string };

// Reading the head locks the chain until the commit: one row that orders all nodes.
const HEAD = `SELECT seq, hash FROM audit_heads WHERE tenant_id = ? ${LOCKED}`;
const insertRow = prepared(db.insert(auditLog).values(placesOf(auditLog)));
const moveHead = prepared(
  db
    .update(auditHeads)
    .set({ seq: sql`${sql.placeholder("seq")}`, hash: sql`${sql.placeholder("hash")}` })
    .where(eq(auditHeads.tenantId, sql.placeholder("tenantId"))),
);

export const beginChain = async (tx: Tx, tenantId: string): Promise<void> => {
  await tx.db.insert(auditHeads).values({ tenantId, seq: 0, hash: FIRST_HASH });
};

/** When the latest row of all chains was written. */
export const lastInstant = async (tx: Tx): Promise<number | undefined> => {
  const isLast = and(eq(auditLog.tenantId, auditHeads.tenantId), eq(auditLog.seq, auditHeads.seq)); // by key: the log itself may be long
  const found = await tx.db.select({ at: max(auditLog.at) }).from(auditHeads).innerJoin(auditLog, isLast).get(); // oxfmt-ignore
  return found?.at ?? undefined;
};

/** Everybody who has one, in order: every tenant, whether or not its head is still there. */
export async function chainIds(tx: Tx): Promise<string[]> {
  const theirs = await tx.db.select({ id: tenants.id }).from(tenants);
  const begun = await tx.db.select({ id: auditHeads.tenantId }).from(auditHeads);
  return [...new Set([...theirs, ...begun].map(({ id }) => id))].toSorted();
}

type Stored = typeof auditLog.$inferSelect;
type Unchained = Omit<Stored, "seq" | "prevHash" | "hash">;
type Head = { seq: number; hash: string };

const shown = ({ at, hash, ...row }: Stored): Omit<AuditRow, "hash"> => ({
  ...row,
  at: new Date(at).toISOString(),
  class: row.action.split(".")[0] ?? "",
});
const toWire = (row: Stored): AuditRow => ({ ...shown(row), hash: row.hash });
const hashOf = (row: Stored): string => digestOf(shown(row));

type Who = Pick<Caller, "tenantId" | "credential">;
/** Leaves a row for the end of the commit. */
export function append(tx: Tx, { tenantId, credential }: Who, { action, subject, details = {}, requestId }: Entry): void {
  const { kind, id, name } = credential;
  tx.atEnd(chaining, { tenantId, at: tx.now, action, actor: { kind, id, name }, subject, details, requestId });
}

/** Rows of one commit stand in their chains in the order in which their units were done. */
const chaining: Finale<Unchained> = {
  rank: ranks.audit,
  say: async (rows) => {
    const chains = [...Map.groupBy(rows, ({ tenantId }) => tenantId)].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const heads = await together(chains.map(([tenantId]) => headOf(tenantId)));
    await together(chains.flatMap(([tenantId, its], i) => chain(tenantId, its, heads[i] as Head)));
  },
};

async function headOf(tenantId: string): Promise<Head> {
  const { rows } = await run(HEAD, [tenantId], "get");
  const [seq, hash] = (rows ?? []) as [number?, string?];
  if (seq === undefined || hash === undefined) throw new Error(`tenant ${tenantId} has no audit chain`);
  return { seq, hash };
}

function chain(tenantId: string, unchained: readonly Unchained[], { seq: first, hash: before }: Head): Promise<unknown>[] {
  let [seq, prevHash] = [first, before];
  const inserts = unchained.map((entry) => {
    const row: Stored = { ...entry, seq: (seq += 1), prevHash, hash: "" };
    row.hash = prevHash = hashOf(row);
    return insertRow.run(row);
  });
  return [...inserts, moveHead.run({ tenantId, seq, hash: prevHash })];
}

/** The actions that are asked for; undefined for any. */
function actionsIn({ action, class: name }: AuditQuery): string[] | undefined {
  if (action !== undefined) return name === undefined || action.startsWith(`${name}.`) ? [action] : [];
  return name === undefined ? undefined : Object.keys(auditActions).filter((one) => one.startsWith(`${name}.`));
}

/** The latest rows of each of these actions, off their index: asked for whole rows, SQLite would look through the chain. */
function latestOf(tenantId: string, actions: readonly string[], before: SQL, most: number): SQL {
  const latest = actions.map(
    (action, i) => sql`SELECT seq FROM (
      SELECT seq FROM audit_log WHERE tenant_id = ${tenantId} AND action = ${action} AND ${before} ORDER BY seq DESC LIMIT ${most}) ${sql.raw(`AS of${i}`)}`,
  );
  return sql`${auditLog.seq} IN (${actions.length === 0 ? sql`NULL` : sql.join(latest, sql` UNION ALL `)})`;
}

export async function list(tx: Tx, caller: Caller, query: AuditQuery): Promise<{ data: AuditRow[]; nextCursor: string | null }> {
  const { limit, after } = pageOf(query, SEQ);
  const { requestId } = query;
  const before = after === undefined ? sql`1 = 1` : sql`seq < ${Number(after)}`;
  const actions = actionsIn(query);
  const isAsked =
    actions === undefined || requestId !== undefined
      ? actions && inArray(auditLog.action, actions)
      : latestOf(caller.tenantId, actions, before, limit + 1);
  const rows = await tx.db
    .select()
    .from(auditLog)
    .where(
      and(eq(auditLog.tenantId, caller.tenantId), before, isAsked, requestId === undefined ? undefined : eq(auditLog.requestId, requestId)),
    )
    .orderBy(desc(auditLog.seq))
    .limit(limit + 1);
  return pageReply(rows, limit, ({ seq }) => String(seq), toWire);
}

/** Where the chain stands, and of which classes the rows are that came after one. */
export async function since(tx: Tx, tenantId: string, seq: number): Promise<{ seq: number; classes: Set<string> }> {
  const rows = await tx.db
    .select({ seq: auditLog.seq, action: auditLog.action })
    .from(auditLog)
    .where(and(eq(auditLog.tenantId, tenantId), gt(auditLog.seq, seq)))
    .orderBy(desc(auditLog.seq))
    .limit(SINCE_MAX_ROWS);
  return { seq: rows[0]?.seq ?? seq, classes: new Set(rows.map(({ action }) => action.split(".")[0] ?? "")) };
}

/** When its latest row was written. */
export const latestAt = async (tx: Tx, tenantId: string): Promise<number> => {
  const isIts = eq(auditLog.tenantId, tenantId);
  return (await tx.db.select({ at: auditLog.at }).from(auditLog).where(isIts).orderBy(desc(auditLog.seq)).limit(1).get())?.at ?? 0;
};

/**
 * Walks the chain from its first row, or through its last ones only, to the head seen at the start, a slice a unit with a turn for others between,
 * and names the first row that doesn't hold.
 */
export async function verify(store: Store, tenantId: string, lastRows = Infinity): Promise<AuditVerdict> {
  const [head = NO_HEAD, last] = await store.read(
    "audit head",
    async (tx) =>
      [
        await tx.db.select().from(auditHeads).where(eq(auditHeads.tenantId, tenantId)).get(),
        await tx.db
          .select({ seq: max(auditLog.seq) })
          .from(auditLog)
          .where(eq(auditLog.tenantId, tenantId))
          .get(),
      ] as const,
  );
  let seq = Math.max(0, head.seq - lastRows);
  let hash = seq === 0 ? FIRST_HASH : await hashAt(store, tenantId, seq);
  const verdict = (fault?: string): AuditVerdict => ({
    valid: fault === undefined,
    rows: seq,
    head: { seq: head.seq, hash: head.hash },
    firstBroken: fault === undefined ? null : { seq: seq + 1, fault },
  });
  while (seq < head.seq) {
    const rows = await sliceAfter(store, tenantId, seq, Math.min(SLICE_ROWS, head.seq - seq));
    if (!rows) return verdict("the row can't be read: a column isn't what was written");
    for (const row of rows) {
      const fault = faultOf(row, seq + 1, hash);
      if (fault) return verdict(fault);
      seq = row.seq;
      hash = row.hash;
    }
    if (rows.length === 0) return verdict("the row is missing: the chain ends before its head");
    await turn();
  }
  if (hash !== head.hash) {
    seq -= 1;
    return verdict("the head names another hash: the last rows were written anew");
  }
  if ((last?.seq ?? 0) > seq) return verdict("the row lies beyond the head: it was put there, or the head set back");
  return head === NO_HEAD ? verdict("the chain has no head") : verdict();
}
const hashAt = (store: Store, tenantId: string, seq: number): Promise<string> =>
  store.read("audit row", async (tx) => {
    const isRow = and(eq(auditLog.tenantId, tenantId), eq(auditLog.seq, seq));
    return (await tx.db.select({ hash: auditLog.hash }).from(auditLog).where(isRow).get())?.hash ?? "";
  });
const NO_HEAD = { seq: 0, hash: FIRST_HASH };

/** Rows in order; undefined where the very first of them can't even be read. */
async function sliceAfter(store: Store, tenantId: string, seq: number, most: number): Promise<Stored[] | undefined> {
  try {
    return await store.read("audit verify", async (tx) =>
      tx.db
        .select()
        .from(auditLog)
        .where(and(eq(auditLog.tenantId, tenantId), gt(auditLog.seq, seq)))
        .orderBy(asc(auditLog.seq))
        .limit(most),
    );
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return most === 1 ? undefined : sliceAfter(store, tenantId, seq, Math.ceil(most / 2));
  }
}

function faultOf(row: Stored, seq: number, prevHash: string): string | undefined {
  if (row.seq !== seq) return `the row is missing: ${row.seq} follows ${seq - 1}`;
  if (row.prevHash !== prevHash) return "the row doesn't point to the one before it";
  if (hashOf(row) !== row.hash) return "the row's content isn't what its hash says";
  return undefined;
}
