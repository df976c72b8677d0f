-- Signing keys that count for nothing any more: since when, and when all that they had signed of passports was signed anew.
CREATE TABLE retired_keys (
  kid TEXT NOT NULL PRIMARY KEY,
  retired_at INTEGER NOT NULL,
  resigned_at INTEGER
) STRICT;
