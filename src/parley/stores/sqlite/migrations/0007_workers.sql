-- Several workers on one file: which of them holds a task, which are alive, and what they leave for each other.

-- The worker that holds a task; '' for one that ended or waits, and for those of before, which no worker holds.
ALTER TABLE tasks ADD COLUMN holder TEXT NOT NULL DEFAULT '';

-- Whether a task has webhooks: a write to one without them need not read any.
ALTER TABLE tasks ADD COLUMN has_webhooks INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET has_webhooks = 1
WHERE (tenant, id) IN (SELECT tenant, task FROM push_configs);

-- The worker that works on a direct reply.
ALTER TABLE sends ADD COLUMN holder TEXT NOT NULL DEFAULT '';

-- A worker is alive until its lease expires (microseconds since 1970, by the clock of this machine).
CREATE TABLE leases (
    worker TEXT PRIMARY KEY,
    expires_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Messages and cancels for the holders of tasks, in the order in which they came.
CREATE TABLE inbox (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    task TEXT NOT NULL,
    id TEXT NOT NULL,
    item TEXT NOT NULL -- JSON
);
CREATE UNIQUE INDEX inbox_by_task ON inbox (tenant, task, id);

-- Tasks of which at least one webhook is behind, each with the worker that calls their webhooks. The index holds the whole
-- row, so that a worker finds its own without reading those of others.
CREATE TABLE outbox (
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    task TEXT NOT NULL,
    holder TEXT NOT NULL,
    PRIMARY KEY (tenant, owner, task)
) WITHOUT ROWID;
CREATE INDEX outbox_by_holder ON outbox (holder, tenant, owner, task);
INSERT INTO outbox
SELECT DISTINCT p.tenant, p.owner, p.task, '' FROM push_configs AS p
JOIN tasks AS t ON t.tenant = p.tenant AND t.id = p.task WHERE p.delivered_seq < t.last_seq;
DROP INDEX push_configs_by_owner; -- the outbox says which are behind

-- An owner's tasks of an agent in one state, in the order of a list; a list of all states merges them. Counting reads only
-- the index. It replaces two indexes, which each change of a status had to write.
DROP INDEX tasks_by_status;
DROP INDEX tasks_by_state;
CREATE INDEX tasks_by_state ON tasks (tenant, owner, agent, state, status_at, id DESC);

-- The tasks of all owners: in the order of an operator's list, and for retention from the other end.
DROP INDEX tasks_finished;
CREATE INDEX tasks_by_time ON tasks (tenant, status_at, id DESC, state);

-- Tasks that a worker holds, or held when it died.
DROP INDEX tasks_unfinished;
CREATE INDEX tasks_by_holder ON tasks (holder, created_at, id) WHERE state IN ('submitted', 'working');
