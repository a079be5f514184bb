-- Tasks and their events. {head} stands for the columns of a head.
--
-- A task is found by its tenant and id. `IS TRUE` keeps its owner from being looked for in an index: until tables are
-- analysed for the first time, the planner would as soon read all tasks of the owner as the one with the id.

-- name: head
SELECT {head} FROM tasks WHERE tenant = $1 AND id = $2 AND (owner = $3) IS TRUE

-- name: read
-- Tasks in the order of their keys, each with its snapshot and the rows of events after it, until more than $5 characters
-- are read; without artifacts if $4 is false. The lengths are known without reading the texts. Why the keys are in queries
-- of their own: see `load_sends`.
WITH wanted AS (
    SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]))
        WITH ORDINALITY AS w (tenant, id, owner, place)
),
measured AS (
    SELECT w.place, t.number, t.snapshot_seq,
        coalesce((SELECT octet_length(s.snapshot) + CASE WHEN $4::boolean THEN octet_length(s.artifacts) ELSE 0 END
            FROM snapshots AS s WHERE s.task = t.number), 0)
        + coalesce((SELECT sum(octet_length(e.events)) FROM events AS e
            WHERE e.task = t.number AND e.first_seq > t.snapshot_seq AND ($4::boolean OR NOT e.is_unlisted)), 0) AS length
    FROM wanted AS w LEFT JOIN LATERAL (
        SELECT number, snapshot_seq FROM tasks
        WHERE tasks.tenant = w.tenant AND tasks.id = w.id AND (tasks.owner = w.owner) IS TRUE
    ) AS t ON TRUE
),
chosen AS (
    SELECT place, number AS task,
        coalesce(sum(length) OVER (ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS length_before
    FROM measured
)
SELECT number, snapshot_seq, snapshots.snapshot, CASE WHEN $4::boolean THEN snapshots.artifacts END,
    ARRAY(
        SELECT e.events FROM events AS e
        WHERE e.task = tasks.number AND e.first_seq > tasks.snapshot_seq AND ($4::boolean OR NOT e.is_unlisted)
        ORDER BY e.first_seq
    ),
    {head}
FROM chosen LEFT JOIN tasks ON tasks.number = chosen.task LEFT JOIN snapshots ON snapshots.task = chosen.task
WHERE length_before <= $5::bigint
ORDER BY place

-- name: find
-- The tasks with the id $1, in the tenant $2 and of owners named $3, each of them if NULL: one step in the index per tenant.
WITH RECURSIVE tenants AS (
    (SELECT tenant FROM tasks WHERE $2::text IS NULL OR tenant = $2 ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT t.tenant FROM tasks AS t WHERE t.tenant > tenants.tenant ORDER BY t.tenant LIMIT 1)
    FROM tenants WHERE tenants.tenant IS NOT NULL AND $2::text IS NULL
)
SELECT found.* FROM tenants CROSS JOIN LATERAL (
    SELECT {head} FROM tasks WHERE tasks.tenant = tenants.tenant AND id = $1 AND ($3::text IS NULL OR owner = $3)
) AS found
ORDER BY tenant

-- name: read_one
-- The same for one task, however long it is.
SELECT number, snapshot_seq, snapshots.snapshot, snapshots.artifacts,
    ARRAY(
        SELECT e.events FROM events AS e
        WHERE e.task = tasks.number AND e.first_seq > tasks.snapshot_seq ORDER BY e.first_seq
    ),
    {head}
FROM tasks LEFT JOIN snapshots ON snapshots.task = tasks.number
WHERE tenant = $1 AND id = $2 AND (owner = $3) IS TRUE

-- name: events
-- The rows that hold the $5 events after the number $4, until more than $6 characters are read. The first row may begin
-- before that number.
WITH task AS (SELECT number FROM tasks WHERE tenant = $1 AND id = $2 AND (owner = $3) IS TRUE),
found AS (
    SELECT first_seq, events, written_at,
        coalesce(
            sum(octet_length(events)) OVER (ORDER BY first_seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0
        ) AS length_before
    FROM events
    WHERE task = (SELECT number FROM task) AND first_seq <= $4::bigint + $5::bigint AND first_seq >= coalesce(
        (
            SELECT first_seq FROM events
            WHERE task = (SELECT number FROM task) AND first_seq <= $4::bigint + 1 ORDER BY first_seq DESC LIMIT 1
        ), 0
    )
)
SELECT first_seq, events, written_at FROM found WHERE length_before <= $6::bigint ORDER BY first_seq

-- name: next_wake
SELECT wake_at FROM tasks WHERE wake_at > $1 ORDER BY wake_at LIMIT 1

-- name: workload
-- Of each worker how many tasks it holds, and the earliest status of those; without a worker, how many sleep.
SELECT holder, count(*), min(status_at) FROM tasks
WHERE state IN ('submitted', 'working') AND wake_at IS NULL GROUP BY holder
UNION ALL
SELECT NULL, count(*), NULL FROM tasks WHERE wake_at IS NOT NULL

-- name: lock
-- Whether an owner has a task; its row is locked until the transaction ends.
SELECT number, last_seq, holder FROM tasks WHERE tenant = $1 AND id = $2 AND (owner = $3) IS TRUE FOR UPDATE

-- name: delete
-- A task that is locked, with all that belongs to it.
WITH deleted AS (DELETE FROM tasks WHERE number = $1 RETURNING tenant, id, owner),
of_events AS (DELETE FROM events WHERE task = $1),
of_snapshots AS (DELETE FROM snapshots WHERE task = $1),
of_webhooks AS (DELETE FROM push_configs AS p USING deleted AS d WHERE p.tenant = d.tenant AND p.task = d.id),
of_outbox AS (DELETE FROM outbox AS o USING deleted AS d WHERE o.tenant = d.tenant AND o.owner = d.owner AND o.task = d.id),
of_inbox AS (DELETE FROM inbox AS i USING deleted AS d WHERE i.tenant = d.tenant AND i.task = d.id),
of_sends AS (
    DELETE FROM sends AS s USING deleted AS d WHERE s.task = d.id AND s.tenant = d.tenant AND s.owner = d.owner
)
SELECT 1

-- name: delete_finished
-- The $2 oldest tasks that ended before the moment $1, with all that belongs to them; of the tenant $3 and the agent $4, or of
-- all where one is NULL. Once these have $5 events, no further task is deleted: a statement that takes seconds looks like a
-- server that is gone. Tasks that another process has locked are left to it, so that no writer waits for this and several
-- processes may do it at the same time.
WITH RECURSIVE tenants AS (
    (SELECT tenant FROM tasks ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT t.tenant FROM tasks AS t WHERE t.tenant > tenants.tenant ORDER BY t.tenant LIMIT 1)
    FROM tenants WHERE tenants.tenant IS NOT NULL
),
oldest AS (
    SELECT number, coalesce(
        sum(last_seq) OVER (ORDER BY status_at, number ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0
    ) AS events_before
    FROM (
        SELECT number, status_at, last_seq FROM tenants CROSS JOIN LATERAL (
            SELECT number, status_at, last_seq FROM tasks AS t
            WHERE t.tenant = tenants.tenant AND t.status_at < $1
                AND t.state IN ('completed', 'failed', 'canceled', 'rejected') AND ($4::text IS NULL OR t.agent = $4::text)
            ORDER BY t.status_at LIMIT $2
        ) AS of_tenant
        WHERE $3::text IS NULL OR tenants.tenant = $3::text
        ORDER BY status_at, number LIMIT $2
    ) AS ended
),
free AS (
    SELECT number FROM tasks WHERE number IN (SELECT number FROM oldest WHERE events_before < $5::bigint)
        AND status_at < $1 AND state IN ('completed', 'failed', 'canceled', 'rejected')
    FOR UPDATE SKIP LOCKED
),
deleted AS (DELETE FROM tasks WHERE number IN (SELECT number FROM free) RETURNING number, tenant, id, owner),
of_events AS (DELETE FROM events AS e USING deleted AS d WHERE e.task = d.number),
of_snapshots AS (DELETE FROM snapshots AS s USING deleted AS d WHERE s.task = d.number),
of_webhooks AS (DELETE FROM push_configs AS p USING deleted AS d WHERE p.tenant = d.tenant AND p.task = d.id),
of_outbox AS (DELETE FROM outbox AS o USING deleted AS d WHERE o.tenant = d.tenant AND o.owner = d.owner AND o.task = d.id),
of_inbox AS (DELETE FROM inbox AS i USING deleted AS d WHERE i.tenant = d.tenant AND i.task = d.id),
of_sends AS (
    DELETE FROM sends AS s USING deleted AS d WHERE s.task = d.id AND s.tenant = d.tenant AND s.owner = d.owner
)
SELECT count(*) FROM deleted
