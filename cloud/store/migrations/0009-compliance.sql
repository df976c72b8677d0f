-- Compliance: the digests of regulation packs as first seen, and every evaluation as it was answered.

CREATE TABLE regulation_packs (
  celex_id TEXT NOT NULL,
  version TEXT NOT NULL,
  digest TEXT NOT NULL,
  seen_at INTEGER NOT NULL,
  PRIMARY KEY (celex_id, version)
) STRICT;

CREATE TABLE evaluations (
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  product_id TEXT NOT NULL,
  product_version INTEGER NOT NULL,
  passport TEXT NOT NULL,
  sector TEXT NOT NULL,
  pack_digest TEXT NOT NULL,
  id TEXT NOT NULL,
  celex_id TEXT NOT NULL,
  pack_version TEXT NOT NULL,
  status TEXT NOT NULL,
  score INTEGER NOT NULL,
  result BLOB NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, product_id, product_version, passport, sector, pack_digest)
) STRICT;
