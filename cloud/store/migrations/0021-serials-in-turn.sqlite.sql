-- Serials lie in the order in which they were allocated, which is that in which they are printed: what is said of a hundred labels changes a few
-- pages instead of one for each. Where a serial lies, an index says that a label's life doesn't touch.
ALTER TABLE serials RENAME TO serials_before;
DROP INDEX serials_by_product;
DROP INDEX serials_to_reprint;
DROP INDEX serials_voided;
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
  stray_job TEXT,
  voided_at INTEGER,
  void_reason TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, serial)
) STRICT;
INSERT INTO serials SELECT
  tenant_id, serial, gtin, product_id, n, print_status, print_reason, print_device_id, print_reported_at, print_batch,
  open_job, sealed_job, stray_job, voided_at, void_reason, created_at
  FROM serials_before ORDER BY created_at, tenant_id, n;
DROP TABLE serials_before;
CREATE UNIQUE INDEX serials_by_product ON serials (product_id, n);
CREATE INDEX serials_to_reprint ON serials (product_id, n) WHERE print_status = 'failed';
CREATE INDEX serials_voided ON serials (gtin, serial) WHERE voided_at IS NOT NULL;
