-- Digests are found run by run of 4,096 leaves: what a hundred labels add lies on a few pages of the newest run, instead of one page for each.
DROP INDEX log_leaves_by_digest;
CREATE INDEX log_leaves_by_run ON log_leaves (n >> 12, substr(digest, 1, 16));
