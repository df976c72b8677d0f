-- Webhooks: endpoints, what they listen to, the outbox of events on their way, and every delivery with its tries.

CREATE TABLE webhooks (
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  id TEXT NOT NULL,
  url TEXT NOT NULL,
  description TEXT,
  events TEXT NOT NULL,
  enabled INTEGER NOT NULL,
  disabled_at INTEGER,
  disabled_reason TEXT,
  failing_since INTEGER,
  secret TEXT NOT NULL,
  previous_secret TEXT,
  previous_until INTEGER,
  revision INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (tenant_id, id)
) STRICT, WITHOUT ROWID;

-- One row for each event that an enabled webhook listens to: what an emission looks at, and all that it looks at.
CREATE TABLE subscriptions (
  tenant_id TEXT NOT NULL,
  type TEXT NOT NULL,
  webhook_id TEXT NOT NULL,
  PRIMARY KEY (tenant_id, type, webhook_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  type TEXT NOT NULL,
  at INTEGER NOT NULL,
  body TEXT NOT NULL,
  targets TEXT
) STRICT;
CREATE INDEX outbox_to_fan_out ON outbox (id) WHERE targets IS NOT NULL;

-- One row a webhook: who works on it now, and when something of it is due next.
CREATE TABLE lanes (
  webhook_id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  due_at INTEGER,
  owner TEXT,
  lease_until INTEGER NOT NULL,
  revision INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_due ON lanes (due_at) WHERE due_at IS NOT NULL;

-- Rows lie in the order they came, not by webhook: an event for a hundred webhooks fills few pages, and so do the outcomes of its tries.
CREATE TABLE deliveries (
  webhook_id TEXT NOT NULL,
  id TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  event_id TEXT NOT NULL,
  type TEXT NOT NULL,
  state TEXT NOT NULL,
  due_at INTEGER,
  tries INTEGER NOT NULL,
  by_hand INTEGER NOT NULL,
  attempts TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  PRIMARY KEY (webhook_id, id)
) STRICT;
CREATE INDEX deliveries_due ON deliveries (webhook_id, due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX deliveries_by_end ON deliveries (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX deliveries_unwell ON deliveries (webhook_id, state, id) WHERE state IN ('failed', 'exhausted', 'held');

-- What secrets are sealed with, where several nodes have to open them and no key was set.
CREATE TABLE sealing_keys (
  id TEXT PRIMARY KEY,
  key BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
