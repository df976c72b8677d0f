// What makes a tenant's serials unguessable: a secret that lies sealed in its row, is opened when serials are allocated, and can't be replaced by another.
import { randomBytes } from "node:crypto";
import { and, asc, eq, gt, isNull, like, lt, notInArray, or } from "../store/drizzle.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { keyIdOf, type Opener, type Seal } from "../seal.ts";
import { counters, serialCounters, tenants } from "../store/schema.ts";
import { together, type Tx } from "../store/store.ts";

type Row = typeof serialCounters.$inferSelect;
type Kept = Pick<Row, "secret" | "sealed">;

const SECRET_BYTES = 32;
const NOTHING = Buffer.alloc(0);
const RETRY_S = 60;
const sealedBy = (seal: Seal, secret: Buffer): Kept => ({ secret: NOTHING, sealed: seal.close(secret.toString("base64")) });

/** Undefined where it can't be opened here. */
function opened({ secret, sealed }: Kept, { open }: Opener): Buffer | undefined {
  if (sealed === null) return secret;
  const bytes = Buffer.from(open(sealed) ?? "", "base64");
  return bytes.length === SECRET_BYTES ? bytes : undefined;
}

/** Another secret would be another permutation, and give out serials that are on labels: so there is no going on without this one. */
export function secretOf(kept: Kept, opener: Opener): Buffer {
  const secret = opened(kept, opener);
  if (secret) return secret;
  const cause = new Error(`a serial secret that the sealing key ${keyIdOf(kept.sealed ?? "")} closed can't be opened`);
  const message =
    "what this tenant's serials are made with is sealed with a key that this node can't open it with, and no serial is given out meanwhile: " +
    "whoever runs this cloud has to bring that key back, as a further line of IMPRIMATUR_SEALING_KEY on every node or in sealing-key of the data folder";
  throw Object.assign(new Refusal("SERIALS_UNAVAILABLE", message, undefined, { "retry-after": String(RETRY_S) }), { cause });
}

/** Of which no serial was given out yet, and which can't be opened: another one takes its place. */
export async function renewedUnopened(tx: Tx, row: Row, seal: Seal): Promise<Kept> {
  if (opened(row, seal)) return row;
  const kept = await fresh(tx, seal);
  await tx.db.update(serialCounters).set(kept).where(eq(serialCounters.tenantId, row.tenantId));
  return kept;
}

const UNTIL = eq(counters.name, "serials_in_clear_until");
/** Nodes of the version before may run: they read secrets in clear only. */
async function maybeReadInClear(tx: Tx): Promise<boolean> {
  const row = await tx.db.select().from(counters).where(UNTIL).get();
  return row !== undefined && (row.value < 0 || tx.now < row.value);
}

async function fresh(tx: Tx, seal: Seal): Promise<Kept> {
  const secret = randomBytes(SECRET_BYTES);
  return (await maybeReadInClear(tx)) ? { secret, sealed: null } : sealedBy(seal, secret);
}

/**
 * The tenant's, where it has none. It comes with the tenant and not with its first serial: from a backup taken between the two others would be made than those
 * that are on labels, which could meet them, and no label that the restore has lost could be told from one that was made up.
 */
export async function begin(tx: Tx, tenantId: string, seal: Seal): Promise<void> {
  await tx.db
    .insert(serialCounters)
    .values({ tenantId, ...(await fresh(tx, seal)), next: 1 })
    .onConflictDoNothing();
}

/** Of the first tenant, which is there before anything can be sealed, and of those that a version before made: so many, and whether there may be more. */
export async function beginMissing(tx: Tx, seal: Seal, most: number): Promise<boolean> {
  const begun = tx.db.select({ id: serialCounters.tenantId }).from(serialCounters);
  const isMissing = notInArray(tenants.id, begun);
  const rows = await tx.db.select({ id: tenants.id }).from(tenants).where(isMissing).orderBy(asc(tenants.id)).limit(most);
  await together(rows.map(({ id }) => begin(tx, id, seal)));
  return rows.length === most;
}

/**
 * At every start; the first one on a store of the version before decides. Who is alone on it seals at once, else the other nodes have
 * a while to be replaced in. How many were sealed.
 */
export async function beginSealing(tx: Tx, seal: Seal, isAlone: boolean): Promise<number> {
  const until = isAlone ? 0 : tx.now + limits.SERIALS_IN_CLEAR_MS;
  const isUnset = and(UNTIL, lt(counters.value, 0));
  await tx.db.update(counters).set({ value: until }).where(isUnset);
  return isAlone ? sealAll(tx, seal) : 0;
}

/** The whole table is written anew: of rows that were only changed, copies of before would stay in its pages. */
async function sealAll(tx: Tx, seal: Seal): Promise<number> {
  const inClear = await tx.db.select({ tenantId: serialCounters.tenantId }).from(serialCounters).where(isNull(serialCounters.sealed));
  if (inClear.length === 0) return 0;
  const rows = await tx.db.select().from(serialCounters);
  await tx.db.delete(serialCounters);
  for (const row of rows) await tx.db.insert(serialCounters).values(row.sealed === null ? { ...row, ...sealedBy(seal, row.secret) } : row);
  return inClear.length;
}

/** A slice of what former keys closed or lies in clear, by tenant; `last` is where the next slice begins, undefined at the end. */
export async function reseal(tx: Tx, seal: Seal, after: string, most: number): Promise<{ moved: number; last: string | undefined }> {
  const wanted = seal.former.map((id) => like(serialCounters.sealed, `${id}.%`));
  if (!(await maybeReadInClear(tx))) wanted.push(isNull(serialCounters.sealed));
  if (wanted.length === 0) return { moved: 0, last: undefined };
  const isNext = and(gt(serialCounters.tenantId, after), or(...wanted));
  const rows = await tx.db.select().from(serialCounters).where(isNext).orderBy(asc(serialCounters.tenantId)).limit(most);
  let moved = 0;
  for (const row of rows) {
    const secret = opened(row, seal);
    if (!secret) continue; // damaged: who asks for serials is told
    const asRead = row.sealed === null ? isNull(serialCounters.sealed) : eq(serialCounters.sealed, row.sealed);
    const changed = await tx.db
      .update(serialCounters)
      .set(sealedBy(seal, secret))
      .where(and(eq(serialCounters.tenantId, row.tenantId), asRead))
      .returning({ tenantId: serialCounters.tenantId });
    moved += changed.length; // whoever was faster closed it
  }
  return { moved, last: rows.length < most ? undefined : rows.at(-1)?.tenantId };
}
