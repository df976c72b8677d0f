-- Whether a label of a serial is on record as found is asked whenever one of that serial is sealed under a warning, or said to be destroyed.
CREATE INDEX orphans_found ON orphans (tenant_id, serial) WHERE disposition = 'found';
