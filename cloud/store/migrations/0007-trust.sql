-- Each credential that was ever signed has a bit of its own; what registries and anchors answered; the turn that claims of a GTIN take.

CREATE TABLE issued_credentials (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  passport_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  status_index INTEGER NOT NULL,
  issued_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT;
CREATE INDEX issued_credentials_by_passport ON issued_credentials (passport_id);
CREATE INDEX issued_credentials_revoked ON issued_credentials (status_index) WHERE revoked_at IS NOT NULL;

-- Versions that were signed before share their passport's bit, as it says in what was signed.
ALTER TABLE passport_versions ADD COLUMN credential_id TEXT;
UPDATE passport_versions SET credential_id = passport_id || '.' || version;
INSERT INTO issued_credentials
SELECT v.credential_id, p.tenant_id, p.id, v.version, p.status_index, v.created_at, p.revoked_at
FROM passport_versions v JOIN passports p ON p.id = v.passport_id;

CREATE TABLE passports_now (
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  id TEXT NOT NULL,
  product_id TEXT NOT NULL UNIQUE,
  state TEXT NOT NULL,
  draft_version INTEGER,
  published_version INTEGER,
  last_version INTEGER NOT NULL,
  revoked_at INTEGER,
  actor TEXT NOT NULL,
  request_id TEXT NOT NULL,
  lease_until INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT;
INSERT INTO passports_now
SELECT tenant_id, id, product_id, state, draft_version, published_version, last_version, revoked_at, actor, request_id, lease_until, revision,
  created_at, updated_at
FROM passports;
DROP TABLE passports;
ALTER TABLE passports_now RENAME TO passports;
CREATE INDEX passports_to_generate ON passports (lease_until) WHERE state = 'generating';
CREATE UNIQUE INDEX passports_by_id ON passports (id);

ALTER TABLE validations ADD COLUMN receipt TEXT;

CREATE TABLE registrations (
  passport_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  registration_id TEXT NOT NULL,
  registry TEXT NOT NULL,
  digest TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (passport_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE claim_turns (
  gtin TEXT PRIMARY KEY,
  turn INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
