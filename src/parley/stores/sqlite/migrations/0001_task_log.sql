-- The task log: tasks, their events, and what belongs to them.
--
-- Text columns that hold a value (event, snapshot, reply, config, value) are JSON of the canonical model: look at them with
-- json_extract. Moments are microseconds since 1970 in UTC: datetime(status_at / 1000000, 'unixepoch') shows one.

-- What a list shows of a task. The row stays small, because every write to the task writes it again: a snapshot, which may
-- be large, has a table of its own.
CREATE TABLE tasks (
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
    PRIMARY KEY (tenant, id) -- not the owner: two callers of a tenant cannot have tasks of one id
) WITHOUT ROWID;

-- A list in its order, and the same within one state.
CREATE INDEX tasks_by_status ON tasks (tenant, owner, status_at DESC, id);
CREATE INDEX tasks_by_state ON tasks (tenant, owner, state, status_at DESC, id);

-- A context has few tasks: they are sorted when read, and a change of status leaves this index alone.
CREATE INDEX tasks_by_context ON tasks (tenant, owner, context);

-- Recovery looks for what a crash left behind, retention for what ended long ago. Both look at all owners.
CREATE INDEX tasks_unfinished ON tasks (created_at) WHERE state IN ('submitted', 'working');
CREATE INDEX tasks_finished ON tasks (status_at) WHERE state IN ('completed', 'failed', 'canceled', 'rejected');

-- Append only. No foreign key: the writer has the task's row in hand when it appends, and this is the hot path.
CREATE TABLE events (
    tenant TEXT NOT NULL,
    task TEXT NOT NULL,
    seq INTEGER NOT NULL,
    event TEXT NOT NULL,
    PRIMARY KEY (tenant, task, seq)
) WITHOUT ROWID;

-- The latest snapshot of a task, taken after the event tasks.snapshot_seq.
CREATE TABLE snapshots (
    tenant TEXT NOT NULL,
    task TEXT NOT NULL,
    snapshot TEXT NOT NULL,
    PRIMARY KEY (tenant, task),
    FOREIGN KEY (tenant, task) REFERENCES tasks (tenant, id) ON DELETE CASCADE
);

-- What became of a message, for a sender who repeats it.
CREATE TABLE sends (
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    message_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    sent_at INTEGER NOT NULL,
    task TEXT,
    reply TEXT,
    PRIMARY KEY (tenant, owner, message_id, digest)
) WITHOUT ROWID;

CREATE INDEX sends_by_task ON sends (tenant, task) WHERE task IS NOT NULL;
CREATE INDEX sends_by_time ON sends (sent_at);

CREATE TABLE push_configs (
    tenant TEXT NOT NULL,
    task TEXT NOT NULL,
    id TEXT NOT NULL, -- '' where a config has none
    owner TEXT NOT NULL,
    config TEXT NOT NULL,
    PRIMARY KEY (tenant, task, id),
    FOREIGN KEY (tenant, task) REFERENCES tasks (tenant, id) ON DELETE CASCADE
) WITHOUT ROWID;

-- What agents keep for a conversation.
CREATE TABLE context_memory (
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    context TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (tenant, owner, context, name)
) WITHOUT ROWID;
