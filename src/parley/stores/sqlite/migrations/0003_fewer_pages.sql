-- A send costs what it writes, and it writes whole pages. So: few tables and indexes, and keys that come in order.
--
-- Rows are kept in the order in which they were made (SQLite's own row numbers): they then fill page after page. A table
-- WITHOUT ROWID, or an index, is rebalanced over three pages each time its last one is full, and gives rows of more than
-- a kilobyte a page of their own.

-- Tasks have numbers. Indexes and events refer to them by these, and not by two texts.
CREATE TABLE numbered_tasks (
    number INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    context TEXT NOT NULL,
    state TEXT NOT NULL,
    status_at INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_in TEXT NOT NULL, -- the A2A version of the request that created it
    last_seq INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    snapshot_seq INTEGER NOT NULL, -- 0: no snapshot
    size INTEGER NOT NULL, -- characters of JSON that reading the task takes: its snapshot and the events after it
    UNIQUE (tenant, id) -- not the owner: two callers of a tenant cannot have tasks of one id
);
INSERT INTO numbered_tasks (
    tenant, id, owner, agent, context, state, status_at, created_at, created_in, last_seq, attempts, snapshot_seq, size
)
SELECT
    tenant, id, owner, agent, context, state, status_at, created_at, created_in, last_seq, attempts, snapshot_seq, size
FROM tasks ORDER BY created_at;

-- The events of one write, or of a part of it, are one row.
CREATE TABLE events_of_writes (
    task INTEGER NOT NULL, -- its number
    last_seq INTEGER NOT NULL, -- of the last event in this row
    events TEXT NOT NULL -- a JSON array of one or more
);
INSERT INTO events_of_writes
SELECT number, seq, '[' || event || ']' FROM numbered_tasks JOIN events ON events.tenant = numbered_tasks.tenant AND task = id
ORDER BY number, seq;

DROP TABLE events;
DROP TABLE tasks; -- with its indexes; foreign keys, which are not enforced now, find the next table of its name
ALTER TABLE numbered_tasks RENAME TO tasks;
ALTER TABLE events_of_writes RENAME TO events;
CREATE UNIQUE INDEX events_by_task ON events (task, last_seq);

-- A list in its order, and the same within one state. Read backwards: a new status comes at the end of an index, and not
-- at its beginning, where pages would be split in halves.
CREATE INDEX tasks_by_status ON tasks (tenant, owner, status_at, id DESC);
CREATE INDEX tasks_by_state ON tasks (tenant, owner, state, status_at, id DESC);

-- A context has few tasks: they are sorted when read, and a change of status leaves this index alone.
CREATE INDEX tasks_by_context ON tasks (tenant, owner, context);

-- Recovery looks for what a crash left behind, retention for what ended long ago. Both look at all owners.
CREATE INDEX tasks_unfinished ON tasks (created_at) WHERE state IN ('submitted', 'working');
CREATE INDEX tasks_finished ON tasks (status_at) WHERE state IN ('completed', 'failed', 'canceled', 'rejected');

-- Sends likewise are rows in their order.
ALTER TABLE sends RENAME TO sends_by_key;
CREATE TABLE sends (
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    message_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    sent_at INTEGER NOT NULL,
    task TEXT,
    reply TEXT,
    PRIMARY KEY (tenant, owner, message_id, digest)
);
INSERT INTO sends SELECT * FROM sends_by_key ORDER BY sent_at;
DROP TABLE sends_by_key;
CREATE INDEX sends_by_task ON sends (task) WHERE task IS NOT NULL;
CREATE INDEX sends_by_time ON sends (sent_at);
