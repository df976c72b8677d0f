-- When the reaper looks at a job next. What renews a lease leaves it where it is, so that a report touches no index. Versions before write due_at at every
-- report, and act on it without a look at the lease: while one of them still runs, what it must not take for over has none.
ALTER TABLE print_jobs ADD COLUMN look_at INTEGER;
CREATE INDEX print_jobs_look ON print_jobs (look_at) WHERE look_at IS NOT NULL;
