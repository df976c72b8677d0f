// Secrets that lie sealed in the store, across all tenants: which keys closed them, and closing those of webhooks anew with the newest.
import { and, asc, count, eq, gt, isNotNull, like, or, sql } from "../store/drizzle.ts";
import { ID_LENGTH, type Seal } from "../seal.ts";
import { serialCounters, webhooks } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

/** How many secrets of one kind one key has closed; null: they lie in clear. */
export type Closed = { kind: "webhook" | "serial" | "signing"; keyId: string | null; secrets: number };

const places = [
  { kind: "webhook", table: webhooks, column: webhooks.secret },
  { kind: "webhook", table: webhooks, column: webhooks.previousSecret, until: webhooks.previousUntil },
  { kind: "serial", table: serialCounters, column: serialCounters.sealed, given: gt(serialCounters.next, 1) }, // before the first serial another one does as well
] as const;

/** Those that are still needed: a secret that was replaced signs for a day beside the one that replaced it, and stays. */
export async function countByKey(tx: Tx): Promise<Closed[]> {
  const found: Closed[] = [];
  for (const { kind, table, column, ...rest } of places) {
    const keyId = sql<string | null>`substr(${column}, 1, ${sql.raw(String(ID_LENGTH))})`;
    const where = "until" in rest ? and(isNotNull(column), gt(rest.until, tx.now)) : "given" in rest ? rest.given : undefined;
    const rows = await tx.db.select({ keyId, secrets: count() }).from(table).where(where).groupBy(keyId);
    found.push(...rows.map((row) => ({ kind, ...row })));
  }
  return found;
}

/** A slice of what former keys closed, by id; `last` is where the next slice begins, undefined at the end. */
export async function reseal(tx: Tx, seal: Seal, after: string, most: number): Promise<{ moved: number; last: string | undefined }> {
  if (seal.former.length === 0) return { moved: 0, last: undefined };
  const byFormer = seal.former.flatMap((id) => [like(webhooks.secret, `${id}.%`), like(webhooks.previousSecret, `${id}.%`)]);
  const isNext = and(gt(webhooks.id, after), or(...byFormer));
  const rows = await tx.db.select().from(webhooks).where(isNext).orderBy(asc(webhooks.id)).limit(most);
  let moved = 0;
  for (const { tenantId, id, revision, secret, previousSecret } of rows) {
    const anew = { secret: closedAnew(seal, secret), previousSecret: previousSecret && closedAnew(seal, previousSecret) };
    if (anew.secret === secret && anew.previousSecret === previousSecret) continue; // damaged: its delivery says so
    const changed = await tx.db
      .update(webhooks)
      .set({ ...anew, revision: revision + 1 })
      .where(and(eq(webhooks.tenantId, tenantId), eq(webhooks.id, id), eq(webhooks.revision, revision)))
      .returning({ id: webhooks.id });
    moved += changed.length; // whoever was faster is met at the next round
  }
  return { moved, last: rows.length < most ? undefined : rows.at(-1)?.id };
}

function closedAnew(seal: Seal, sealed: string): string {
  if (sealed.startsWith(`${seal.id}.`)) return sealed;
  const text = seal.open(sealed);
  return text === undefined ? sealed : seal.close(text);
}
