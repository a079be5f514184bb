-- Webhooks, and which of them are behind. A task is in the outbox if, and only if, one of its webhooks is behind. Whatever
-- decides that locks the task's row first, so that an append at the same time comes before or after it.

-- name: put
-- Keeps a webhook of a task that is locked.
INSERT INTO push_configs (tenant, task, id, owner, config, version, delivered_seq) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, task, id) DO UPDATE SET config = excluded.config, version = excluded.version, failure = NULL

-- name: put_behind
WITH noted AS (UPDATE tasks SET has_webhooks = TRUE WHERE tenant = $1 AND id = $3 AND NOT has_webhooks)
INSERT INTO outbox (tenant, owner, task, holder) SELECT $1, $2, $3, $4
WHERE EXISTS (SELECT 1 FROM push_configs WHERE tenant = $1 AND task = $3 AND delivered_seq < $5)
ON CONFLICT DO NOTHING

-- name: delete
DELETE FROM push_configs WHERE tenant = $1 AND task = $2 AND owner = $3 AND id = $4

-- name: note_deletion
-- Says whether a locked task still has webhooks, and takes it out of the outbox if those have caught up.
WITH noted AS (
    UPDATE tasks SET has_webhooks = EXISTS (SELECT 1 FROM push_configs WHERE tenant = $1 AND task = $2)
    WHERE tenant = $1 AND id = $2 AND owner = $3
)
DELETE FROM outbox WHERE tenant = $1 AND owner = $3 AND task = $2
    AND NOT EXISTS (SELECT 1 FROM push_configs WHERE tenant = $1 AND task = $2 AND delivered_seq < $4)

-- name: webhooks
SELECT t.agent, p.config, p.version, p.delivered_seq, t.last_seq, p.failure, p.dead_letters
FROM push_configs AS p JOIN tasks AS t ON t.tenant = p.tenant AND t.id = p.task
WHERE p.tenant = $1 AND p.task = $2 AND p.owner = $3 ORDER BY p.id

-- name: claim
-- Rows of no live worker go to $4; the rows that are its own now are returned. A row that another process has locked, because
-- it claims it as well, is left to that process: a worker whose claims waited for a paused one could write nothing else.
UPDATE outbox SET holder = $4
FROM (
    SELECT outbox.tenant, outbox.owner, outbox.task
    FROM unnest($1::text[], $2::text[], $3::text[]) AS wanted (tenant, owner, task)
    JOIN outbox ON outbox.tenant = wanted.tenant AND outbox.owner = wanted.owner AND outbox.task = wanted.task
    WHERE outbox.holder = $4 OR outbox.holder <> ALL ($5::text[])
    ORDER BY outbox.tenant, outbox.owner, outbox.task
    FOR UPDATE OF outbox SKIP LOCKED
) AS mine
WHERE outbox.tenant = mine.tenant AND outbox.owner = mine.owner AND outbox.task = mine.task
RETURNING outbox.tenant, outbox.owner, outbox.task

-- name: mark_delivered
-- `locked` is the task's row as it is now, also where it had to wait for another transaction.
WITH locked AS (SELECT last_seq FROM tasks WHERE tenant = $1 AND id = $2 AND owner = $3 FOR UPDATE),
marked AS (
    UPDATE push_configs SET delivered_seq = greatest(delivered_seq, $5::bigint), failure = NULL
    FROM locked
    WHERE tenant = $1 AND task = $2 AND owner = $3 AND id = $4 AND delivered_seq >= $7::bigint AND NOT EXISTS (
        SELECT 1 FROM outbox WHERE tenant = $1 AND owner = $3 AND task = $2 AND holder NOT IN ('', $6::text)
    )
    RETURNING delivered_seq, locked.last_seq
),
done AS (
    DELETE FROM outbox USING marked
    WHERE tenant = $1 AND owner = $3 AND task = $2 AND marked.delivered_seq >= marked.last_seq AND NOT EXISTS (
        SELECT 1 FROM push_configs WHERE tenant = $1 AND task = $2 AND id <> $4 AND delivered_seq < marked.last_seq
    )
)
SELECT count(*) FROM marked

-- name: rewind
-- Of a task that is locked; `put_behind` follows.
UPDATE push_configs SET delivered_seq = least(delivered_seq, $5::bigint), failure = NULL
WHERE tenant = $1 AND task = $2 AND owner = $3 AND id = $4 RETURNING 1

-- name: note_failure
-- Locks the task first, as whatever changes a webhook does.
WITH locked AS (SELECT 1 FROM tasks WHERE tenant = $1 AND id = $2 AND owner = $3 FOR UPDATE),
noted AS (
    UPDATE push_configs SET failure = $5
    FROM locked
    WHERE tenant = $1 AND task = $2 AND owner = $3 AND id = $4 AND delivered_seq >= $7::bigint AND NOT EXISTS (
        SELECT 1 FROM outbox WHERE tenant = $1 AND owner = $3 AND task = $2 AND holder NOT IN ('', $6::text)
    )
    RETURNING 1
)
SELECT count(*) FROM noted

-- name: read_dead_letters
-- Of a task that is locked; `write_dead_letters` follows.
SELECT dead_letters FROM push_configs WHERE tenant = $1 AND task = $2 AND owner = $3 AND id = $4

-- name: write_dead_letters
UPDATE push_configs SET dead_letters = $5 WHERE tenant = $1 AND task = $2 AND owner = $3 AND id = $4

-- name: failing
SELECT p.task, t.agent, p.config, p.version, p.delivered_seq, t.last_seq, p.failure, p.dead_letters
FROM push_configs AS p JOIN tasks AS t ON t.tenant = p.tenant AND t.id = p.task
WHERE (p.failure IS NOT NULL OR p.dead_letters IS NOT NULL) AND p.tenant = $1 AND p.owner = $2
    AND ($3::text IS NULL OR t.agent = $3) AND ($4::text IS NULL OR (p.task, p.id) > ($4, $5::text))
ORDER BY p.task, p.id LIMIT $6

-- name: backlog
SELECT count(*) FROM outbox

-- name: undelivered
-- By tenant, owner and task, merged from the parts of the workers that are not among $1. {conditions} stands for an owner and
-- for where the page begins.
WITH RECURSIVE holders AS (
    (SELECT holder FROM outbox ORDER BY holder LIMIT 1)
    UNION ALL
    SELECT (SELECT o.holder FROM outbox AS o WHERE o.holder > holders.holder ORDER BY o.holder LIMIT 1)
    FROM holders WHERE holders.holder IS NOT NULL
)
SELECT found.* FROM holders CROSS JOIN LATERAL (
    SELECT tenant, owner, task FROM outbox WHERE outbox.holder = holders.holder {conditions}
    ORDER BY tenant, owner, task LIMIT $2
) AS found
WHERE holders.holder <> ALL ($1::text[])
ORDER BY tenant, owner, task LIMIT $2
