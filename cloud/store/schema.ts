// Every table, once. Both engines hold only text, integers (instants are ms since 1970) and bytes, so values come out alike.
import { blob, integer, primaryKey, sqliteTable, text } from "./drizzle.ts";
import type { Tier } from "#shared/limits.ts";

export const tenants = sqliteTable("tenants", {
  id: text().primaryKey(),
  name: text().notNull(),
  tier: text().$type<Tier>().notNull(),
  sandbox: integer({ mode: "boolean" }).notNull(),
  expiresAt: integer("expires_at"),
  companyPrefixes: text("company_prefixes", { mode: "json" }).$type<string[]>().notNull(),
  labelTemplate: text("label_template"),
  offlineGraceSeconds: integer("offline_grace_seconds").notNull(),
  maxAttempts: integer("max_attempts").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const apiKeys = sqliteTable("api_keys", {
  id: text().primaryKey(),
  tenantId: text("tenant_id").notNull(),
  name: text().notNull(),
  scopes: text({ mode: "json" }).$type<string[]>().notNull(),
  lookup: text().notNull(), // the head of the secret's hash: finds the row without saying anything about the secret
  hash: blob({ mode: "buffer" }).notNull(),
  prefix: text().notNull(),
  deviceId: text("device_id"),
  bootstrap: integer({ mode: "boolean" }).notNull(), // the operator's own, set by IMPRIMATUR_BOOTSTRAP_KEY
  createdAt: integer("created_at").notNull(),
  revokedAt: integer("revoked_at"),
});

export const oauthClients = sqliteTable("oauth_clients", {
  id: text().primaryKey(),
  tenantId: text("tenant_id").notNull(),
  name: text().notNull(),
  scopes: text({ mode: "json" }).$type<string[]>().notNull(),
  hash: blob({ mode: "buffer" }).notNull(),
  prefix: text().notNull(),
  createdAt: integer("created_at").notNull(),
  deletedAt: integer("deleted_at"),
});

export const signingKeys = sqliteTable("signing_keys", {
  kid: text().primaryKey(),
  publicJwk: text("public_jwk", { mode: "json" }).$type<{ kty: string; crv: string; x: string }>().notNull(),
  createdAt: integer("created_at").notNull(),
});

export const idempotency = sqliteTable(
  "idempotency",
  {
    scope: blob({ mode: "buffer" }).notNull(), // tenant + credential + route, hashed: keys of one caller lie side by side
    key: text().notNull(),
    fingerprint: blob({ mode: "buffer" }).notNull(),
    status: integer().notNull(),
    headers: text({ mode: "json" }).$type<Record<string, string>>().notNull(),
    body: text(),
    expiresAt: integer("expires_at").notNull(),
  },
  (row) => [primaryKey({ columns: [row.scope, row.key] })],
);

export const auditHeads = sqliteTable("audit_heads", {
  tenantId: text("tenant_id").primaryKey(),
  seq: integer().notNull(),
  hash: text().notNull(),
});

export const auditLog = sqliteTable(
  "audit_log",
  {
    tenantId: text("tenant_id").notNull(),
    seq: integer().notNull(),
    at: integer().notNull(),
    action: text().notNull(),
    actor: text({ mode: "json" }).$type<{ kind: string; id: string | null; name: string }>().notNull(),
    subject: text(),
    details: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    requestId: text("request_id").notNull(),
    prevHash: text("prev_hash").notNull(),
    hash: text().notNull(),
  },
  (row) => [primaryKey({ columns: [row.tenantId, row.seq] })],
);
