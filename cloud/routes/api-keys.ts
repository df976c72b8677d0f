// API keys over HTTP: minted, listed, rotated, revoked; the secret is shown once.
import type { FieldFault } from "#shared/errors.ts";
import { closed, IdParams, listOf, PageQuery } from "#shared/wire/common.ts";
import { ApiKey, ApiKeyCreate, ApiKeyMinted } from "#shared/wire/credentials.ts";
import * as domain from "../domain/api-keys.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, write } = routesUnder("credentials");

/** `permissions` is the older name of `scopes`: one of them has to be there, and both only if they agree. */
function judge({ scopes, permissions }: Record<string, unknown>): FieldFault[] {
  if (!scopes && !permissions) return [{ field: "scopes", rule: "required", message: "is required (permissions is its older name)" }];
  if (!Array.isArray(scopes) || !Array.isArray(permissions) || new Set(scopes).symmetricDifference(new Set(permissions)).size === 0)
    return [];
  return [{ field: "permissions", rule: "alias", message: "is another name of scopes, and says something else: send one of them" }];
}
const scopesIn = ({ scopes, permissions }: ApiKeyCreate): string[] => scopes ?? permissions ?? [];

const about = ({ id, name, scopes }: ApiKey) => ({ subject: id, details: { name, scopes } });

export const apiKeys: Route[] = [
  write({
    method: "POST",
    path: "/api-keys",
    scope: ["*:*"],
    says: "Mint an API key; its secret is shown this once",
    body: ApiKeyCreate,
    judge,
    example: { name: "line 1", scopes: ["products:read", "aidc:write"] },
    replies: { 201: ApiKeyMinted },
    audit: "auth.key_created",
    replay: { hide: ["data.secret"] },
    run: async ({ tx, caller, body }) => {
      const data = await domain.mint(tx, caller, { name: body.name, scopes: scopesIn(body) });
      return { status: 201, body: { data }, about: about(data) };
    },
  }),
  read({
    path: "/api-keys",
    scope: ["*:*"],
    says: "The tenant's keys, newest first, without secrets",
    query: closed(PageQuery),
    replies: { 200: listOf(ApiKey) },
    run: async ({ tx, caller, query }) => ({ status: 200, body: await domain.list(tx, caller, query) }),
  }),
  read({
    path: "/api-keys/{id}",
    scope: ["*:*"],
    says: "One key, without its secret",
    params: IdParams,
    replies: { 200: ApiKey },
    run: async ({ tx, caller, params }) => ({ status: 200, body: await domain.get(tx, caller, params.id) }),
  }),
  write({
    method: "POST",
    path: "/api-keys/{id}/rotate",
    scope: ["*:*"],
    says: "Replace a key's secret: the old one dies at once, the new key has a new id",
    params: IdParams,
    replies: { 201: ApiKeyMinted },
    refusals: ["ALREADY_REVOKED"],
    audit: "auth.key_rotated",
    replay: { hide: ["data.secret"] },
    run: async ({ tx, caller, params }) => {
      const data = await domain.rotate(tx, caller, params.id);
      return { status: 201, body: { data }, about: { subject: params.id, details: { name: data.name, newId: data.id } } };
    },
  }),
  write({
    method: "DELETE",
    path: "/api-keys/{id}",
    scope: ["*:*"],
    says: "Revoke a key",
    params: IdParams,
    replies: { 204: "revoked" },
    refusals: ["ALREADY_REVOKED"],
    audit: "auth.key_revoked",
    run: async ({ tx, caller, params }) => {
      const { name } = await domain.revoke(tx, caller, params.id);
      return { status: 204, about: { subject: params.id, details: { name } } };
    },
  }),
];
