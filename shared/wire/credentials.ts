// API keys, OAuth clients and tokens, as they cross the wire: a secret is in an answer once and never again.
import { Type } from "typebox";
import { closed, Id, Instant, Name, nullable, Scopes, Secret, type Static } from "./common.ts";

export const ApiKeyCreate = closed(
  { name: Name, scopes: Type.Optional(Scopes), permissions: Type.Optional(Scopes) },
  { asksToo: { minProperties: 2 } }, // one of the two beside the name
);
export type ApiKeyCreate = Static<typeof ApiKeyCreate>;

const apiKey = {
  id: Id,
  name: Type.String(),
  scopes: Type.Array(Type.String()),
  prefix: Type.String({ description: "How the secret begins, to recognize it by" }),
  deviceId: nullable(Id),
  createdAt: Instant,
  revokedAt: nullable(Instant),
};
export const ApiKey = closed(apiKey);
export type ApiKey = Static<typeof ApiKey>;
export const ApiKeyMinted = closed({ data: closed({ ...apiKey, secret: Secret }) });

export const OauthClientCreate = closed({ name: Name, scopes: Scopes });
export type OauthClientCreate = Static<typeof OauthClientCreate>;

const oauthClient = { client_id: Id, name: Type.String(), scopes: Type.Array(Type.String()), prefix: Type.String(), createdAt: Instant };
export const OauthClient = closed(oauthClient);
export type OauthClient = Static<typeof OauthClient>;
export const OauthClientMinted = closed({ ...oauthClient, client_secret: Secret });

export const TokenRequest = closed({
  grant_type: Type.String({ maxLength: 100, description: "client_credentials" }),
  client_id: Type.String({ minLength: 1, maxLength: 64 }),
  client_secret: Type.String({ minLength: 1, maxLength: 500 }),
  scope: Type.Optional(
    Type.String({ maxLength: 4_000, description: "Space-separated subset of the client's scopes; all of them when absent" }),
  ),
});
export type TokenRequest = Static<typeof TokenRequest>;

export const Token = closed({
  access_token: Type.String(),
  token_type: Type.Literal("Bearer"),
  expires_in: Type.Integer(),
  scope: Type.String(),
});

export const Jwks = Type.Object({ keys: Type.Array(Type.Record(Type.String(), Type.String())) });
export const AuthorizationServer = Type.Object({
  issuer: Type.String(),
  token_endpoint: Type.String(),
  jwks_uri: Type.String(),
  grant_types_supported: Type.Array(Type.String()),
  response_types_supported: Type.Array(Type.String()),
  token_endpoint_auth_methods_supported: Type.Array(Type.String()),
  scopes_supported: Type.Array(Type.String()),
});
