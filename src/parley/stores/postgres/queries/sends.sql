-- What became of messages.

-- name: find
SELECT sent_at, task, reply, holder FROM sends
WHERE tenant = $1 AND owner = $2 AND message_id = $3 AND digest = $4 AND sent_at >= $5

-- name: digests
SELECT digest FROM sends WHERE tenant = $1 AND owner = $2 AND message_id = $3 AND sent_at >= $4

-- name: put
-- Unless the message was sent at or after $9 (NULL: a record is always replaced). A record that the worker $10 works on is
-- replaced, too.
INSERT INTO sends AS old (tenant, owner, message_id, digest, sent_at, task, reply, holder)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (tenant, owner, message_id, digest) DO UPDATE SET
    sent_at = excluded.sent_at, task = excluded.task, reply = excluded.reply, holder = excluded.holder
WHERE $9::bigint IS NULL OR old.sent_at < $9::bigint
    OR (old.holder = $10::text AND old.holder <> '' AND old.task IS NULL AND old.reply IS NULL)
RETURNING 1

-- name: delete_before
-- The $2 oldest; those that another process has locked are left to it.
WITH oldest AS (
    SELECT tenant, owner, message_id, digest FROM sends WHERE sent_at < $1 ORDER BY sent_at LIMIT $2
    FOR UPDATE SKIP LOCKED
),
deleted AS (
    DELETE FROM sends USING oldest
    WHERE sends.tenant = oldest.tenant AND sends.owner = oldest.owner AND sends.message_id = oldest.message_id
        AND sends.digest = oldest.digest
    RETURNING 1
)
SELECT count(*) FROM deleted
