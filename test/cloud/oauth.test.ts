// Tokens: fetched with an off-the-shelf client, used like a key, replayed the same, dead with their client.
import { randomUUID } from "node:crypto";
import { createRemoteJWKSet, decodeJwt, jwtVerify } from "jose";
import * as oauth from "oauth4webapi";
import { expect, test } from "vitest";
import { world } from "../world.ts";

const w = await world();
const minted = (await w.admin.post("/oauth/clients", { name: "erp", scopes: ["products:read", "aidc:read"] })).body;
const request = { grant_type: "client_credentials", client_id: minted.client_id, client_secret: minted.client_secret };
const ask = (extra: object = {}, key = randomUUID() as string) =>
  w.nobody.post("/oauth/token", { ...request, ...extra }, { "idempotency-key": key });

test.each([
  ["post", oauth.ClientSecretPost],
  ["basic", oauth.ClientSecretBasic],
])("oauth4webapi discovers the server, gets a token (%s), and the token opens what its client may", async (how, saying) => {
  const issuer = new URL(w.url);
  const insecure = { [oauth.allowInsecureRequests]: true } as const;
  const server = await oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { algorithm: "oauth2", ...insecure }));
  expect(server.token_endpoint_auth_methods_supported).toContain(`client_secret_${how}`);
  const client = { client_id: minted.client_id as string };
  const response = await oauth.clientCredentialsGrantRequest(
    server,
    client,
    saying(minted.client_secret as string),
    new URLSearchParams({ scope: "products:read" }),
    {
      headers: { "idempotency-key": randomUUID() },
      ...insecure,
    },
  );
  const token = await oauth.processClientCredentialsResponse(server, client, response);
  expect([token.token_type, token.expires_in, token.scope]).toEqual(["bearer", 900, "products:read"]);
  const { payload, protectedHeader } = await jwtVerify(token.access_token, createRemoteJWKSet(new URL(server.jwks_uri as string)), {
    issuer: w.url,
    audience: w.url,
  });
  expect([protectedHeader.typ, protectedHeader.alg, payload["client_id"]]).toEqual(["at+jwt", "EdDSA", minted.client_id]);
  expect((await w.as(token.access_token).get("/tenant")).status).toBe(200);
  const denied = await w.as(token.access_token).get("/audit-logs");
  expect(denied.body.error.details).toEqual({ required: ["*:*"], available: ["products:read"] });
});

test("a client of RFC 6750 reads from a refusal whether it lacks a credential, needs a new one, or one that may more", async () => {
  const told = async (token: string, path: string) => {
    const url = new URL(`/api/v2${path}`, w.url);
    const refused = oauth.protectedResourceRequest(token, "GET", url, undefined, null, { [oauth.allowInsecureRequests]: true });
    const { cause } = (await refused.catch((error: unknown) => error)) as oauth.WWWAuthenticateChallengeError;
    return cause;
  };
  const realm = "imprimatur";
  const { access_token: good } = (await ask()).body;
  expect(await told(good, "/audit-logs")).toEqual([{ scheme: "bearer", parameters: { realm, error: "insufficient_scope", scope: "*:*" } }]);
  for (const dead of [`${good}x`, "imp_unknown"])
    expect(await told(dead, "/products")).toEqual([{ scheme: "bearer", parameters: { realm, error: "invalid_token" } }]);
  expect((await w.nobody.get("/products")).headers.get("www-authenticate")).toBe('Bearer realm="imprimatur"');
});

