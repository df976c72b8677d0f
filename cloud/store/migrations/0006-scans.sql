-- Scans of labels as the resolver saw them, and the indexes by which a stranger's question is answered in a bounded number of steps.

CREATE TABLE scans (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  product_id TEXT NOT NULL,
  gtin TEXT NOT NULL,
  serial TEXT NOT NULL,
  at INTEGER NOT NULL,
  agent TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX scans_by_age ON scans (at);

CREATE INDEX claims_by_owner ON claims (gtin, tenant_id);
DROP INDEX claims_by_gtin;
CREATE INDEX products_voided ON products (gtin, serial_number) WHERE voided_at IS NOT NULL;
CREATE INDEX serials_voided ON serials (gtin, serial) WHERE voided_at IS NOT NULL;
