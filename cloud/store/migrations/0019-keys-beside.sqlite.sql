-- A key that isn't there yet is looked for in an index of keys, not in a tree of whole answers: half the time for a lookup and a record.
ALTER TABLE idempotency RENAME TO idempotency_before;
DROP INDEX idempotency_by_expiry;
CREATE TABLE idempotency (
  scope BLOB NOT NULL,
  key TEXT NOT NULL,
  fingerprint BLOB NOT NULL,
  status INTEGER NOT NULL,
  headers TEXT NOT NULL,
  body TEXT,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT;
INSERT INTO idempotency SELECT scope, key, fingerprint, status, headers, body, expires_at FROM idempotency_before ORDER BY expires_at;
DROP TABLE idempotency_before;
CREATE INDEX idempotency_by_expiry ON idempotency (expires_at);
