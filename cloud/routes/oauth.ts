// OAuth 2.0 client credentials over HTTP, with the discovery that ready-made clients look for.
import { API } from "#shared/api.ts";
import { limits } from "#shared/limits.ts";
import { grantable } from "#shared/scopes.ts";
import { closed, IdParams, listOf, PageQuery } from "#shared/wire/common.ts";
import {
  AuthorizationServer,
  Jwks,
  OauthClient,
  OauthClientCreate,
  OauthClientMinted,
  Token,
  TokenRequest,
} from "#shared/wire/credentials.ts";
import * as domain from "../domain/oauth.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, write } = routesUnder("credentials");
const { serve } = routesUnder("operations");
const about = ({ client_id, name, scopes }: OauthClient) => ({ subject: client_id, details: { name, scopes } });

export const oauth: Route[] = [
  write({
    method: "POST",
    path: "/oauth/clients",
    scope: ["*:*"],
    says: "Mint an OAuth client; its secret is shown this once",
    body: OauthClientCreate,
    example: { name: "erp", scopes: ["products:read", "products:create"] },
    replies: { 201: OauthClientMinted },
    audit: "auth.client_created",
    replay: { hide: ["client_secret"] },
    run: async ({ tx, caller, body }) => {
      const minted = await domain.mint(tx, caller, body);
      return { status: 201, body: minted, about: about(minted) };
    },
  }),
  read({
    path: "/oauth/clients",
    scope: ["*:*"],
    says: "The tenant's OAuth clients, newest first, without secrets",
    query: closed(PageQuery),
    replies: { 200: listOf(OauthClient) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await domain.list(tx, caller, query) }),
  }),
  read({
    path: "/oauth/clients/{id}",
    scope: ["*:*"],
    says: "One OAuth client, without its secret",
    params: IdParams,
    replies: { 200: OauthClient },
    run: async ({ tx, caller, params }) => ({ status: 200, body: await domain.get(tx, caller, params.id) }),
  }),
  write({
    method: "DELETE",
    path: "/oauth/clients/{id}",
    scope: ["*:*"],
    says: "Delete an OAuth client; its tokens die at once",
    params: IdParams,
    replies: { 204: "deleted" },
    audit: "auth.client_deleted",
    run: async ({ tx, caller, params }) => ({ status: 204, about: about(await domain.remove(tx, caller, params.id)) }),
  }),
  write({
    method: "POST",
    path: "/oauth/token",
    scope: "client",
    says: "Get an access token with client credentials",
    body: TokenRequest,
    example: { grant_type: "client_credentials", client_id: "019a…", client_secret: "imp_…", scope: "products:read" },
    refuse: domain.refuseGrant,
    takesForm: true,
    replies: { 200: Token },
    refusals: ["unsupported_grant_type", "invalid_client", "invalid_scope"],
    idempotencyKey: "required",
    audit: "auth.token_issued",
    // `exp` is in whole seconds: a dead token would be no answer, nor one whose key was retired.
    replay: { lockWith: "client_secret", keepMs: (limits.ACCESS_TOKEN_LIFE_S - 1) * 1000, stands: domain.stands },
    run: async ({ tx, caller, body, deps }) => {
      const { jti, token } = domain.issue(tx, caller, body, deps);
      const about = { subject: caller.credential.id, details: { jti, scope: token.scope } };
      return { status: 200, body: token, headers: { "cache-control": "no-store" }, about };
    },
  }),
  serve({
    path: "/.well-known/jwks.json",
    root: true,
    scope: "public",
    open: true,
    says: "The public keys that signatures are verified with",
    replies: { 200: Jwks },
    headers: { "cache-control": "no-cache" }, // a new key signs at once: by the keys of a minute ago that would be forged
    run: async ({ deps }) => ({ status: 200, body: { keys: await deps.keys.all() } }),
  }),
  serve({
    path: "/.well-known/oauth-authorization-server",
    root: true,
    scope: "public",
    says: "Where tokens come from (RFC 8414)",
    replies: { 200: AuthorizationServer },
    run: async ({ deps }) => ({
      status: 200,
      body: {
        issuer: deps.origin(),
        token_endpoint: `${deps.origin()}${API}/oauth/token`,
        jwks_uri: `${deps.origin()}/.well-known/jwks.json`,
        grant_types_supported: ["client_credentials"],
        response_types_supported: [],
        token_endpoint_auth_methods_supported: ["client_secret_post", "client_secret_basic"],
        scopes_supported: grantable,
      },
    }),
  }),
];
