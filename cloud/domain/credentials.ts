// Who is calling: a key by its hash, a client by its secret, a token's client by its id. Each read anew, so that a revocation counts at once.
import { and, eq, isNull, sql } from "../store/drizzle.ts";
import type { Caller } from "../route.ts";
import { apiKeys, oauthClients, tenants } from "../store/schema.ts";
import { prepared } from "../store/prepared.ts";
import { db, type Tx } from "../store/store.ts";
import { hashOf, lookupOf, matches } from "./secrets.ts";

/** A caller, and when the sandbox behind it ends, if it is one that ends. */
export type Known = { caller: Caller; endsAt: number | null };

export const hasEnded = ({ endsAt }: Known, now: number): boolean => endsAt !== null && endsAt <= now;

let epoch = 0;
/** Moves on whenever a credential may have died, so that whoever remembers callers knows when to forget them. */
export const credentialEpoch = (): number => epoch;
export const credentialDied = (tx: Tx): void =>
  tx.after(() => {
    epoch += 1;
  });

const keyByLookup = prepared(
  db
    .select()
    .from(apiKeys)
    .innerJoin(tenants, eq(tenants.id, apiKeys.tenantId))
    .where(eq(apiKeys.lookup, sql.placeholder("lookup"))),
);
const clientById = prepared(
  db
    .select()
    .from(oauthClients)
    .innerJoin(tenants, eq(tenants.id, oauthClients.tenantId))
    .where(and(eq(oauthClients.id, sql.placeholder("id")), isNull(oauthClients.deletedAt))),
);

const endOf = ({ sandbox, expiresAt }: typeof tenants.$inferSelect): number | null => (sandbox ? expiresAt : null);

export async function byKey(_tx: Tx, secret: string): Promise<Known | undefined> {
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
  return { caller, endsAt: endOf(found.tenants) };
}

/** A token's client, or one that names itself with its secret; `genuine` says whether the secret was right. */
export async function byClient(
  _tx: Tx,
  id: string,
  proof: { secret: string } | { scopes: string[] },
): Promise<(Known & { genuine: boolean }) | undefined> {
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
  return { caller, endsAt: endOf(found.tenants), genuine };
}
