-- The secret that a tenant's serials are made with: sealed; the one in clear is emptied then, and a row without a sealed one still has it.
ALTER TABLE serial_counters ADD COLUMN sealed TEXT;

-- Until when nodes of the version before may run, which read it in clear only: 0 in a new store, and below 0 until a node of this version has set it.
INSERT INTO counters SELECT 'serials_in_clear_until', CASE WHEN EXISTS (SELECT 1 FROM tenants) THEN -1 ELSE 0 END;
