// Same key, same request: one effect and one answer. The record is claimed before the effect and commits with it.
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from "node:crypto";
import { and, eq, lte, sql } from "drizzle-orm";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import type { Caller } from "../route.ts";
import { idempotency } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";

/** An answer ready to leave. `keep` is what a replay shows, where that differs from what is sent now. */
export type Answer = { status: number; headers: Record<string, string>; body: string | null; keep?: string };
export type Once = { scope: Buffer; key: string; fingerprint: Buffer; keepMs?: number; lockWith?: string };

export const scopeOf = (caller: Caller, label: string): Buffer =>
  createHash("sha256").update(`${caller.tenantId}\n${caller.credential.id}\n${label}`).digest().subarray(0, 16);

const at = { scope: sql.placeholder("scope"), key: sql.placeholder("key") };

// A row that is still uncommitted elsewhere makes this wait; one that has expired is taken over as if it weren't there.
const claim = db
  .insert(idempotency)
  .values({ ...at, fingerprint: sql.placeholder("fingerprint"), status: 0, headers: {}, body: null, expiresAt: sql.placeholder("expiresAt") })
  .onConflictDoUpdate({
    target: [idempotency.scope, idempotency.key],
    set: { fingerprint: sql`excluded.fingerprint`, expiresAt: sql`excluded.expires_at` },
    setWhere: sql`${idempotency.expiresAt} <= ${sql.placeholder("now")}`,
  })
  .returning({ key: idempotency.key })
  .prepare();
const find = db
  .select()
  .from(idempotency)
  .where(and(eq(idempotency.scope, at.scope), eq(idempotency.key, at.key)))
  .prepare();
const record = db
  .update(idempotency)
  .set({ status: sql`${sql.placeholder("status")}`, headers: sql`${sql.placeholder("headers")}`, body: sql`${sql.placeholder("body")}` })
  .where(and(eq(idempotency.scope, at.scope), eq(idempotency.key, at.key)))
  .prepare();

export async function once(tx: Tx, { scope, key, fingerprint, keepMs = limits.IDEMPOTENCY_KEEP_MS, lockWith }: Once, run: () => Promise<Answer>): Promise<Answer> {
  const claimed = await claim.get({ scope, key, fingerprint, expiresAt: tx.now + keepMs, now: tx.now });
  if (!claimed) return replay(await find.get({ scope, key }), fingerprint, lockWith);
  const answer = await tx.attempt(run).catch(refusalAsAnswer);
  const kept = answer.keep ?? answer.body;
  const body = kept !== null && lockWith ? lock(kept, lockWith) : kept;
  await record.run({ scope, key, status: answer.status, headers: JSON.stringify(answer.headers), body });
  return answer;
}

function replay(row: typeof idempotency.$inferSelect | undefined, fingerprint: Buffer, lockWith: string | undefined): Answer {
  if (!row) throw new Error("a claimed idempotency key has no row");
  if (!row.fingerprint.equals(fingerprint)) throw new Refusal("IDEMPOTENCY_CONFLICT");
  const body = row.body !== null && lockWith ? unlock(row.body, lockWith) : row.body;
  return { status: row.status, headers: { ...row.headers, "idempotency-replayed": "true" }, body };
}

/** A refusal undoes what the route did and is an answer like another: the same request gets it again. Faults aren't answers. */
function refusalAsAnswer(error: unknown): Answer {
  if (!(error instanceof Refusal) || error.status >= 500) throw error;
  return { status: error.status, headers: error.headers, body: JSON.stringify(error.body) };
}

// An answer that is itself a secret is locked with the secret of the request that asked for it: the database alone can't open it.
const keyFrom = (secret: string, salt: Buffer) => Buffer.from(hkdfSync("sha256", secret, salt, "imprimatur replay", 32));

function lock(text: string, secret: string): string {
  const salt = randomBytes(16);
  const nonce = randomBytes(12);
  const cipher = createCipheriv("aes-256-gcm", keyFrom(secret, salt), nonce);
  const sealed = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
  return Buffer.concat([salt, nonce, cipher.getAuthTag(), sealed]).toString("base64");
}

function unlock(locked: string, secret: string): string {
  const bytes = Buffer.from(locked, "base64");
  const decipher = createDecipheriv("aes-256-gcm", keyFrom(secret, bytes.subarray(0, 16)), bytes.subarray(16, 28));
  decipher.setAuthTag(bytes.subarray(28, 44));
  return Buffer.concat([decipher.update(bytes.subarray(44)), decipher.final()]).toString("utf8");
}

/** Forgets about `most` answers whose time is over, oldest first; says how many. */
export async function forget(tx: Tx, most: number): Promise<number> {
  const over = lte(idempotency.expiresAt, tx.now);
  const edge = await tx.db.select({ at: idempotency.expiresAt }).from(idempotency).where(over).orderBy(idempotency.expiresAt).limit(1).offset(most).get();
  const gone = await tx.db
    .delete(idempotency)
    .where(edge ? lte(idempotency.expiresAt, edge.at) : over)
    .returning({ expiresAt: idempotency.expiresAt });
  return gone.length;
}
