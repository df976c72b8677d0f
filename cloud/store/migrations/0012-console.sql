-- The console: sessions that hold no credential, and what it asks for at every look kept so that a look stays cheap.

CREATE TABLE console_sessions (
  hash TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  credential_kind TEXT NOT NULL,
  credential_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL
) STRICT;
CREATE INDEX console_sessions_end ON console_sessions (ends_at);

-- How many jobs came to each of their ends in which hour: written in the commit that ends them.
CREATE TABLE job_hours (
  tenant_id TEXT NOT NULL,
  state TEXT NOT NULL,
  hour INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, state, hour)
) STRICT, WITHOUT ROWID;
INSERT INTO job_hours (tenant_id, state, hour, jobs)
  SELECT tenant_id, state, updated_at - updated_at % 3600000, COUNT(*) FROM print_jobs
  WHERE state IN ('SEALED', 'DEAD_LETTER', 'CANCELLED') GROUP BY 1, 2, 3;

CREATE INDEX print_jobs_state ON print_jobs (tenant_id, state, job_ref);
