// OAuth clients and their access tokens: a token is a signed statement, and dies with its client all the same.
import { randomUUID } from "node:crypto";
import { and, eq, isNull } from "../store/drizzle.ts";
import { newIdIn } from "./ids.ts";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { grantable, holds } from "#shared/scopes.ts";
import type { OauthClient, OauthClientCreate, TokenRequest } from "#shared/wire/credentials.ts";
import type { Keys } from "../keys.ts";
import { oauthClients } from "../store/schema.ts";
import { placesOf, prepared } from "../store/prepared.ts";
import { db, type Tx } from "../store/store.ts";
import { mayGrant } from "./api-keys.ts";
import { type Caller, credentialDied } from "./callers.ts";
import { found } from "./found.ts";
import { instant } from "./instant.ts";
import { newestOf, type PageQuery } from "./page.ts";
import { hashOf, mintSecret, shownOf } from "./secrets.ts";
import { signerOf } from "./signing-keys.ts";

type Row = typeof oauthClients.$inferSelect;
const insertClient = prepared(db.insert(oauthClients).values(placesOf(oauthClients)));

const toWire = ({ id, name, scopes, prefix, createdAt }: Row): OauthClient => ({
  client_id: id,
  name,
  scopes,
  prefix,
  createdAt: instant(createdAt),
});

export async function mint(tx: Tx, caller: Caller, { name, scopes }: OauthClientCreate): Promise<OauthClient & { client_secret: string }> {
  mayGrant(caller, scopes);
  const secret = mintSecret();
  const row: Row = {
    id: newIdIn(tx),
    tenantId: caller.tenantId,
    name,
    scopes,
    hash: hashOf(secret),
    prefix: shownOf(secret),
    createdAt: tx.now,
    deletedAt: null,
  };
  await insertClient.run(row);
  return { ...toWire(row), client_secret: secret };
}

const mine = (caller: Caller, id: string) =>
  and(eq(oauthClients.tenantId, caller.tenantId), eq(oauthClients.id, id), isNull(oauthClients.deletedAt));

export const get = async (tx: Tx, caller: Caller, id: string): Promise<OauthClient> =>
  toWire(found("client", await tx.db.select().from(oauthClients).where(mine(caller, id)).get()));

export async function remove(tx: Tx, caller: Caller, id: string): Promise<OauthClient> {
  const [row] = await tx.db.update(oauthClients).set({ deletedAt: tx.now }).where(mine(caller, id)).returning();
  const gone = toWire(found("client", row));
  credentialDied(tx);
  return gone;
}

export const list = (tx: Tx, caller: Caller, query: PageQuery) =>
  newestOf(tx, query, {
    table: oauthClients,
    where: and(eq(oauthClients.tenantId, caller.tenantId), isNull(oauthClients.deletedAt)),
    toWire,
  });

/** Before the fields are judged: a request of another grant has other fields, and should hear about its grant first. */
export function refuseGrant(body: unknown): void {
  const grant = (body as { grant_type?: unknown } | null)?.grant_type;
  if (typeof grant === "string" && grant !== "client_credentials")
    throw new Refusal("unsupported_grant_type", `grant_type "${grant.slice(0, 100)}" isn't known here; send client_credentials`);
}

/** Whether the token in an answer counts still, as far as its key goes. */
export function stands(answer: string, { keys }: { keys: Keys }): boolean {
  const { access_token: token } = JSON.parse(answer) as { access_token: string };
  return !keys.isOver(signerOf(token).at(-1) ?? "");
}

/** RFC 9068: who issued it, to whom, for which tenant, what it may do and until when. */
export function issue(tx: Tx, caller: Caller, { scope }: TokenRequest, { keys, origin }: { keys: Keys; origin: () => string }) {
  const asked = [...new Set(scope?.split(" ").filter(Boolean))];
  const lacking = asked.filter((name) => !grantable.includes(name) || !holds(caller.scopes, name));
  if (lacking.length > 0)
    throw new Refusal("invalid_scope", `this client lacks ${lacking.join(", ")}`, { required: lacking, available: caller.scopes });
  const granted = (asked.length > 0 ? asked : caller.scopes).join(" ");
  const seconds = Math.floor(tx.now / 1000);
  const jti = randomUUID();
  const access_token = keys.sign("at+jwt", {
    iss: origin(),
    aud: origin(),
    sub: caller.credential.id,
    client_id: caller.credential.id,
    tenant: caller.tenantId,
    scope: granted,
    iat: seconds,
    exp: seconds + limits.ACCESS_TOKEN_LIFE_S,
    jti,
  });
  return { jti, token: { access_token, token_type: "Bearer" as const, expires_in: limits.ACCESS_TOKEN_LIFE_S, scope: granted } };
}
