-- oldest compatible schema: 1
--
-- What went wrong with the deliveries to a webhook: the event that is retried or paused (a JSON object), and the events that
-- were given up (a JSON array). Both are NULL for a webhook that accepts its events, so most rows are not in the index, and
-- the release before, which does not know the columns, leaves them as they are.
ALTER TABLE push_configs ADD COLUMN failure text COLLATE "C";
ALTER TABLE push_configs ADD COLUMN dead_letters text COLLATE "C";
CREATE INDEX push_configs_failing ON push_configs (tenant, owner, task, id)
WHERE failure IS NOT NULL OR dead_letters IS NOT NULL;
