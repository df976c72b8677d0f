-- Products, what happened to them, and the files that they come in.

CREATE TABLE products (
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  id TEXT NOT NULL,
  identity TEXT NOT NULL,
  gtin TEXT NOT NULL,
  serial_number TEXT NOT NULL,
  granularity TEXT NOT NULL,
  category TEXT NOT NULL,
  name TEXT NOT NULL,
  name_folded TEXT NOT NULL,
  description TEXT NOT NULL,
  extensions TEXT NOT NULL,
  schema_version TEXT NOT NULL,
  stage TEXT NOT NULL,
  version INTEGER NOT NULL,
  voided_at INTEGER,
  void_reason TEXT,
  serials INTEGER NOT NULL,
  print_jobs INTEGER NOT NULL,
  passports INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT;
CREATE UNIQUE INDEX products_by_identity ON products (tenant_id, identity);
CREATE INDEX products_by_category ON products (tenant_id, category, id);

CREATE TABLE events (
  subject TEXT NOT NULL,
  seq INTEGER NOT NULL,
  id TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  type TEXT NOT NULL,
  at INTEGER NOT NULL,
  actor TEXT NOT NULL,
  request_id TEXT NOT NULL,
  data TEXT NOT NULL,
  snapshot TEXT,
  PRIMARY KEY (subject, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE uploads (
  id TEXT NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  bytes BLOB NOT NULL,
  PRIMARY KEY (id, n)
) STRICT;

CREATE TABLE imports (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  category TEXT NOT NULL,
  status TEXT NOT NULL,
  actor TEXT NOT NULL,
  request_id TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  total INTEGER,
  processed INTEGER NOT NULL,
  created INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  fault TEXT,
  lease_until INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX imports_open ON imports (lease_until) WHERE status IN ('pending', 'running');
CREATE INDEX imports_of_tenant ON imports (tenant_id, id);

CREATE TABLE import_errors (
  import_id TEXT NOT NULL REFERENCES imports (id),
  line INTEGER NOT NULL,
  n INTEGER NOT NULL,
  code TEXT NOT NULL,
  field TEXT,
  message TEXT NOT NULL,
  PRIMARY KEY (import_id, line, n)
) STRICT;
