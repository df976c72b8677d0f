// Tenants over HTTP: made by the platform, read and set by their own.
import { closed, IdParams, listOf, PageQuery } from "#shared/wire/common.ts";
import { Tenant, TenantCreate, TenantMinted, TenantPatch, TenantTerms } from "#shared/wire/tenants.ts";
import * as domain from "../domain/tenants.ts";
import { type Route, routesUnder } from "../route.ts";

const { read, write } = routesUnder("tenants");

export const tenants: Route[] = [
  write({
    method: "POST",
    path: "/tenants",
    scope: ["platform:admin"],
    says: "Create a tenant with its first admin key",
    body: TenantCreate,
    example: { name: "Acme", companyPrefixes: ["0950600"] },
    replies: { 201: TenantMinted },
    audit: "tenant.created",
    replay: { hide: ["adminKey.secret"] },
    run: async ({ tx, body, deps }) => {
      const { tenant, adminKey } = await domain.create(tx, body, deps.seal);
      return {
        status: 201,
        body: { data: tenant, adminKey },
        about: { subject: tenant.id, details: { name: tenant.name, adminKeyId: adminKey.id } },
      };
    },
  }),
  read({
    path: "/tenants",
    scope: ["platform:admin"],
    says: "All tenants, newest first",
    query: closed(PageQuery),
    replies: { 200: listOf(Tenant) },
    run: async ({ tx, query }) => ({ status: 200, body: await domain.list(tx, query) }),
  }),
  read({
    path: "/tenants/{id}",
    scope: ["platform:admin"],
    says: "One tenant",
    params: IdParams,
    replies: { 200: Tenant },
    run: async ({ tx, params }) => ({ status: 200, body: await domain.get(tx, params.id) }),
  }),
  write({
    method: "PATCH",
    path: "/tenants/{id}",
    scope: ["platform:admin"],
    says: "Change a tenant's tier, or when a sandbox ends; it counts from the next call on, and stands in both audit logs",
    params: IdParams,
    body: TenantTerms,
    example: { tier: "pro" },
    replies: { 200: Tenant },
    audit: "tenant.updated",
    run: async ({ tx, caller, params, body, requestId }) => ({
      status: 200,
      body: await domain.setTerms(tx, caller, params.id, body, requestId),
      about: { subject: params.id, details: body },
    }),
  }),
  read({
    path: "/tenant",
    scope: "credential",
    evenExpired: true,
    says: "The caller's own tenant",
    replies: { 200: Tenant },
    run: async ({ tx, caller }) => ({ status: 200, body: await domain.own(tx, caller) }),
  }),
  write({
    method: "PATCH",
    path: "/tenant",
    scope: ["*:*"],
    says: "Change the settings of the caller's own tenant",
    body: TenantPatch,
    example: { offlineGraceSeconds: 1_800, maxAttempts: 5 },
    replies: { 200: Tenant },
    audit: "tenant.updated",
    run: async ({ tx, caller, body }) => ({
      status: 200,
      body: await domain.patch(tx, caller, body),
      about: { subject: caller.tenantId, details: { changed: Object.keys(body) } },
    }),
  }),
];
