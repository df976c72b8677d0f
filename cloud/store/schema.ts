// Every table, once. Both engines hold only text, integers (instants are ms since 1970) and bytes, so values come out alike.
import type { SQLiteColumn, SQLiteColumnBuilderBase } from "drizzle-orm/sqlite-core";
import { blob, integer, primaryKey, sqliteTable, text } from "./drizzle.ts";
import type { ComplianceStatus, Sector } from "#shared/compliance.ts";
import type { EventName } from "#shared/events.ts";
import type { Tier } from "#shared/limits.ts";
import type { Assertor, Granularity, JobState, PassportState, ProductStage } from "#shared/states.ts";
import type { StationReport } from "#shared/wire/devices.ts";
import type { Behaviour, Problem } from "#shared/wire/epcis.ts";
import type { BundleItem, JobActor, Need } from "#shared/wire/jobs.ts";
import type { LogEntry } from "#shared/wire/log.ts";
import type { Attempt, DeliveryState, DisabledReason } from "#shared/wire/webhooks.ts";
import type { Receipt } from "#shared/wire/trust.ts";

type Columns = Record<string, SQLiteColumnBuilderBase>;
/** A table whose key has several columns. */
const keyed = <Name extends string, Its extends Columns>(name: Name, key: readonly (keyof Its & string)[], columns: Its) =>
  sqliteTable(name, columns, (row) => [primaryKey({ columns: key.map((column) => row[column]) as unknown as [SQLiteColumn] })]);

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

export const retiredKeys = sqliteTable("retired_keys", {
  kid: text().primaryKey(),
  retiredAt: integer("retired_at").notNull(),
  resignedAt: integer("resigned_at"),
});

/** Those that share this store. */
export const nodes = sqliteTable("nodes", {
  id: text().primaryKey(), // another one at each start
  origin: text().notNull(),
  seenAt: integer("seen_at").notNull(),
});

/** The cookie's hash, and whose credential it stands for: nothing in it signs anybody in. */
export const consoleSessions = sqliteTable("console_sessions", {
  hash: text().primaryKey(),
  tenantId: text("tenant_id").notNull(),
  credentialKind: text("credential_kind").$type<"api_key" | "oauth_client">().notNull(),
  credentialId: text("credential_id").notNull(),
  createdAt: integer("created_at").notNull(),
  endsAt: integer("ends_at").notNull(),
});

export const idempotency = keyed("idempotency", ["scope", "key"], {
  scope: blob({ mode: "buffer" }).notNull(), // tenant + credential + route, hashed: keys of one caller lie side by side
  key: text().notNull(),
  fingerprint: blob({ mode: "buffer" }).notNull(),
  status: integer().notNull(),
  headers: text({ mode: "json" }).$type<Record<string, string>>().notNull(),
  body: text(),
  expiresAt: integer("expires_at").notNull(),
});

export const auditHeads = sqliteTable("audit_heads", {
  tenantId: text("tenant_id").primaryKey(),
  seq: integer().notNull(),
  hash: text().notNull(),
});

export const auditLog = keyed("audit_log", ["tenantId", "seq"], {
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
});

