-- What went wrong with the deliveries to a webhook: the event that is retried or paused (a JSON object), and the events that
-- were given up (a JSON array). Both are NULL for a webhook that accepts its events, so most rows are not in the index.
ALTER TABLE push_configs ADD COLUMN failure TEXT;
ALTER TABLE push_configs ADD COLUMN dead_letters TEXT;
CREATE INDEX push_configs_failing ON push_configs (tenant, owner, task, id)
WHERE failure IS NOT NULL OR dead_letters IS NOT NULL;
