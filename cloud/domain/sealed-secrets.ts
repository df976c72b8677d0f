// Secrets that lie sealed in the store, across all tenants: which keys closed them, and closing them anew with the newest.
import { and, asc, count, eq, gt, like, or, sql } from "../store/drizzle.ts";
import { ID_LENGTH, type Seal } from "../seal.ts";
import { webhooks } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

/** How many secrets each key has closed, by the key's name. */
export async function countByKey(tx: Tx): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const column of [webhooks.secret, webhooks.previousSecret]) {
    const id = sql<string | null>`substr(${column}, 1, ${sql.raw(String(ID_LENGTH))})`;
    const rows = await tx.db.select({ id, secrets: count() }).from(webhooks).groupBy(id);
    for (const row of rows) if (row.id !== null) counts.set(row.id, (counts.get(row.id) ?? 0) + row.secrets);
  }
  return counts;
}

/** A slice of what former keys closed, by id; `last` is where the next slice begins, undefined at the end. */
export async function reseal(tx: Tx, seal: Seal, after: string, most: number): Promise<{ moved: number; last: string | undefined }> {
  const byFormer = seal.former.flatMap((id) => [like(webhooks.secret, `${id}.%`), like(webhooks.previousSecret, `${id}.%`)]);
  const rows = await tx.db
    .select()
    .from(webhooks)
    .where(and(gt(webhooks.id, after), or(...byFormer)))
    .orderBy(asc(webhooks.id))
    .limit(most);
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
