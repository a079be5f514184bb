-- The row of a process that writes.

-- name: begin_session
-- A new connection of a process. It waits until the transaction of the previous connection has ended, and no later statement of
-- that connection can write. Returns which transaction the process committed last.
INSERT INTO writers (id, session, last_batch, written_at) VALUES ($1, 1, 0, now())
ON CONFLICT (id) DO UPDATE SET session = writers.session + 1, written_at = now()
RETURNING session, last_batch

-- name: end_session
-- The process closes its store. Rows of processes that ended without closing are deleted after a month. A process that has
-- written nothing for so long begins another session when it does.
DELETE FROM writers WHERE id = $1 OR written_at < now() - interval '30 days'
