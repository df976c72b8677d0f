-- Tenants, credentials, replayable answers, the audit chain.
-- One text for both engines: migrate.ts spells INTEGER, BLOB and the table options as PostgreSQL has them.

CREATE TABLE tenants (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  tier TEXT NOT NULL,
  sandbox INTEGER NOT NULL,
  expires_at INTEGER,
  company_prefixes TEXT NOT NULL,
  label_template TEXT,
  offline_grace_seconds INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  lookup TEXT NOT NULL UNIQUE,
  hash BLOB NOT NULL,
  prefix TEXT NOT NULL,
  device_id TEXT,
  bootstrap INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX api_keys_of_tenant ON api_keys (tenant_id, id);

CREATE TABLE oauth_clients (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  name TEXT NOT NULL,
  scopes TEXT NOT NULL,
  hash BLOB NOT NULL,
  prefix TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  deleted_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_clients_of_tenant ON oauth_clients (tenant_id, id);

CREATE TABLE signing_keys (
  kid TEXT PRIMARY KEY,
  public_jwk TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE idempotency (
  scope BLOB NOT NULL,
  key TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  status INTEGER NOT NULL,
  headers TEXT NOT NULL,
  body TEXT,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);

CREATE TABLE audit_heads (
  tenant_id TEXT PRIMARY KEY REFERENCES tenants (id),
  seq INTEGER NOT NULL,
  hash TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_log (
  tenant_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  at INTEGER NOT NULL,
  action TEXT NOT NULL,
  actor TEXT NOT NULL,
  subject TEXT,
  details TEXT NOT NULL,
  request_id TEXT NOT NULL,
  prev_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  PRIMARY KEY (tenant_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_log_by_request ON audit_log (request_id);
CREATE INDEX audit_log_by_action ON audit_log (tenant_id, action, seq);
