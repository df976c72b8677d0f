-- Nodes that share this store, each with the origin that its links and tokens name. Those of the version before don't tell theirs.
CREATE TABLE nodes (
  id TEXT NOT NULL PRIMARY KEY,
  origin TEXT NOT NULL,
  seen_at INTEGER NOT NULL
) STRICT;
