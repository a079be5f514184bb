-- Tasks that sleep: no worker holds them, and they are to be continued at a moment (microseconds since 1970).
ALTER TABLE tasks ADD COLUMN wake_at INTEGER;

-- Tasks that a worker holds, or held when it died. Those that sleep have an index of their own, so that finding the tasks
-- of dead workers costs the same however many sleep.
DROP INDEX tasks_by_holder;
CREATE INDEX tasks_by_holder ON tasks (holder, created_at, id)
WHERE state IN ('submitted', 'working') AND wake_at IS NULL;
CREATE INDEX tasks_by_wake ON tasks (wake_at) WHERE wake_at IS NOT NULL;
