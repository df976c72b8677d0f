-- What a disabled webhook wasn't sent is forgotten oldest first, and not looked for every minute among all that ever went wrong.
CREATE INDEX deliveries_held ON deliveries (created_at) WHERE state = 'held';
-- A serial names its open job and the latest that sealed it; its others are here. A label that is made well the first time never comes to this index.
CREATE INDEX print_jobs_of_serial ON print_jobs (serial) WHERE state IN ('CANCELLED', 'DEAD_LETTER') OR reprint = 1;