export const products = keyed("products", ["tenantId", "id"], {
  tenantId: text("tenant_id").notNull(),
  id: text().notNull(),
  identity: text().notNull(), // what may exist once: the GTIN of a model, GTIN/serial of a batch or an item
  gtin: text().notNull(),
  serialNumber: text("serial_number").notNull(),
  granularity: text().$type<Granularity>().notNull(),
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
  printed: integer({ mode: "boolean" }).notNull(), // its serials have been in the print loop
  passports: integer().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const events = keyed("events", ["subject", "seq"], {
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
});

export const uploads = keyed("uploads", ["id", "n"], {
  id: text().notNull(),
  n: integer().notNull(),
  at: integer().notNull(),
  bytes: blob({ mode: "buffer" }).notNull(),
});

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

export const importErrors = keyed("import_errors", ["importId", "line", "n"], {
  importId: text("import_id").notNull(),
  line: integer().notNull(),
  n: integer().notNull(),
  code: text().notNull(),
  field: text(),
  message: text().notNull(),
});

export const logHead = sqliteTable("log_head", { id: integer().primaryKey(), size: integer().notNull() });

export const logLeaves = sqliteTable("log_leaves", {
  n: integer().primaryKey(),
  entry: text({ mode: "json" }).$type<LogEntry>().notNull(), // the leaf's data is its canonical form
  digest: text().notNull(),
});

export const logNodes = keyed("log_nodes", ["level", "n"], {
  level: integer().notNull(), // 0: a leaf's hash; each complete subtree of 2^level leaves has one
  n: integer().notNull(),
  hash: blob({ mode: "buffer" }).notNull(),
});

export const passports = keyed("passports", ["tenantId", "id"], {
  tenantId: text("tenant_id").notNull(),
  id: text().notNull(),
  productId: text("product_id").notNull(),
  state: text().$type<PassportState>().notNull(),
  draftVersion: integer("draft_version"),
  publishedVersion: integer("published_version"),
  lastVersion: integer("last_version").notNull(),
  revokedAt: integer("revoked_at"), // with its product, and every credential of it
  actor: text({ mode: "json" }).$type<Actor>().notNull(),
  requestId: text("request_id").notNull(),
  leaseUntil: integer("lease_until").notNull(),
  revision: integer().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const passportVersions = keyed("passport_versions", ["passportId", "version"], {
  passportId: text("passport_id").notNull(),
  version: integer().notNull(),
  content: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
  digest: text().notNull(),
  credential: text().notNull(),
  credentialId: text("credential_id"),
  createdAt: integer("created_at").notNull(),
  publishedAt: integer("published_at"),
});

export const validations = keyed("validations", ["passportId", "id"], {
  passportId: text("passport_id").notNull(),
  version: integer().notNull(),
  id: text().notNull(),
  at: integer().notNull(),
  digest: text().notNull(),
  algorithm: text().notNull(),
  signature: text().notNull(),
  anchor: text().notNull(),
  receipt: text({ mode: "json" }).$type<Receipt>(), // an external service's answer, as it came
});

/** Every credential that was ever signed for a passport, drafts that were replaced included: a bit of the status list each. */
export const issuedCredentials = sqliteTable("issued_credentials", {
  id: text().primaryKey(),
  tenantId: text("tenant_id").notNull(),
  passportId: text("passport_id").notNull(),
  version: integer().notNull(),
  statusIndex: integer("status_index").notNull(),
  issuedAt: integer("issued_at").notNull(),
  revokedAt: integer("revoked_at"),
});

/** What the external registry answered for a version. */
export const registrations = keyed("registrations", ["passportId", "version"], {
  passportId: text("passport_id").notNull(),
  version: integer().notNull(),
  registrationId: text("registration_id").notNull(),
  registry: text().notNull(),
  digest: text().notNull(),
  at: integer().notNull(),
});

/** Who publishes what, over all tenants: a GTIN as a whole, or one of its serials. */
export const claims = sqliteTable("claims", {
  identity: text().primaryKey(),
  gtin: text().notNull(),
  tenantId: text("tenant_id").notNull(),
  productId: text("product_id").notNull(),
});

/** A row per GTIN that every claim of it touches first: two tenants' claims of one GTIN wait for each other, on any engine. */
export const claimTurns = sqliteTable("claim_turns", { gtin: text().primaryKey(), turn: integer().notNull() });

export const counters = sqliteTable("counters", { name: text().primaryKey(), value: integer().notNull() });

export const serialCounters = sqliteTable("serial_counters", {
  tenantId: text("tenant_id").primaryKey(),
  secret: blob({ mode: "buffer" }).notNull(), // what makes the next serial unguessable from those before it, where an earlier version wrote it; else empty
  next: integer().notNull(),
  sealed: text(),
});

export const serials = keyed("serials", ["tenantId", "serial"], {
  tenantId: text("tenant_id").notNull(),
  serial: text().notNull(),
  gtin: text().notNull(),
  productId: text("product_id").notNull(),
  n: integer().notNull(), // the place in the tenant's row of serials: what an export goes by
  printStatus: text("print_status").$type<"printed" | "failed">(),
  printReason: text("print_reason"),
  printDeviceId: text("print_device_id"),
  printReportedAt: integer("print_reported_at"),
  printBatch: blob("print_batch", { mode: "buffer" }), // the print-status request that this outcome came in
  openJob: text("open_job"), // the one print job that is under way
  sealedJob: text("sealed_job"), // the latest that ended well
  strayJob: text("stray_job"), // the latest that ended badly, where it may have left a label; or "restored": since a backup; or "another system"
  voidedAt: integer("voided_at"),
  voidReason: text("void_reason"),
  createdAt: integer("created_at").notNull(),
});

export const webhooks = keyed("webhooks", ["tenantId", "id"], {
  tenantId: text("tenant_id").notNull(),
  id: text().notNull(),
  url: text().notNull(),
  description: text(),
  events: text({ mode: "json" }).$type<EventName[]>().notNull(),
  enabled: integer({ mode: "boolean" }).notNull(),
  disabledAt: integer("disabled_at"),
  disabledReason: text("disabled_reason").$type<DisabledReason>(),
  failingSince: integer("failing_since"), // the first failed try after the last success
  secret: text().notNull(), // sealed, as the one before it
  previousSecret: text("previous_secret"),
  previousUntil: integer("previous_until"),
  revision: integer().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const subscriptions = keyed("subscriptions", ["tenantId", "type", "webhookId"], {
  tenantId: text("tenant_id").notNull(),
  type: text().$type<EventName>().notNull(),
  webhookId: text("webhook_id").notNull(),
});

export const outbox = sqliteTable("outbox", {
  id: text().primaryKey(), // the event's
  tenantId: text("tenant_id").notNull(),
  type: text().$type<EventName>().notNull(),
  at: integer().notNull(),
  body: text().notNull(), // the envelope as it is sent, byte for byte
  targets: text({ mode: "json" }).$type<string[]>(), // webhooks that have no delivery of it yet; null once they have
  requestId: text("request_id"), // the request that it came from, where one did
  traceparent: text(), // likewise, where traces are kept
});

export const lanes = sqliteTable("lanes", {
  webhookId: text("webhook_id").primaryKey(),
  tenantId: text("tenant_id").notNull(),
  dueAt: integer("due_at"), // the earliest of its deliveries, 0 for a new one; null when none waits
  owner: text(),
  leaseUntil: integer("lease_until").notNull(),
  revision: integer().notNull(),
});

export const deliveries = keyed("deliveries", ["webhookId", "id"], {
  webhookId: text("webhook_id").notNull(),
  id: text().notNull(),
  tenantId: text("tenant_id").notNull(),
  eventId: text("event_id").notNull(),
  type: text().$type<EventName>().notNull(),
  state: text().$type<DeliveryState>().notNull(),
  dueAt: integer("due_at"), // 0 for a first try: it waits for no clock
  tries: integer().notNull(), // of this round; a redelivery by hand begins another
  byHand: integer("by_hand", { mode: "boolean" }).notNull(),
  attempts: text({ mode: "json" }).$type<Attempt[]>().notNull(),
  createdAt: integer("created_at").notNull(),
  endedAt: integer("ended_at"),
});

export const sealingKeys = sqliteTable("sealing_keys", {
  id: text().primaryKey(),
  key: blob({ mode: "buffer" }).notNull(),
  createdAt: integer("created_at").notNull(),
});

/** The hot row: fixed in size, with the words of its life beside it in `print_events`. */
export const printJobs = keyed("print_jobs", ["tenantId", "jobRef"], {
  tenantId: text("tenant_id").notNull(),
  jobRef: text("job_ref").notNull(),
  state: text().$type<JobState>().notNull(),
  fromState: text("from_state").$type<JobState>(), // the one before, for whoever moved many rows at once
  reached: integer().notNull(), // how far the latest attempt came on the job's path
  revision: integer().notNull(),
  productId: text("product_id").notNull(),
  gtin: text().notNull(),
  serial: text().notNull(),
  digitalLink: text("digital_link").notNull(),
  sgtin96Epc: text("sgtin96_epc"),
  needs: integer().notNull(), // a bit each
  template: text().notNull(),
  priority: integer().notNull(),
  station: text().notNull(), // empty: any
  reprint: integer({ mode: "boolean" }).notNull(),
  pool: integer({ mode: "boolean" }).notNull(), // a claim may take it
  dueAt: integer("due_at"), // written by versions before only
  attemptId: text("attempt_id"),
  attempt: integer().notNull(),
  maxAttempts: integer("max_attempts").notNull(),
  deviceId: text("device_id"),
  leaseSeconds: integer("lease_seconds"),
  leaseExpiresAt: integer("lease_expires_at"),
  envelopeExpiresAt: integer("envelope_expires_at"),
  simulated: integer({ mode: "boolean" }).notNull(),
  duplicateRisk: integer("duplicate_risk", { mode: "boolean" }).notNull(),
  reason: text(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  lookAt: integer("look_at"), // when the reaper looks at it: no later than its lease ends, or the tenant's grace after that
});

/** Jobs by the end that they came to and the hour in which they did. */
export const jobHours = keyed("job_hours", ["tenantId", "state", "hour"], {
  tenantId: text("tenant_id").notNull(),
  state: text().$type<JobState>().notNull(),
  hour: integer().notNull(),
  jobs: integer().notNull(),
});

export const printEvents = keyed("print_events", ["jobRef", "n"], {
  jobRef: text("job_ref").notNull(),
  n: integer().notNull(), // the job's revision that this made
  at: integer().notNull(),
  fromState: text("from_state").$type<JobState>(),
  toState: text("to_state").$type<JobState>().notNull(),
  attemptId: text("attempt_id"),
  attempt: integer().notNull(),
  actor: text({ mode: "json" }).$type<{ kind: Assertor; id: string | null }>().notNull(),
  reason: text(),
  item: text({ mode: "json" }).$type<BundleItem>(), // as it was sent: what the bundle's digest is over
});

export const orphans = keyed("orphans", ["tenantId", "id"], {
  tenantId: text("tenant_id").notNull(),
  id: text().notNull(),
  jobRef: text("job_ref").notNull(),
  attemptId: text("attempt_id").notNull(),
  gtin: text().notNull(),
  serial: text().notNull(),
  disposition: text().$type<"found" | "destroyed">().notNull(),
  evidence: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
  actor: text({ mode: "json" }).$type<JobActor>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const blobs = keyed("blobs", ["tenantId", "sha256"], {
  tenantId: text("tenant_id").notNull(),
  sha256: text().notNull(),
  mediaType: text("media_type").notNull(),
  bytes: blob({ mode: "buffer" }).notNull(),
  createdAt: integer("created_at").notNull(),
});

export const devices = keyed("devices", ["tenantId", "id"], {
  tenantId: text("tenant_id").notNull(),
  id: text().notNull(),
  name: text().notNull(),
  station: text(),
  capabilities: text({ mode: "json" }).$type<Need[]>().notNull(),
  apiKeyId: text("api_key_id").notNull(),
  report: text({ mode: "json" }).$type<StationReport & { statusAt?: number; kept?: string }>().notNull(), // what it last said of itself, when of its status, and what a broker keeps of it
  lastSeenAt: integer("last_seen_at"),
  deletedAt: integer("deleted_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

/** When somebody followed a label's link; nothing in it says who. */
export const scans = sqliteTable("scans", {
  id: text().primaryKey(),
  tenantId: text("tenant_id").notNull(),
  productId: text("product_id").notNull(),
  gtin: text().notNull(),
  serial: text().notNull(),
  at: integer().notNull(),
  agent: text().$type<"browser" | "program">().notNull(),
});

/** EPCIS events as they were captured; the columns are what queries ask for most. */
export const epcisEvents = keyed("epcis_events", ["tenantId", "eventId"], {
  tenantId: text("tenant_id").notNull(),
  eventId: text("event_id").notNull(), // the key that domain/epcis-document.ts gives it
  type: text().notNull(),
  action: text(),
  bizStep: text("biz_step"), // words of the CBV are bare here, however they were spelt
  disposition: text(),
  readPoint: text("read_point"),
  bizLocation: text("biz_location"),
  eventTime: integer("event_time").notNull(),
  recordTime: integer("record_time").notNull(),
  contextId: text("context_id"),
  body: text({ mode: "json" }).$type<Record<string, unknown>>().notNull(),
});

/** What the @context of a document adds to the standard's, once for all its events. */
export const epcisContexts = keyed("epcis_contexts", ["tenantId", "id"], {
  tenantId: text("tenant_id").notNull(),
  id: text().notNull(),
  context: text({ mode: "json" }).$type<unknown[]>().notNull(),
});

export const epcisTerms = keyed("epcis_terms", ["tenantId", "kind", "value", "eventId"], {
  tenantId: text("tenant_id").notNull(),
  kind: text().notNull(),
  value: text().notNull(),
  eventId: text("event_id").notNull(),
});

export const epcisCaptures = keyed("epcis_captures", ["tenantId", "id"], {
  tenantId: text("tenant_id").notNull(),
  id: text().notNull(),
  behaviour: text().$type<Behaviour>().notNull(),
  success: integer({ mode: "boolean" }).notNull(),
  errors: text({ mode: "json" }).$type<Problem[]>().notNull(),
  createdAt: integer("created_at").notNull(),
});

/** Digests as first seen: whatever node starts later, a version stays what it was. */
export const regulationPacks = keyed("regulation_packs", ["celexId", "version"], {
  celexId: text("celex_id").notNull(),
  version: text().notNull(),
  digest: text().notNull(),
  seenAt: integer("seen_at").notNull(),
});

export const evaluations = keyed("evaluations", ["tenantId", "productId", "productVersion", "passport", "sector", "packDigest"], {
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
});

/** Rate budgets that several nodes share; one node keeps them in memory. */
export const rateBudgets = sqliteTable("rate_budgets", {
  key: text().primaryKey(), // a credential's id, or an address
  fullAt: integer("full_at").notNull(),
});
