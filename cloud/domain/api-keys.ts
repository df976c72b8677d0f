// API keys: minted, rotated, revoked. A secret leaves here once; what stays is its hash.
import { and, eq, isNull } from "../store/drizzle.ts";
import { newIdIn } from "./ids.ts";
import { invalid, Refusal } from "#shared/errors.ts";
import { holds } from "#shared/scopes.ts";
import type { ApiKey } from "#shared/wire/credentials.ts";
import { apiKeys, devices } from "../store/schema.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { db, overtaken, type Tx } from "../store/store.ts";
import { type Caller, credentialDied } from "./callers.ts";
import { found } from "./found.ts";
import { instant } from "./instant.ts";
import { newestOf, type PageQuery } from "./page.ts";
import { hashOf, lookupOf, mintSecret, shownOf } from "./secrets.ts";

type Row = typeof apiKeys.$inferSelect;
const insertNew = prepared(db.insert(apiKeys).values(placesOf(apiKeys)).onConflictDoNothing().returning({ id: apiKeys.id }));
export type Minted = ApiKey & { secret: string };

const toWire = ({ id, name, scopes, prefix, deviceId, createdAt, revokedAt }: Row): ApiKey => ({
  id,
  name,
  scopes,
  prefix,
  deviceId,
  createdAt: instant(createdAt),
  revokedAt: instant(revokedAt),
});

/** Nobody hands out what they don't hold: not when minting, and not when rotating somebody else's key. */
export function mayGrant(caller: Caller, scopes: readonly string[]): void {
  const lacking = scopes.filter((scope) => !holds(caller.scopes, scope));
  if (lacking.length > 0)
    throw new Refusal("API_SCOPE_DENIED", `you can't grant what you don't hold: ${lacking.join(", ")}`, {
      required: lacking,
      available: caller.scopes,
    });
}

type Input = { name: string; scopes: string[]; deviceId?: string | null; bootstrap?: boolean; secret?: string };

/** Undefined when the secret is taken, which only one of the operator's own choosing can be. */
export async function insertUnlessTaken(tx: Tx, tenantId: string, input: Input): Promise<Minted | undefined> {
  const { name, scopes, deviceId = null, bootstrap = false, secret = mintSecret() } = input;
  const hash = hashOf(secret);
  const row: Row = {
    id: newIdIn(tx),
    tenantId,
    name,
    scopes,
    lookup: lookupOf(hash),
    hash,
    prefix: shownOf(secret),
    deviceId,
    bootstrap,
    createdAt: tx.now,
    revokedAt: null,
  };
  return (await insertNew.get(row)) === undefined ? undefined : { ...toWire(row), secret };
}

export async function insert(tx: Tx, tenantId: string, input: Omit<Input, "secret">): Promise<Minted> {
  const minted = await insertUnlessTaken(tx, tenantId, input);
  if (!minted) throw new Error("256 random bits came up twice");
  return minted;
}

export async function mint(tx: Tx, caller: Caller, input: { name: string; scopes: string[] }): Promise<Minted> {
  mayGrant(caller, input.scopes);
  return insert(tx, caller.tenantId, input);
}

const mine = (caller: Caller, id: string) => and(eq(apiKeys.tenantId, caller.tenantId), eq(apiKeys.id, id));

const find = async (tx: Tx, caller: Caller, id: string): Promise<Row> =>
  found("key", await tx.db.select().from(apiKeys).where(mine(caller, id)).get());

export const get = async (tx: Tx, caller: Caller, id: string): Promise<ApiKey> => toWire(await find(tx, caller, id));

export async function revoke(tx: Tx, caller: Caller, id: string): Promise<Row> {
  const { name } = await find(tx, caller, id);
  const [dead] = await revokeLive(tx, caller, id);
  if (!dead) throw new Refusal("ALREADY_REVOKED", `"${name}" is already revoked; if it was rotated, the live key has another id`);
  credentialDied(tx);
  return dead;
}

/** Makes a key the device's, by whoever could have minted it: it dies with the device. Only one that is nobody's yet can become it. */
export async function bind(tx: Tx, caller: Caller, id: string, deviceId: string): Promise<Row> {
  const { name, scopes, revokedAt, deviceId: owner, bootstrap } = await find(tx, caller, id);
  mayGrant(caller, scopes);
  if (revokedAt !== null) throw new Refusal("ALREADY_REVOKED", `api_key_id: "${name}" is revoked`);
  if (owner !== null || bootstrap)
    throw invalid([{ field: "api_key_id", rule: "bound", message: "is a key that another device, or the operator, has" }]);
  const isFree = and(mine(caller, id), isNull(apiKeys.deviceId), isNull(apiKeys.revokedAt));
  const [bound] = await tx.db.update(apiKeys).set({ deviceId }).where(isFree).returning();
  if (!bound) throw overtaken(`key ${id}`);
  credentialDied(tx); // as what it was
  return bound;
}

function revokeLive(tx: Tx, caller: Caller, id: string) {
  const isLive = and(mine(caller, id), isNull(apiKeys.revokedAt));
  return tx.db.update(apiKeys).set({ revokedAt: tx.now }).where(isLive).returning();
}

export async function revokeIfLive(tx: Tx, caller: Caller, id: string): Promise<void> {
  if ((await revokeLive(tx, caller, id)).length > 0) credentialDied(tx);
}

/** The old secret dies in the commit that brings the new one; the new key is a new row with a new id, and its device's key from then on. */
export async function rotate(tx: Tx, caller: Caller, id: string): Promise<Minted> {
  mayGrant(caller, (await find(tx, caller, id)).scopes);
  const { name, scopes, deviceId, bootstrap } = await revoke(tx, caller, id);
  const minted = await insert(tx, caller.tenantId, { name, scopes, deviceId, bootstrap });
  if (deviceId !== null)
    await tx.db
      .update(devices)
      .set({ apiKeyId: minted.id, updatedAt: tx.now })
      .where(and(eq(devices.tenantId, caller.tenantId), eq(devices.id, deviceId)));
  return minted;
}

export const list = (tx: Tx, caller: Caller, query: PageQuery) =>
  newestOf(tx, query, { table: apiKeys, where: eq(apiKeys.tenantId, caller.tenantId), toWire });
