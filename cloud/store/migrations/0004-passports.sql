-- Passports, their versions as signed, and the validations that were anchored in the log.

CREATE TABLE passports (
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  id TEXT NOT NULL,
  product_id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL,
  draft_version INTEGER,
  published_version INTEGER,
  last_version INTEGER NOT NULL,
  status_index INTEGER NOT NULL UNIQUE,
  revoked_at INTEGER,
  actor TEXT NOT NULL,
  request_id TEXT NOT NULL,
  lease_until INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT;
CREATE INDEX passports_to_generate ON passports (lease_until) WHERE state = 'generating';
CREATE INDEX passports_revoked ON passports (status_index) WHERE revoked_at IS NOT NULL;

CREATE TABLE passport_versions (
  passport_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  content TEXT NOT NULL,
  digest TEXT NOT NULL,
  credential TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  published_at INTEGER,
  PRIMARY KEY (passport_id, version)
) STRICT;

CREATE TABLE validations (
  passport_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  id TEXT NOT NULL,
  at INTEGER NOT NULL,
  digest TEXT NOT NULL,
  algorithm TEXT NOT NULL,
  signature TEXT NOT NULL,
  anchor TEXT NOT NULL,
  PRIMARY KEY (passport_id, id)
) STRICT;

CREATE TABLE claims (
  identity TEXT PRIMARY KEY,
  gtin TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  product_id TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX claims_by_gtin ON claims (gtin);

CREATE TABLE counters (
  name TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES ('credential_status', 0);