test("a client may say who it is by HTTP Basic instead, and a wrong one is told that this is how", async () => {
  const form = { grant_type: "client_credentials", scope: "products:read" };
  const say = async (authorization: string, body: Record<string, string> = form, key: string = randomUUID()) =>
    w.nobody.send("POST", "/oauth/token", { body: new URLSearchParams(body), headers: { "idempotency-key": key, authorization } });
  const basic = (id: string, secret: string) => `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`;
  const encoded = (text: string) => text.replaceAll(/[^a-z0-9]/g, (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`);
  const { client_id: id, client_secret: secret } = minted;
  const key = randomUUID();
  const first = await say(basic(id, secret), form, key);
  expect([first.status, first.body.scope]).toEqual([200, "products:read"]);
  expect((await say(basic(encoded(id), encoded(secret)))).status).toBe(200); // as RFC 6749 has it, and oauth4webapi sends it
  expect((await say(basic(id, secret), { ...form, client_id: id })).status).toBe(200);
  const again = await say(basic(id, secret), form, key);
  expect([again.headers.get("idempotency-replayed"), again.body.access_token]).toEqual(["true", first.body.access_token]);

  const other = (await w.admin.post("/oauth/clients", { name: "other", scopes: ["products:read"] })).body;
  expect((await say(basic(other.client_id, other.client_secret), form, key)).body.access_token).not.toBe(first.body.access_token);
  for (const wrong of [await say(basic(id, `${secret}x`)), await say(basic(other.client_id, secret)), await say(basic("%", "%ff"))])
    expect([wrong.status, wrong.body.error.code, wrong.headers.get("www-authenticate")]).toEqual([
      401,
      "invalid_client",
      'Basic realm="imprimatur", charset="UTF-8"',
    ]);
  expect((await say(basic(id, secret), { ...form, client_id: other.client_id })).status).toBe(401);
  expect((await say(basic(id, secret), request)).status).toBe(200);
  for (const none of ["Basic ", "Basic !", "Bearer x"]) expect((await say(none)).body.error.code).toBe("VALIDATION_ERROR");
});

test("the key is required, the grant known, the scope the client's, the secret right", async () => {
  expect((await w.nobody.post("/oauth/token", request)).body.error.details.fields[0].field).toBe("Idempotency-Key");
  expect((await ask({ grant_type: "password" })).body.error.code).toBe("unsupported_grant_type");
  expect((await ask({ scope: "products:read webhooks:manage" })).body.error.code).toBe("invalid_scope");
  const wrong = await ask({ client_secret: "imp_wrong" });
  expect([wrong.status, wrong.body.error.code]).toEqual([401, "invalid_client"]);
  expect((await ask({ client_id: randomUUID() })).status).toBe(401);
  const form = await w.nobody.send("POST", "/oauth/token", {
    body: new URLSearchParams(request),
    headers: { "idempotency-key": randomUUID() },
  });
  expect(form.status).toBe(200);
});

test("a replay gives the same token, which the database alone can't show, until it expires", async () => {
  const key = randomUUID();
  const first = await ask({}, key);
  const again = await ask({}, key);
  expect(again.headers.get("idempotency-replayed")).toBe("true");
  expect(again.body.access_token).toBe(first.body.access_token);
  const kept = await w.store.read("look", async ({ db }) => JSON.stringify(await db.values("SELECT body FROM idempotency")));
  expect(kept).not.toContain(first.body.access_token);
  w.later(901_000);
  expect((await w.as(first.body.access_token).get("/tenant")).status).toBe(401);
  expect((await ask({}, key)).body.access_token).not.toBe(first.body.access_token);
});

test("deleting a client kills its tokens at once; a forged token opens nothing", async () => {
  const other = (await w.admin.post("/oauth/clients", { name: "gone", scopes: ["aidc:read"] })).body;
  const { body } = await ask({ client_id: other.client_id, client_secret: other.client_secret });
  const bearer = w.as(body.access_token);
  expect((await bearer.get("/tenant")).status).toBe(200);
  expect((await w.admin.delete(`/oauth/clients/${other.client_id}`)).status).toBe(204);
  expect((await bearer.get("/tenant")).status).toBe(401);
  expect((await w.admin.delete(`/oauth/clients/${other.client_id}`)).status).toBe(404);
  const [header, , signature] = (body.access_token as string).split(".");
  const forged = Buffer.from(JSON.stringify({ client_id: minted.client_id, scope: "*:*", exp: 9e9 })).toString("base64url");
  expect((await w.as(`${header}.${forged}.${signature}`).get("/tenant")).status).toBe(401);
  const odd = Buffer.from(JSON.stringify({ alg: "EdDSA", typ: "at+jwt", kid: "\0" })).toString("base64url");
  const told = (await w.as(`${odd}.${forged}.${signature}`).get("/tenant")).body.error;
  expect(told).toEqual({ code: "UNAUTHORIZED", message: "the token was signed by a key that isn't ours" });
});

test("another grant is told so whatever else is wrong; a scope that doesn't exist is never granted", async () => {
  const mighty = (await w.admin.post("/oauth/clients", { name: "mighty", scopes: ["*:*"] })).body;
  const ask = (more: Record<string, unknown>) =>
    w.nobody.post(
      "/oauth/token",
      { grant_type: "client_credentials", client_id: mighty.client_id, client_secret: mighty.client_secret, ...more },
      { "idempotency-key": crypto.randomUUID() },
    );
  for (const other of [
    { grant_type: "password", username: "x" },
    { grant_type: "refresh_token", client_secret: "wrong" },
  ])
    expect((await ask(other)).body.error.code).toBe("unsupported_grant_type");
  expect((await ask({ scope: "bogus:thing dpp:read" })).body.error.code).toBe("invalid_scope");
  expect((await ask({ scope: "dpp:read dpp:read" })).body.scope).toBe("dpp:read");
});

test("the replay of a token ends before the token does: nobody is answered with a dead one", async () => {
  const own = await world({ clock: "stopped" });
  const client = (await own.admin.post("/oauth/clients", { name: "erp", scopes: ["products:read"] })).body;
  const { client_id, client_secret } = client;
  const now = () => own.store.read("now", async (tx) => tx.now);
  own.later(1_999 - ((await now()) % 1_000)); // as late in a second as can be
  const key = randomUUID();
  const token = async (): Promise<string> => {
    const asked = { grant_type: "client_credentials", client_id, client_secret };
    return (await own.nobody.post("/oauth/token", asked, { "idempotency-key": key })).body.access_token;
  };
  const status = async (secret: string) => (await own.as(secret).get("/tenant")).status;
  const first = await token();
  const { exp } = decodeJwt(first);
  own.later(Number(exp) * 1_000 - (await now()) - 1);
  expect(await status(first)).toBe(200);
  expect(await status(await token())).toBe(200);
  own.later(1);
  expect(await status(first)).toBe(401);
  expect(await status(await token())).toBe(200);
});
