-- Which request an event came from, for the headers of its deliveries.
ALTER TABLE outbox ADD COLUMN request_id TEXT;
ALTER TABLE outbox ADD COLUMN traceparent TEXT;

-- What retention needs: one node sweeps at a time, and hours of long ago are found without reading those of today.

INSERT INTO counters VALUES ('sweep_until', 0);
CREATE INDEX job_hours_by_hour ON job_hours (hour) WHERE hour > 0;
