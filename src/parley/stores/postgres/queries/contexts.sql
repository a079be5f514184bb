-- The values of contexts.

-- name: lock
-- Puts and conditional deletions of one context come one after the other: neither reads what the other has not committed.
SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(E'\x01', 'context', $1::text, $2::text, $3::text, $4::text), 0))

-- name: put
INSERT INTO context_values (tenant, owner, agent, context, name, value, written_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (tenant, owner, agent, context, name) DO UPDATE SET value = excluded.value, written_at = excluded.written_at

-- name: delete
DELETE FROM context_values WHERE tenant = $1 AND owner = $2 AND agent = $3 AND context = $4 AND name = $5

-- name: delete_unmarked
-- Unless a value of the context whose name begins with $6 is this name, as JSON ($7).
DELETE FROM context_values WHERE tenant = $1 AND owner = $2 AND agent = $3 AND context = $4 AND name = $5
    AND NOT EXISTS (
        SELECT 1 FROM context_values
        WHERE tenant = $1 AND owner = $2 AND agent = $3 AND context = $4 AND starts_with(name, $6) AND value = $7
    )

-- name: get
SELECT name, value FROM context_values
WHERE tenant = $1 AND owner = $2 AND agent = $3 AND context = $4 AND NOT starts_with(name, $5)

-- name: names
SELECT name FROM context_values
WHERE tenant = $1 AND owner = $2 AND agent = $3 AND context = $4 AND starts_with(name, $5) ORDER BY name

-- name: value
SELECT value FROM context_values WHERE tenant = $1 AND owner = $2 AND agent = $3 AND context = $4 AND name = $5

-- name: delete_unused
-- The values of at most $2 contexts that have no task and were last written before $1, of the tenant $3 and the agent $4 (NULL:
-- of all). Rows that another process has locked are left to it.
WITH unused AS (
    SELECT DISTINCT tenant, owner, agent, context FROM context_values AS old
    WHERE written_at < $1 AND ($3::text IS NULL OR tenant = $3::text) AND ($4::text IS NULL OR agent = $4::text)
    AND NOT EXISTS (
        SELECT 1 FROM context_values AS new
        WHERE new.tenant = old.tenant AND new.owner = old.owner AND new.agent = old.agent
            AND new.context = old.context AND new.written_at >= $1
    ) AND NOT EXISTS (
        SELECT 1 FROM tasks
        WHERE tasks.tenant = old.tenant AND tasks.owner = old.owner AND tasks.context = old.context
            AND tasks.agent = old.agent
    )
    LIMIT $2
),
free AS (
    SELECT v.tenant, v.owner, v.agent, v.context, v.name FROM context_values AS v
    JOIN unused AS u ON v.tenant = u.tenant AND v.owner = u.owner AND v.agent = u.agent AND v.context = u.context
    WHERE v.written_at < $1
    FOR UPDATE OF v SKIP LOCKED
),
deleted AS (
    DELETE FROM context_values AS v USING free AS f
    WHERE v.tenant = f.tenant AND v.owner = f.owner AND v.agent = f.agent AND v.context = f.context AND v.name = f.name
    RETURNING v.tenant, v.owner, v.agent, v.context
)
SELECT count(*) FROM (SELECT DISTINCT tenant, owner, agent, context FROM deleted) AS contexts
