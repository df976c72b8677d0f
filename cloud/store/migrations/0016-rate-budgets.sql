-- What credentials and addresses took of their rate budgets on all nodes together: the instant at which each bucket will be full again.

CREATE TABLE rate_budgets (
  key TEXT NOT NULL PRIMARY KEY,
  full_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
