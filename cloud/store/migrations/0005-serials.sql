-- Serials: allocated for carriers, each with what was last heard of its print; and the counter that each tenant's are drawn from.

CREATE TABLE serial_counters (
  tenant_id TEXT PRIMARY KEY REFERENCES tenants (id),
  secret BLOB NOT NULL,
  next INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE serials (
  tenant_id TEXT NOT NULL,
  serial TEXT NOT NULL,
  gtin TEXT NOT NULL,
  product_id TEXT NOT NULL,
  n INTEGER NOT NULL,
  print_status TEXT,
  print_reason TEXT,
  print_device_id TEXT,
  print_reported_at INTEGER,
  print_batch BLOB,
  open_job TEXT,
  sealed_job TEXT,
  voided_at INTEGER,
  void_reason TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, serial)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX serials_by_product ON serials (product_id, n);
CREATE INDEX serials_to_reprint ON serials (product_id, n) WHERE print_status = 'failed';
