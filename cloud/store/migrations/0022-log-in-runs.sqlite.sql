-- Digests are found run by run of 8,192 leaves: what a hundred labels add lies on a few pages of the newest run, instead of one page for each.
DROP INDEX log_leaves_by_digest;
CREATE INDEX log_leaves_by_run ON log_leaves (n >> 13, substr(digest, 57, 8));
