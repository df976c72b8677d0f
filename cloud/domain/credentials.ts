// Who is calling: a key by its hash, a client by its secret, a token's client by its id. Each read anew, so that a revocation counts at once.
import { and, eq, isNull, sql } from "drizzle-orm";
import type { Caller } from "../route.ts";
import { apiKeys, oauthClients, tenants } from "../store/schema.ts";
import { db, type Tx } from "../store/store.ts";
import { hashOf, lookupOf, matches } from "./secrets.ts";

/** A caller, and whether the tenant behind it is a sandbox past its end. */
export type Known = { caller: Caller; expired: boolean };

const keyByLookup = db
  .select()
  .from(apiKeys)
  .innerJoin(tenants, eq(tenants.id, apiKeys.tenantId))
  .where(eq(apiKeys.lookup, sql.placeholder("lookup")))
  .prepare();
const clientById = db
  .select()
  .from(oauthClients)
  .innerJoin(tenants, eq(tenants.id, oauthClients.tenantId))
  .where(and(eq(oauthClients.id, sql.placeholder("id")), isNull(oauthClients.deletedAt)))
  .prepare();

const isExpired = (tx: Tx, { sandbox, expiresAt }: typeof tenants.$inferSelect) => sandbox && expiresAt !== null && expiresAt <= tx.now;

export async function byKey(tx: Tx, secret: string): Promise<Known | undefined> {
  const found = await keyByLookup.get({ lookup: lookupOf(hashOf(secret)) });
  if (!found || !matches(secret, found.api_keys.hash) || found.api_keys.revokedAt !== null) return undefined;
  const { id, name, scopes, deviceId } = found.api_keys;
  const caller: Caller = {
    tenantId: found.tenants.id,
    credential: { kind: "api_key", id, name },
    scopes,
    deviceId,
    tier: deviceId === null ? found.tenants.tier : "device",
  };
  return { caller, expired: isExpired(tx, found.tenants) };
}

/** A token's client, or one that names itself with its secret; `genuine` says whether the secret was right. */
export async function byClient(tx: Tx, id: string, proof: { secret: string } | { scopes: string[] }): Promise<(Known & { genuine: boolean }) | undefined> {
  const found = await clientById.get({ id });
  if (!found) return undefined;
  const { name, scopes, hash } = found.oauth_clients;
  const genuine = "scopes" in proof || matches(proof.secret, hash);
  const caller: Caller = {
    tenantId: found.tenants.id,
    credential: { kind: "oauth_client", id, name },
    scopes: "scopes" in proof ? proof.scopes : scopes,
    deviceId: null,
    tier: found.tenants.tier,
  };
  return { caller, expired: isExpired(tx, found.tenants), genuine };
}
