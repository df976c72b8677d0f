-- EPCIS: events as captured, the contexts that their extensions are declared in, what they are found by, and the capture jobs.

CREATE TABLE epcis_events (
  tenant_id TEXT NOT NULL,
  event_id TEXT NOT NULL,
  type TEXT NOT NULL,
  action TEXT,
  biz_step TEXT,
  disposition TEXT,
  read_point TEXT,
  biz_location TEXT,
  event_time INTEGER NOT NULL,
  record_time INTEGER NOT NULL,
  context_id TEXT,
  body TEXT NOT NULL,
  PRIMARY KEY (tenant_id, event_id)
) STRICT;
-- With the words that queries filter by, so that events which don't match are passed over without being read.
CREATE INDEX epcis_events_by_event_time ON epcis_events (tenant_id, event_time, event_id, type, action, biz_step, disposition);
CREATE INDEX epcis_events_by_record_time ON epcis_events (tenant_id, record_time, event_id);
CREATE INDEX epcis_events_by_read_point ON epcis_events (tenant_id, read_point, event_time, event_id) WHERE read_point IS NOT NULL;

CREATE TABLE epcis_contexts (
  tenant_id TEXT NOT NULL,
  id TEXT NOT NULL,
  context TEXT NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT;

CREATE TABLE epcis_terms (
  tenant_id TEXT NOT NULL,
  kind TEXT NOT NULL,
  value TEXT NOT NULL,
  event_id TEXT NOT NULL,
  PRIMARY KEY (tenant_id, kind, value, event_id)
) STRICT, WITHOUT ROWID;
-- The event first: by its tenant alone nobody shall think of entering it, and a planner without figures would.
CREATE INDEX epcis_terms_by_event ON epcis_terms (event_id, tenant_id);

CREATE TABLE epcis_captures (
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  id TEXT NOT NULL,
  behaviour TEXT NOT NULL,
  success INTEGER NOT NULL,
  errors TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT;
