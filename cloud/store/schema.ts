// Every table, once. Both engines hold only text, integers (instants are ms since 1970) and bytes, so values come out alike.
import { blob, integer, primaryKey, sqliteTable, text } from "./drizzle.ts";
import type { ComplianceStatus, Sector } from "#shared/compliance.ts";
import type { Tier } from "#shared/limits.ts";
import type { PassportState, ProductStage } from "#shared/states.ts";
import type { LogEntry } from "#shared/wire/log.ts";

/** Who did it, as it was called then. */
export type Actor = { kind: string; id: string | null; name: string };

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
    actor: text({ mode: "json" }).$type<Actor>().notNull(),
    subject: text(),
    details: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    requestId: text("request_id").notNull(),
    prevHash: text("prev_hash").notNull(),
    hash: text().notNull(),
  },
  (row) => [primaryKey({ columns: [row.tenantId, row.seq] })],
);

export const products = sqliteTable(
  "products",
  {
    tenantId: text("tenant_id").notNull(),
    id: text().notNull(),
    identity: text().notNull(), // what may exist once: the GTIN of a model, GTIN/serial of a batch or an item
    gtin: text().notNull(),
    serialNumber: text("serial_number").notNull(),
    granularity: text().$type<"model" | "batch" | "item">().notNull(),
    category: text().notNull(),
    name: text().notNull(),
    nameFolded: text("name_folded").notNull(), // neither engine folds case beyond ASCII alike
    description: text().notNull(),
    extensions: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    schemaVersion: text("schema_version").notNull(),
    stage: text().$type<ProductStage>().notNull(),
    version: integer().notNull(),
    voidedAt: integer("voided_at"),
    voidReason: text("void_reason"),
    serials: integer().notNull(), // how many hang on it: counted here, so that a guard reads one row and no more
    printJobs: integer("print_jobs").notNull(),
    passports: integer().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (row) => [primaryKey({ columns: [row.tenantId, row.id] })],
);

export const events = sqliteTable(
  "events",
  {
    subject: text().notNull(),
    seq: integer().notNull(), // the subject's version that this event made
    id: text().notNull(),
    tenantId: text("tenant_id").notNull(),
    type: text().notNull(),
    at: integer().notNull(),
    actor: text({ mode: "json" }).$type<Actor>().notNull(),
    requestId: text("request_id").notNull(),
    data: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    snapshot: text({ mode: "json" }).$type<Record<string, unknown>>(),
  },
  (row) => [primaryKey({ columns: [row.subject, row.seq] })],
);

export const uploads = sqliteTable(
  "uploads",
  {
    id: text().notNull(),
    n: integer().notNull(),
    at: integer().notNull(),
    bytes: blob({ mode: "buffer" }).notNull(),
  },
  (row) => [primaryKey({ columns: [row.id, row.n] })],
);

export const imports = sqliteTable("imports", {
  id: text().primaryKey(), // the upload's too
  tenantId: text("tenant_id").notNull(),
  category: text().notNull(),
  status: text().$type<"pending" | "running" | "completed" | "failed">().notNull(),
  actor: text({ mode: "json" }).$type<Actor>().notNull(),
  requestId: text("request_id").notNull(),
  bytes: integer().notNull(),
  total: integer(),
  processed: integer().notNull(), // rows whose outcome is committed; a restart goes on after them
  created: integer().notNull(),
  failed: integer().notNull(),
  fault: text(),
  leaseUntil: integer("lease_until").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const importErrors = sqliteTable(
  "import_errors",
  {
    importId: text("import_id").notNull(),
    line: integer().notNull(),
    n: integer().notNull(),
    code: text().notNull(),
    field: text(),
    message: text().notNull(),
  },
  (row) => [primaryKey({ columns: [row.importId, row.line, row.n] })],
);

export const logHead = sqliteTable("log_head", { id: integer().primaryKey(), size: integer().notNull() });

export const logLeaves = sqliteTable("log_leaves", {
  n: integer().primaryKey(),
  entry: text({ mode: "json" }).$type<LogEntry>().notNull(), // the leaf's data is its canonical form
  digest: text().notNull(),
});

export const logNodes = sqliteTable(
  "log_nodes",
  {
    level: integer().notNull(), // 0: a leaf's hash; each complete subtree of 2^level leaves has one
    n: integer().notNull(),
    hash: blob({ mode: "buffer" }).notNull(),
  },
  (row) => [primaryKey({ columns: [row.level, row.n] })],
);

export const passports = sqliteTable(
  "passports",
  {
    tenantId: text("tenant_id").notNull(),
    id: text().notNull(),
    productId: text("product_id").notNull(),
    state: text().$type<PassportState>().notNull(),
    draftVersion: integer("draft_version"),
    publishedVersion: integer("published_version"),
    lastVersion: integer("last_version").notNull(),
    statusIndex: integer("status_index").notNull(), // its bit in the status list
    revokedAt: integer("revoked_at"),
    actor: text({ mode: "json" }).$type<Actor>().notNull(),
    requestId: text("request_id").notNull(),
    leaseUntil: integer("lease_until").notNull(),
    revision: integer().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (row) => [primaryKey({ columns: [row.tenantId, row.id] })],
);

export const passportVersions = sqliteTable(
  "passport_versions",
  {
    passportId: text("passport_id").notNull(),
    version: integer().notNull(),
    content: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
    digest: text().notNull(),
    credential: text().notNull(),
    createdAt: integer("created_at").notNull(),
    publishedAt: integer("published_at"),
  },
  (row) => [primaryKey({ columns: [row.passportId, row.version] })],
);

export const validations = sqliteTable(
  "validations",
  {
    passportId: text("passport_id").notNull(),
    version: integer().notNull(),
    id: text().notNull(),
    at: integer().notNull(),
    digest: text().notNull(),
    algorithm: text().notNull(),
    signature: text().notNull(),
    anchor: text().notNull(),
  },
  (row) => [primaryKey({ columns: [row.passportId, row.id] })],
);

/** Who publishes what, over all tenants: a GTIN as a whole, or one of its serials. */
export const claims = sqliteTable("claims", {
  identity: text().primaryKey(),
  gtin: text().notNull(),
  tenantId: text("tenant_id").notNull(),
  productId: text("product_id").notNull(),
});

export const counters = sqliteTable("counters", { name: text().primaryKey(), value: integer().notNull() });

export const serialCounters = sqliteTable("serial_counters", {
  tenantId: text("tenant_id").primaryKey(),
  secret: blob({ mode: "buffer" }).notNull(), // what makes the next serial unguessable from those before it
  next: integer().notNull(),
});

export const serials = sqliteTable(
  "serials",
  {
    tenantId: text("tenant_id").notNull(),
    serial: text().notNull(),
    gtin: text().notNull(),
    productId: text("product_id").notNull(),
    n: integer().notNull(), // the place in the tenant's row of serials: what an export goes by
    printStatus: text("print_status").$type<"printed" | "failed">(),
    printReason: text("print_reason"),
    printDeviceId: text("print_device_id"),
    printReportedAt: integer("print_reported_at"),
    voidedAt: integer("voided_at"),
    voidReason: text("void_reason"),
    createdAt: integer("created_at").notNull(),
  },
  (row) => [primaryKey({ columns: [row.tenantId, row.serial] })],
);

/** Digests as first seen: whatever node starts later, a version stays what it was. */
export const regulationPacks = sqliteTable(
  "regulation_packs",
  {
    celexId: text("celex_id").notNull(),
    version: text().notNull(),
    digest: text().notNull(),
    seenAt: integer("seen_at").notNull(),
  },
  (row) => [primaryKey({ columns: [row.celexId, row.version] })],
);

export const evaluations = sqliteTable(
  "evaluations",
  {
    tenantId: text("tenant_id").notNull(),
    productId: text("product_id").notNull(),
    productVersion: integer("product_version").notNull(),
    passport: text().notNull(), // its id and revision; nothing where there is none, or the pack doesn't look at it
    sector: text().$type<Sector>().notNull(),
    packDigest: text("pack_digest").notNull(),
    id: text().notNull(),
    celexId: text("celex_id").notNull(),
    packVersion: text("pack_version").notNull(),
    status: text().$type<ComplianceStatus>().notNull(),
    score: integer().notNull(),
    result: blob({ mode: "buffer" }).notNull(), // the very bytes that were answered, deflated: a fifth of them
    at: integer().notNull(),
  },
  (row) => [primaryKey({ columns: [row.tenantId, row.productId, row.productVersion, row.passport, row.sector, row.packDigest] })],
);
