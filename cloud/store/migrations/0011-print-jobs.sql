-- Print jobs: the small row that claims and results go through, what was said of it word by word, stray labels, pictures, and who prints.

ALTER TABLE products RENAME COLUMN print_jobs TO printed;

CREATE TABLE print_jobs (
  tenant_id TEXT NOT NULL,
  job_ref TEXT NOT NULL,
  state TEXT NOT NULL,
  from_state TEXT,
  reached INTEGER NOT NULL,
  revision INTEGER NOT NULL,
  product_id TEXT NOT NULL,
  gtin TEXT NOT NULL,
  serial TEXT NOT NULL,
  digital_link TEXT NOT NULL,
  sgtin96_epc TEXT,
  needs INTEGER NOT NULL,
  template TEXT NOT NULL,
  priority INTEGER NOT NULL,
  station TEXT NOT NULL,
  reprint INTEGER NOT NULL,
  pool INTEGER NOT NULL,
  due_at INTEGER,
  attempt_id TEXT,
  attempt INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  device_id TEXT,
  lease_seconds INTEGER,
  lease_expires_at INTEGER,
  envelope_expires_at INTEGER,
  simulated INTEGER NOT NULL,
  duplicate_risk INTEGER NOT NULL,
  reason TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, job_ref)
) STRICT, WITHOUT ROWID;
CREATE INDEX print_jobs_pool ON print_jobs (tenant_id, station, needs, priority DESC, job_ref) WHERE pool = 1;
CREATE INDEX print_jobs_due ON print_jobs (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE print_events (
  job_ref TEXT NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  from_state TEXT,
  to_state TEXT NOT NULL,
  attempt_id TEXT,
  attempt INTEGER NOT NULL,
  actor TEXT NOT NULL,
  reason TEXT,
  item TEXT,
  PRIMARY KEY (job_ref, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE orphans (
  tenant_id TEXT NOT NULL,
  id TEXT NOT NULL,
  job_ref TEXT NOT NULL,
  attempt_id TEXT NOT NULL,
  gtin TEXT NOT NULL,
  serial TEXT NOT NULL,
  disposition TEXT NOT NULL,
  evidence TEXT NOT NULL,
  actor TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, job_ref, attempt_id)
) STRICT;

CREATE TABLE blobs (
  tenant_id TEXT NOT NULL,
  sha256 TEXT NOT NULL,
  media_type TEXT NOT NULL,
  bytes BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, sha256)
) STRICT;

CREATE TABLE devices (
  tenant_id TEXT NOT NULL,
  id TEXT NOT NULL,
  name TEXT NOT NULL,
  station TEXT,
  capabilities TEXT NOT NULL,
  api_key_id TEXT NOT NULL,
  report TEXT NOT NULL,
  last_seen_at INTEGER,
  deleted_at INTEGER,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT;
