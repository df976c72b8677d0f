// Console sessions: a random cookie that stands for a credential for a shift. It dies with the credential, and the store never knows it.
import { randomBytes } from "node:crypto";
import { and, eq, gt, inArray, lte, sql } from "../store/drizzle.ts";
import { limits } from "#shared/limits.ts";
import { prepared } from "../store/prepared.ts";
import { consoleSessions } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import { byId, type Caller, credentialDied, type Known } from "./callers.ts";
import { hashOf } from "./secrets.ts";

const keptAs = (cookie: string): string => hashOf(cookie).toString("hex");
const isLiving = and(eq(consoleSessions.hash, sql.placeholder("hash")), gt(consoleSessions.endsAt, sql.placeholder("now")));
const byHash = prepared(db.select().from(consoleSessions).where(isLiving));

export async function begin(tx: Tx, { tenantId, credential: { kind, id } }: Caller): Promise<{ cookie: string; endsAt: number }> {
  if (kind !== "api_key" && kind !== "oauth_client") throw new Error(`${kind} is no credential to sign in with`);
  const cookie = randomBytes(32).toString("base64url");
  const endsAt = tx.now + limits.CONSOLE_SESSION_LIFE_S * 1000;
  const row = { hash: keptAs(cookie), tenantId, credentialKind: kind, credentialId: id, createdAt: tx.now, endsAt };
  await tx.db.insert(consoleSessions).values(row);
  return { cookie, endsAt };
}

export type Session = { known: Known; endsAt: number };
/** Who signed in, as their credential is now; undefined once either has ended. */
export async function find(tx: Tx, cookie: string): Promise<Session | undefined> {
  const row = await byHash.get({ hash: keptAs(cookie), now: tx.now });
  if (!row) return undefined;
  const known = await byId(tx, row.credentialKind, row.credentialId);
  return known?.caller.tenantId === row.tenantId ? { known, endsAt: row.endsAt } : undefined;
}

export async function end(tx: Tx, cookie: string): Promise<void> {
  await tx.db.delete(consoleSessions).where(eq(consoleSessions.hash, keptAs(cookie)));
  credentialDied(tx); // whoever remembers the session forgets it
}

/** Forgets those that are over; how many. */
export async function forget(tx: Tx, most: number): Promise<number> {
  const over = tx.db.select({ hash: consoleSessions.hash }).from(consoleSessions).where(lte(consoleSessions.endsAt, tx.now)).limit(most);
  return (await tx.db.delete(consoleSessions).where(inArray(consoleSessions.hash, over)).returning({ hash: consoleSessions.hash })).length;
}
