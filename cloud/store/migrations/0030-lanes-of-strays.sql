-- Deliveries of a webhook that was deleted while another node still made some: versions before could leave them without a lane, and then nobody removed
-- them. They get one, and go with it.
INSERT INTO lanes SELECT webhook_id, MIN(tenant_id), 0, NULL, 0, 0 FROM deliveries
WHERE due_at IS NOT NULL AND NOT EXISTS (SELECT 1 FROM lanes WHERE lanes.webhook_id = deliveries.webhook_id) GROUP BY webhook_id;
