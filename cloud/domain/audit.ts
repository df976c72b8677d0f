// The audit log: a hash chain per tenant, appended in the commit of what it tells of, recomputable by anybody who may read it.
import { and, desc, eq, gt, inArray, max, sql } from "../store/drizzle.ts";
import type { SQL } from "drizzle-orm";
import { digestOf } from "#shared/canonical.ts";
import { type AuditAction, auditActionNames, auditClasses, classOf } from "#shared/audit.ts";
import type { AuditQuery, AuditRow } from "#shared/wire/audit.ts";
import { auditHeads, auditLog, tenants } from "../store/schema.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { db, type Finale, inTurn, LOCKED, run, together, type Tx } from "../store/store.ts";
import type { Caller } from "./callers.ts";
import { instant } from "./instant.ts";
import { pageOf, pageReply, SEQ } from "./page.ts";
import { ranks } from "./ranks.ts";

export const FIRST_HASH = "0".repeat(64);
const SINCE_MAX_ROWS = 1_000;

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

export type Stored = typeof auditLog.$inferSelect;
type Unchained = Omit<Stored, "seq" | "prevHash" | "hash">;
type Head = { seq: number; hash: string };

const shown = ({ at, hash, ...row }: Stored): Omit<AuditRow, "hash"> => ({
  ...row,
  at: instant(at),
  class: classOf(row.action),
});
const toWire = (row: Stored): AuditRow => ({ ...shown(row), hash: row.hash });
export const hashOf = (row: Stored): string => digestOf(shown(row));

type Who = Pick<Caller, "tenantId" | "credential">;
/** Who does it where nobody asked: a part of ours, by its name. */
export const ourselves = (tenantId: string, name: string): Who => ({ tenantId, credential: { kind: "system", id: "system", name } });
/** Leaves a row for the end of the commit. */
export function append(tx: Tx, { tenantId, credential }: Who, { action, subject, details = {}, requestId }: Entry): void {
  const { kind, id, name } = credential;
  tx.atEnd(chaining, { tenantId, at: tx.now, action, actor: { kind, id, name }, subject, details, requestId });
}

/** Rows of one commit stand in their chains in the order in which their units were done. */
const chaining: Finale<Unchained> = {
  rank: ranks.audit,
  say: async (rows) => {
    const chains = inTurn(
      Map.groupBy(rows, ({ tenantId }) => tenantId),
      ([tenantId]) => tenantId,
    );
    const headed = await together(chains.map(async ([tenantId, its]) => ({ tenantId, its, head: await headOf(tenantId) })));
    return () => together(headed.flatMap(({ tenantId, its, head }) => chain(tenantId, its, head)));
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
  if (action !== undefined) return name === undefined || classOf(action) === name ? [action] : [];
  return name === undefined ? undefined : auditActionNames.filter((one) => classOf(one) === name);
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
  const { limit, most, after } = pageOf(query, SEQ);
  const { requestId } = query;
  const before = after === undefined ? sql`1 = 1` : sql`seq < ${Number(after)}`;
  const actions = actionsIn(query);
  const isAsked =
    actions === undefined || requestId !== undefined
      ? actions && inArray(auditLog.action, actions)
      : latestOf(caller.tenantId, actions, before, most);
  const isOfRequest = requestId === undefined ? undefined : eq(auditLog.requestId, requestId);
  const isIts = and(eq(auditLog.tenantId, caller.tenantId), before, isAsked, isOfRequest);
  const rows = await tx.db.select().from(auditLog).where(isIts).orderBy(desc(auditLog.seq)).limit(most);
  return pageReply(rows, limit, ({ seq }) => String(seq), toWire);
}

/** Where the chain stands, and of which classes the rows are that came after one; perhaps of all, where more came than are looked at. */
export async function since(tx: Tx, tenantId: string, seq: number): Promise<{ seq: number; classes: Set<string> }> {
  const rows = await tx.db
    .select({ seq: auditLog.seq, action: auditLog.action })
    .from(auditLog)
    .where(and(eq(auditLog.tenantId, tenantId), gt(auditLog.seq, seq)))
    .orderBy(desc(auditLog.seq))
    .limit(SINCE_MAX_ROWS);
  const seen = rows.length < SINCE_MAX_ROWS ? rows.map(({ action }) => classOf(action)) : auditClasses;
  return { seq: rows[0]?.seq ?? seq, classes: new Set(seen) };
}

/** When its latest row was written. */
export const latestAt = async (tx: Tx, tenantId: string): Promise<number> => {
  const isIts = eq(auditLog.tenantId, tenantId);
  return (await tx.db.select({ at: auditLog.at }).from(auditLog).where(isIts).orderBy(desc(auditLog.seq)).limit(1).get())?.at ?? 0;
};
