// Who is calling: a key by its hash, a client by its secret, a token's client by its id. Each read anew, so that a revocation counts at once.
import { Refusal } from "#shared/errors.ts";
import type { Tier } from "#shared/limits.ts";
import type { SQL } from "drizzle-orm";
import { and, eq, isNull, sql } from "../store/drizzle.ts";
import { apiKeys, oauthClients, tenants } from "../store/schema.ts";
import { prepared } from "../store/prepared.ts";
import { db, type Tx } from "../store/store.ts";
import { hashOf, lookupOf, matches } from "./secrets.ts";

export type Caller = {
  tenantId: string;
  credential: { kind: "api_key" | "oauth_client" | "anonymous" | "system"; id: string; name: string };
  scopes: readonly string[];
  deviceId: string | null;
  tier: Tier;
};

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

const keyWhere = (which: SQL | undefined) =>
  prepared(db.select().from(apiKeys).innerJoin(tenants, eq(tenants.id, apiKeys.tenantId)).where(which));
const keyByLookup = keyWhere(eq(apiKeys.lookup, sql.placeholder("lookup")));
const keyById = keyWhere(and(eq(apiKeys.id, sql.placeholder("id")), isNull(apiKeys.revokedAt)));
const isLiving = and(eq(oauthClients.id, sql.placeholder("id")), isNull(oauthClients.deletedAt));
const clientById = prepared(db.select().from(oauthClients).innerJoin(tenants, eq(tenants.id, oauthClients.tenantId)).where(isLiving));

const endOf = ({ sandbox, expiresAt }: typeof tenants.$inferSelect): number | null => (sandbox ? expiresAt : null);

export async function byKey(_tx: Tx, secret: string): Promise<Known | undefined> {
  const found = await keyByLookup.get({ lookup: lookupOf(hashOf(secret)) });
  return found && matches(secret, found.api_keys.hash) && found.api_keys.revokedAt === null ? keyBy(found) : undefined;
}

type FoundKey = { api_keys: typeof apiKeys.$inferSelect; tenants: typeof tenants.$inferSelect };
const keyBy = ({ api_keys: { id, name, scopes, deviceId }, tenants: tenant }: FoundKey): Known => ({
  caller: {
    tenantId: tenant.id,
    credential: { kind: "api_key", id, name },
    scopes,
    deviceId,
    tier: deviceId === null ? tenant.tier : "device",
  },
  endsAt: endOf(tenant),
});

type FoundClient = { oauth_clients: typeof oauthClients.$inferSelect; tenants: typeof tenants.$inferSelect };
const clientBy = ({ oauth_clients: { id, name, scopes: granted }, tenants: tenant }: FoundClient, scopes = granted): Known => ({
  caller: { tenantId: tenant.id, credential: { kind: "oauth_client", id, name }, scopes, deviceId: null, tier: tenant.tier },
  endsAt: endOf(tenant),
});

/** A token's client, or one that names itself with its secret; `genuine` says whether the secret was right. */
export async function byClient(
  _tx: Tx,
  id: string,
  proof: { secret: string } | { scopes: string[] },
): Promise<(Known & { genuine: boolean }) | undefined> {
  const found = await clientById.get({ id });
  if (!found) return undefined;
  const genuine = "scopes" in proof || matches(proof.secret, found.oauth_clients.hash);
  return { ...clientBy(found, "scopes" in proof ? proof.scopes : undefined), genuine };
}

/** Refuses one that has died since it proved itself: for an answer that goes on for long. That its token is over meanwhile ends nothing. */
export async function refuseDead(tx: Tx, { kind, id }: Caller["credential"]): Promise<void> {
  if ((kind === "api_key" || kind === "oauth_client") && !(await byId(tx, kind, id))) throw new Refusal("UNAUTHORIZED");
}

/** One that proved itself before, as it is now; undefined once it has died. */
export async function byId(_tx: Tx, kind: "api_key" | "oauth_client", id: string): Promise<Known | undefined> {
  if (kind === "api_key") {
    const found = await keyById.get({ id });
    return found && keyBy(found);
  }
  const found = await clientById.get({ id });
  return found && clientBy(found);
}
