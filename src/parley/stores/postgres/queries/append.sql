-- The parts of the statement that writes a batch of appends. They run together, as one statement: those that have rows are
-- joined by WITH. Its last SELECT, which `batch.py` writes, divides by zero if a part has changed fewer rows than it was given:
-- then the whole statement is undone. $1, $2, … are the parameters of each part by itself.

-- name: mark_batch
-- What becomes of this batch can be looked up later. A session that was replaced by another one writes nothing.
UPDATE writers SET last_batch = $1, written_at = now() WHERE id = $2 AND session = $3 RETURNING 1

-- name: insert_tasks
INSERT INTO tasks (
    number, tenant, id, owner, agent, context, created_at, created_in, state, status_at, holder, has_webhooks, last_seq,
    attempts, snapshot_seq, size, wake_at
)
SELECT * FROM unnest(
    $1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::text[], $9::text[],
    $10::bigint[], $11::text[], $12::boolean[], $13::bigint[], $14::bigint[], $15::bigint[], $16::bigint[], $17::bigint[]
)

-- name: update_tasks
-- The fence: a row that is not as the writer believes it to be is not updated, and the last SELECT then undoes everything.
-- Only `has_webhooks` may have changed without that, so the row decides, and what is given here is whether webhooks are added.
UPDATE tasks SET
    state = new.state, status_at = new.status_at, holder = new.holder, last_seq = new.last_seq, attempts = new.attempts,
    snapshot_seq = new.snapshot_seq, size = new.size, wake_at = new.wake_at,
    has_webhooks = tasks.has_webhooks OR new.has_webhooks
FROM unnest(
    $1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::text[], $8::bigint[], $9::bigint[],
    $10::bigint[], $11::bigint[], $12::bigint[], $13::boolean[], $14::text[]
) AS new (
    number, expected_seq, expected_holder, expected_snapshot_seq, state, status_at, holder, last_seq, attempts,
    snapshot_seq, size, wake_at, has_webhooks, writer
)
WHERE tasks.number = new.number AND tasks.last_seq = new.expected_seq AND tasks.holder = new.expected_holder
    AND tasks.snapshot_seq = new.expected_snapshot_seq
RETURNING tasks.tenant, tasks.owner, tasks.id, tasks.has_webhooks, new.writer

-- name: put_behind
-- Tasks that had webhooks before, as their rows say now and not when they were read: another process may have added one.
INSERT INTO outbox (tenant, owner, task, holder)
SELECT tenant, owner, id, writer FROM update_tasks WHERE has_webhooks AND writer IS NOT NULL
ON CONFLICT DO NOTHING

-- name: put_new_behind
INSERT INTO outbox (tenant, owner, task, holder)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[])

-- name: insert_events
-- Without ON CONFLICT: a number that is taken must fail.
INSERT INTO events (task, first_seq, last_seq, events, is_unlisted, written_at)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::boolean[], $6::bigint[])

-- name: put_snapshots
INSERT INTO snapshots (task, snapshot, artifacts)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[])
ON CONFLICT (task) DO UPDATE SET snapshot = excluded.snapshot, artifacts = excluded.artifacts

-- name: put_sends
INSERT INTO sends (tenant, owner, message_id, digest, sent_at, task, reply, holder)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7::text[], $8::text[]
)
ON CONFLICT (tenant, owner, message_id, digest) DO UPDATE SET
    sent_at = excluded.sent_at, task = excluded.task, reply = excluded.reply, holder = excluded.holder

-- name: put_new_sends
-- Unless the message was sent at or after $9; a direct reply that the same worker works on may become a task.
INSERT INTO sends AS old (tenant, owner, message_id, digest, sent_at, task, reply, holder)
SELECT * FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::bytea[], $5::bigint[], $6::text[], $7::text[], $8::text[]
)
ON CONFLICT (tenant, owner, message_id, digest) DO UPDATE SET
    sent_at = excluded.sent_at, task = excluded.task, reply = excluded.reply, holder = excluded.holder
WHERE old.sent_at < $9::bigint
    OR (old.holder = excluded.holder AND old.holder <> '' AND old.task IS NULL AND old.reply IS NULL)
RETURNING 1

-- name: put_webhooks
-- One that replaces another with its id keeps what was delivered to that one, and fails no more.
INSERT INTO push_configs (tenant, task, id, owner, config, version, delivered_seq)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
ON CONFLICT (tenant, task, id) DO UPDATE SET config = excluded.config, version = excluded.version, failure = NULL

-- name: take_from_inbox
DELETE FROM inbox USING unnest($1::text[], $2::text[], $3::text[]) AS taken (tenant, task, id)
WHERE inbox.tenant = taken.tenant AND inbox.task = taken.task AND inbox.id = taken.id

-- name: load_heads
-- The heads of tasks, locked until the transaction ends. Every process locks in the order of the numbers.
SELECT
    tasks.tenant, tasks.id, number, owner, state, status_at, holder, has_webhooks::int, last_seq, attempts, snapshot_seq,
    size, wake_at
FROM unnest($1::text[], $2::text[]) AS wanted (tenant, id)
JOIN tasks ON tasks.tenant = wanted.tenant AND tasks.id = wanted.id
ORDER BY number
FOR UPDATE OF tasks

-- name: load_sends
-- Each parameter is in a query of its own, which hides from the planner how many there are: it would otherwise make a new
-- plan for each number of them, every time, and that takes four times as long as finding them.
SELECT sends.tenant, sends.owner, sends.message_id, sends.digest, sent_at, task, reply, holder
FROM unnest(
    (SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::bytea[])
) AS wanted (tenant, owner, message_id, digest)
JOIN sends ON sends.tenant = wanted.tenant AND sends.owner = wanted.owner AND sends.message_id = wanted.message_id
    AND sends.digest = wanted.digest

-- name: next_numbers
SELECT nextval('task_numbers')
