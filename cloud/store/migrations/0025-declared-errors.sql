-- What declares an event to be an error has the same id as that event: it gets a key of its own beside it.
UPDATE epcis_events SET event_id = event_id || ' error'
WHERE (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM epcis_terms WHERE kind = 'error');
UPDATE epcis_terms SET event_id = event_id || ' error'
WHERE (tenant_id, event_id) IN (SELECT tenant_id, event_id FROM epcis_terms WHERE kind = 'error');
