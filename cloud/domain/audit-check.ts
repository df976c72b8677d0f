// An audit chain recomputed from its rows: each against its own hash and the row before it, the last against the head.
import { setImmediate as turn } from "node:timers/promises";
import { saying } from "#shared/sayings.ts";
import { and, asc, eq, gt, max } from "../store/drizzle.ts";
import type { AuditVerdict } from "#shared/wire/audit.ts";
import { auditHeads, auditLog } from "../store/schema.ts";
import type { Store } from "../store/store.ts";
import { FIRST_HASH, hashOf, type Stored } from "./audit.ts";

const SLICE_ROWS = 250; // recomputed within some 10 ms
const NO_HEAD = { seq: 0, hash: FIRST_HASH };

/**
 * Walks the chain from its first row, or through its last ones only, to the head seen at the start, a slice a unit with a turn for others between,
 * and names the first row that doesn't hold.
 */
export async function judgeChain(store: Store, tenantId: string, lastRows = Infinity): Promise<AuditVerdict> {
  const { head, last } = await store.read("audit head", async ({ db }) => {
    const latest = db.select({ seq: max(auditLog.seq) }).from(auditLog);
    return {
      head: (await db.select().from(auditHeads).where(eq(auditHeads.tenantId, tenantId)).get()) ?? NO_HEAD,
      last: (await latest.where(eq(auditLog.tenantId, tenantId)).get())?.seq ?? 0,
    };
  });
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
    if (!rows) return verdict(saying("row_unreadable"));
    for (const row of rows) {
      const fault = faultOf(row, seq + 1, hash);
      if (fault) return verdict(fault);
      seq = row.seq;
      hash = row.hash;
    }
    if (rows.length === 0) return verdict(saying("row_missing"));
    await turn();
  }
  if (hash !== head.hash) {
    seq -= 1;
    return verdict(saying("head_other"));
  }
  if (last > seq) return verdict(saying("row_beyond"));
  return head === NO_HEAD ? verdict(saying("no_head")) : verdict();
}

/** What is wrong with a tenant's chain, in a sentence. */
export const faultIn = (tenantId: string, { firstBroken }: AuditVerdict): string | undefined =>
  firstBroken ? `the audit chain of tenant ${tenantId} breaks at row ${firstBroken.seq}: ${firstBroken.fault}` : undefined;

const hashAt = (store: Store, tenantId: string, seq: number): Promise<string> =>
  store.read("audit row", async (tx) => {
    const isRow = and(eq(auditLog.tenantId, tenantId), eq(auditLog.seq, seq));
    return (await tx.db.select({ hash: auditLog.hash }).from(auditLog).where(isRow).get())?.hash ?? "";
  });

/** Rows in order; undefined where the very first of them can't even be read. */
async function sliceAfter(store: Store, tenantId: string, seq: number, most: number): Promise<Stored[] | undefined> {
  const isLater = and(eq(auditLog.tenantId, tenantId), gt(auditLog.seq, seq));
  try {
    return await store.read("audit verify", async (tx) =>
      tx.db.select().from(auditLog).where(isLater).orderBy(asc(auditLog.seq)).limit(most),
    );
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return most === 1 ? undefined : sliceAfter(store, tenantId, seq, Math.ceil(most / 2));
  }
}

function faultOf(row: Stored, seq: number, prevHash: string): string | undefined {
  if (row.seq !== seq) return saying("row_follows", { row: row.seq, before: seq - 1 });
  if (row.prevHash !== prevHash) return saying("row_unlinked");
  if (hashOf(row) !== row.hash) return saying("row_changed");
  return undefined;
}
