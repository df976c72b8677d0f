// From headers to a caller: Bearer first, x-api-key too. A signature is verified once, whether its client still lives each time.
import type { IncomingHttpHeaders } from "node:http";
import { decodeProtectedHeader, jwtVerify } from "jose";
import { Refusal } from "#shared/errors.ts";
import { byClient, byKey, type Known } from "./domain/credentials.ts";
import { looksWhole } from "./domain/secrets.ts";
import type { Keys } from "./keys.ts";
import type { Store } from "./store/store.ts";

type Claims = { client: string; tenant: string; scopes: string[]; expiresAt: number };
const VERIFIED_KEPT = 10_000;
const SECRET_MAX_LENGTH = 4_096;

const unauthorized = (message: string) => new Refusal("UNAUTHORIZED", message, undefined, { "www-authenticate": 'Bearer realm="imprimatur"' });

function credentialIn(headers: IncomingHttpHeaders): string {
  const { authorization } = headers;
  const apiKey = headers["x-api-key"];
  if (authorization === undefined) {
    if (typeof apiKey === "string" && apiKey !== "") return apiKey;
    throw unauthorized("send Authorization: Bearer <API key or access token>");
  }
  const bearer = /^Bearer +(\S+) *$/i.exec(authorization)?.[1];
  if (!bearer) throw unauthorized("the Authorization header isn't of the form Bearer <credential>");
  return bearer;
}

export type Authenticate = (headers: IncomingHttpHeaders) => Promise<Known>;

export function authenticator({ store, keys, origin }: { store: Store; keys: Keys; origin: () => string }): Authenticate {
  const verified = new Map<string, Claims>();

  async function verify(token: string): Promise<Claims> {
    const known = verified.get(token);
    if (known) return known;
    const expected = { issuer: origin(), audience: origin(), typ: "at+jwt", algorithms: ["EdDSA"], requiredClaims: ["exp", "client_id", "tenant", "scope"] };
    const { payload } = await jwtVerify(token, keyOf, { ...expected, currentDate: new Date(0) }); // expiry is judged below, by the store's clock
    const claims: Claims = {
      client: String(payload["client_id"]),
      tenant: String(payload["tenant"]),
      scopes: String(payload["scope"]).split(" "),
      expiresAt: Number(payload.exp) * 1000,
    };
    if (verified.size >= VERIFIED_KEPT) verified.clear();
    verified.set(token, claims);
    return claims;
  }

  async function keyOf({ kid }: { kid?: string | undefined }) {
    const key = kid === undefined ? undefined : await keys.find(kid);
    if (!key) throw unauthorized("the token was signed by a key that isn't ours");
    return key;
  }

  async function byToken(token: string): Promise<Known | undefined> {
    const claims = await verify(token).catch((cause: unknown) => {
      if (cause instanceof Refusal) throw cause;
      throw unauthorized(`the access token isn't valid: ${(cause as Error).message}`);
    });
    return store.read("token's client", async (tx) => {
      if (claims.expiresAt <= tx.now) throw unauthorized("the access token has expired: ask for a new one");
      const known = await byClient(tx, claims.client, { scopes: claims.scopes });
      return known?.caller.tenantId === claims.tenant ? known : undefined;
    });
  }

  return async (headers) => {
    const secret = credentialIn(headers);
    if (secret.length > SECRET_MAX_LENGTH || !looksWhole(secret)) throw unauthorized("the credential is damaged: its checksum doesn't fit, was it cut when copied?");
    const known = isJwt(secret) ? await byToken(secret) : await store.read("api key", (tx) => byKey(tx, secret));
    if (!known) throw unauthorized("the credential is unknown, revoked or of a deleted client");
    return known;
  };
}

function isJwt(secret: string): boolean {
  if (secret.split(".").length !== 3) return false;
  try {
    return decodeProtectedHeader(secret).alg !== undefined;
  } catch {
    return false; // three parts and two dots may be a key of the operator's own choosing
  }
}
