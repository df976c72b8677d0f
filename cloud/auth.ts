// From headers to a caller: Bearer first, x-api-key too, the console's cookie last. A signature is verified once; whether its client still lives, each time.
import type { IncomingHttpHeaders } from "node:http";
import { Refusal } from "#shared/errors.ts";
import { limits } from "#shared/limits.ts";
import { saying } from "#shared/sayings.ts";
import { byClient, byKey, type Caller, credentialEpoch, hasEnded, type Known } from "./domain/callers.ts";
import { looksWhole } from "./domain/secrets.ts";
import { cookieIn } from "./console-cookie.ts";
import * as sessions from "./domain/console-sessions.ts";
import type { Keys } from "./keys.ts";
import { refuseForged } from "./same-origin.ts";
import type { Store } from "./store/store.ts";

type Claims = { kid: string | undefined; client: string; tenant: string; scopes: string[]; endsAt: number };
const REMEMBERED = 10_000;

/** What RFC 6750 has a client read: whether to come with a credential, with a new one, or with one that may more. */
export const challenge = (why = ""): Record<string, string> => ({ "www-authenticate": `Bearer realm="imprimatur"${why}` });
const unasked = (message: string) => new Refusal("UNAUTHORIZED", message, undefined, challenge());
const unauthorized = (message: string) => new Refusal("UNAUTHORIZED", message, undefined, challenge(', error="invalid_token"'));

function credentialIn(headers: IncomingHttpHeaders): string {
  const { authorization } = headers;
  const apiKey = headers["x-api-key"];
  if (authorization === undefined) {
    if (typeof apiKey === "string" && apiKey !== "") return apiKey;
    throw unasked("send Authorization: Bearer <API key or access token>");
  }
  const bearer = /^Bearer +(\S|\S.*\S) *$/i.exec(authorization)?.[1];
  if (!bearer) throw unasked("the Authorization header isn't of the form Bearer <credential>");
  return bearer;
}

/** A caller, and whether the sandbox behind it is past its end. */
export type Authenticate = (headers: IncomingHttpHeaders, method?: string) => Promise<{ caller: Caller; expired: boolean }>;

/** How long what was found stays true: until its token or sandbox ends, or some credential dies. */
type Found = Known & { tokenEndsAt: number; signedWith?: string | undefined };
/** The moment of the look is the moment that its ends are judged by. */
type Looked = { found: Found; now: number };
const hasCredential = ({ authorization, "x-api-key": key }: IncomingHttpHeaders) => authorization !== undefined || key !== undefined;

export function authenticator({ store, keys, origin }: { store: Store; keys: Keys; origin: () => string }): Authenticate {
  const verified = memory<Claims>();
  const remembered = memory<Found>();
  let rememberedIn = credentialEpoch();

  /** Only where nobody else can revoke behind our back; what was begun before a revocation is answered may still pass. */
  function recall(secret: string): Looked | undefined {
    if (!store.sole) return undefined;
    if (rememberedIn !== credentialEpoch()) {
      remembered.clear();
      rememberedIn = credentialEpoch();
    }
    const found = remembered.get(secret);
    return found && { found, now: store.sole.now() };
  }

  async function verify(token: string): Promise<Claims> {
    const known = verified.get(token);
    if (known) return known;
    const expected = {
      issuer: origin(),
      audience: origin(),
      typ: "at+jwt",
      algorithms: ["EdDSA"],
      requiredClaims: ["exp", "client_id", "tenant", "scope"],
    };
    const { jwtVerify } = await import("jose"); // 15 MB that a factory with API keys never needs
    const { payload, protectedHeader } = await jwtVerify(token, keyOf, { ...expected, currentDate: new Date(0) }); // expiry is judged by the store's clock
    const claims: Claims = {
      kid: protectedHeader.kid,
      client: String(payload["client_id"]),
      tenant: String(payload["tenant"]),
      scopes: String(payload["scope"]).split(" "),
      endsAt: Number(payload.exp) * 1000,
    };
    verified.set(token, claims);
    return claims;
  }

  async function keyOf({ kid }: { kid?: string | undefined }) {
    const key = kid === undefined ? undefined : await keys.find(kid);
    if (!key) throw unauthorized("the token was signed by a key that isn't ours");
    return key;
  }

  async function verifiedClaims(token: string): Promise<Claims> {
    try {
      return await verify(token);
    } catch (cause) {
      throw cause instanceof Refusal ? cause : unauthorized(`the access token isn't valid: ${(cause as Error).message}`);
    }
  }

  async function look(secret: string): Promise<Looked> {
    const claims = isJwt(secret) ? await verifiedClaims(secret) : undefined;
    return store.joint.read("authenticate", async (tx) => {
      const known = claims ? await byClient(tx, claims.client, { scopes: claims.scopes }) : await byKey(tx, secret);
      if (!known || (claims && known.caller.tenantId !== claims.tenant)) throw unauthorized(saying("credential_unknown"));
      return { found: { ...known, tokenEndsAt: claims?.endsAt ?? Number.POSITIVE_INFINITY, signedWith: claims?.kid }, now: tx.now };
    });
  }

  /** The session of a console, which ends as a token does. */
  async function lookSession(cookie: string): Promise<Looked> {
    return store.read("console session", async (tx) => {
      const session = await sessions.find(tx, cookie);
      if (!session) throw unasked("the session has ended: sign in again");
      return { found: { ...session.known, tokenEndsAt: session.endsAt }, now: tx.now };
    });
  }

  async function known(secret: string, lookAt: (secret: string) => Promise<Looked>, as = secret) {
    const recalled = recall(as);
    const begunIn = credentialEpoch();
    const { found, now } = recalled ?? (await lookAt(secret));
    if (found.signedWith !== undefined && keys.isOver(found.signedWith))
      throw unauthorized("the access token was signed with a key that was retired since: ask for a new one");
    if (found.tokenEndsAt <= now) throw unauthorized("the access token or session has expired: ask for a new one");
    if (store.sole && !recalled && begunIn === credentialEpoch()) remembered.set(as, found); // else it may be what has died meanwhile
    return { caller: found.caller, expired: hasEnded(found, now) };
  }

  return async (headers, method = "GET") => {
    const cookie = hasCredential(headers) ? undefined : cookieIn(headers, origin());
    if (cookie !== undefined) {
      refuseForged({ method, headers }, origin());
      return known(cookie, lookSession, `cookie\0${cookie}`); // no header can carry that as a secret
    }
    const secret = credentialIn(headers);
    if (secret.length > limits.SECRET_MAX_LENGTH || !looksWhole(secret)) throw unauthorized(saying("credential_damaged"));
    return known(secret, look);
  };
}

/** A map that starts anew when it is full: simple, and its worst case is one look at the store each. */
function memory<Value>() {
  const values = new Map<string, Value>();
  return {
    get: (key: string) => values.get(key),
    clear: () => values.clear(),
    set: (key: string, value: Value) => {
      if (values.size >= REMEMBERED) values.clear();
      values.set(key, value);
    },
  };
}

/** Three parts, the first of which is JSON in base64url. A key of the operator's own choosing that looks so is nobody's loss. */
const isJwt = (secret: string): boolean => /^eyJ[\w-]+\.[\w-]+\.[\w-]+$/.test(secret);
