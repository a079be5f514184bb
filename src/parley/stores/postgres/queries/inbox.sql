-- What waits for the holders of tasks.

-- name: post
-- For a task that is locked.
INSERT INTO inbox (tenant, owner, task, id, item) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING

-- name: items
-- Nearly always there are none: then no task is looked at.
SELECT item FROM inbox JOIN tasks ON tasks.tenant = inbox.tenant AND tasks.id = inbox.task
WHERE holder = $1 ORDER BY inbox.number

-- name: has
SELECT 1 FROM inbox WHERE tenant = $1 AND task = $2 AND id = $3 AND owner = $4

-- name: withdraw
DELETE FROM inbox WHERE tenant = $1 AND task = $2 AND id = $3 AND owner = $4 RETURNING 1
