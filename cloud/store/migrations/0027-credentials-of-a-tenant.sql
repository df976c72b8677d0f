-- A tenant's credentials are listed from its own, and not looked for among those of all.
CREATE INDEX issued_credentials_by_tenant ON issued_credentials (tenant_id, id);
