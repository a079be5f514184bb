-- What is kept of an owner beside its tasks.

-- name: owners
-- Those that come after the tenant $1 and the name $2; all if they are NULL.
SELECT tenant, owner FROM (
    SELECT tenant, owner FROM tasks
    UNION
    SELECT tenant, owner FROM context_values
    UNION
    SELECT tenant, owner FROM sends
) AS known
WHERE $1::text IS NULL OR (tenant, owner) > ($1::text, $2::text)
ORDER BY tenant, owner LIMIT $3

-- name: contexts
SELECT DISTINCT agent, context FROM context_values
WHERE tenant = $1 AND owner = $2 AND ($3::text IS NULL OR agent = $3::text) AND ($4::text IS NULL OR context = $4::text)
ORDER BY agent, context

-- name: delete_context
WITH deleted AS (
    DELETE FROM context_values WHERE tenant = $1 AND owner = $2 AND agent = $3 AND context = $4 RETURNING 1
)
SELECT count(*) FROM deleted

-- name: sends
SELECT message_id, digest, sent_at, task, reply, holder FROM sends
WHERE tenant = $1 AND owner = $2 AND ($3::text IS NULL OR (message_id, digest) > ($3::text, $4::bytea))
ORDER BY message_id, digest LIMIT $5

-- name: delete_sends
WITH deleted AS (
    DELETE FROM sends USING unnest($3::text[], $4::bytea[]) AS named (message_id, digest)
    WHERE sends.tenant = $1 AND sends.owner = $2 AND sends.message_id = named.message_id AND sends.digest = named.digest
    RETURNING 1
)
SELECT count(*) FROM deleted
