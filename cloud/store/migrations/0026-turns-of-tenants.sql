-- Events that wait for their deliveries, tenant by tenant: each has its turn, however much another has waiting.
CREATE INDEX outbox_by_tenant ON outbox (tenant_id, id) WHERE targets IS NOT NULL;
