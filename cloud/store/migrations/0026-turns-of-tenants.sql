-- Events that wait for their deliveries, tenant by tenant: each has its turn, however much another has waiting. Said otherwise than in the index by id, so
-- that PostgreSQL, which takes what waits for next to nothing when it last looked in a quiet hour, doesn't go through all of it by that one.
CREATE INDEX outbox_by_tenant ON outbox (tenant_id, id) WHERE COALESCE(targets, '') <> '';
