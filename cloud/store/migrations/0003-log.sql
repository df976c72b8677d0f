-- The transparency log: leaves in the order they came, and the roots of all complete subtrees above them.

CREATE TABLE log_head (
  id INTEGER PRIMARY KEY,
  size INTEGER NOT NULL
) STRICT;
INSERT INTO log_head VALUES (1, 0);

CREATE TABLE log_leaves (
  n INTEGER PRIMARY KEY,
  entry TEXT NOT NULL,
  digest TEXT NOT NULL
) STRICT;
CREATE INDEX log_leaves_by_digest ON log_leaves (digest, n);

CREATE TABLE log_nodes (
  level INTEGER NOT NULL,
  n INTEGER NOT NULL,
  hash BLOB NOT NULL,
  PRIMARY KEY (level, n)
) STRICT, WITHOUT ROWID;
