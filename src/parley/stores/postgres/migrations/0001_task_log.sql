-- The task log: tasks, their events, and what belongs to them.
-- oldest compatible schema: 1
--
-- Text is ordered by code point (COLLATE "C"), as in every other store. Columns that hold a value (events, snapshot, reply,
-- config, value, item, report) are JSON of the canonical model, as text and not as jsonb: what is read is what was written,
-- byte for byte, and U+0000 may be in it. Look at them with value::json. Moments are microseconds since 1970 in UTC:
-- to_timestamp(status_at / 1e6) shows one.

-- Numbers of tasks. A process takes a block of a thousand at a time, and does not use all of them.
CREATE SEQUENCE task_numbers INCREMENT BY 1000;

-- What a list shows of a task. Every write to a task updates its row. A fifth of each page stays free: an update that changes
-- no indexed column (last_seq, attempts, snapshot_seq, size) then stays on its page and writes no index.
CREATE TABLE tasks (
    number bigint PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    context text COLLATE "C" NOT NULL,
    created_at bigint NOT NULL,
    created_in text COLLATE "C" NOT NULL, -- the A2A version of the request that created it
    state text COLLATE "C" NOT NULL,
    status_at bigint NOT NULL,
    holder text COLLATE "C" NOT NULL, -- the worker that holds it; '' for one that ended or waits
    has_webhooks boolean NOT NULL, -- a write to a task without them need not read any
    last_seq bigint NOT NULL,
    attempts bigint NOT NULL,
    snapshot_seq bigint NOT NULL, -- 0: no snapshot
    size bigint NOT NULL, -- characters of JSON that reading the task takes: its snapshot and the events after it
    wake_at bigint, -- when a task that sleeps is to be continued
    UNIQUE (tenant, id) -- not the owner: two callers of a tenant cannot have tasks of one id
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.05, -- rows of past states make lists slower
    autovacuum_analyze_scale_factor = 0.05
);

-- An owner's tasks of an agent in one state, in the order of a list; a list of all states merges them. Read backwards: a new
-- status comes at the end of the index, where pages fill one after the other.
CREATE INDEX tasks_by_state ON tasks (tenant, owner, agent, state, status_at, id DESC);

-- A context has few tasks: they are sorted when read.
CREATE INDEX tasks_by_context ON tasks (tenant, owner, context);

-- The tasks of all owners: in the order of an operator's list, and for retention from the other end.
CREATE INDEX tasks_by_time ON tasks (tenant, status_at, id DESC, state);

-- The tasks of a tenant by the time of their creation.
CREATE INDEX tasks_by_creation ON tasks (tenant, created_at, id);

-- Tasks that a worker holds, or held when it died. Those that sleep have an index of their own, so that finding the tasks
-- of dead workers costs the same however many sleep.
CREATE INDEX tasks_by_holder ON tasks (holder, created_at, id)
WHERE state IN ('submitted', 'working') AND wake_at IS NULL;
CREATE INDEX tasks_by_wake ON tasks (wake_at) WHERE wake_at IS NOT NULL;

-- Append only. The key is the fence of last resort: two writers that believe in the same last number both write a row with
-- the next one, and only one of them can. No foreign key: the writer has the task's row in hand.
CREATE TABLE events (
    task bigint NOT NULL, -- its number
    first_seq bigint NOT NULL, -- of the first event in this row
    last_seq bigint NOT NULL, -- of the last one
    written_at bigint, -- NULL for events of an import that does not know
    is_unlisted boolean NOT NULL, -- nothing in it is shown by a list: artifacts and steps only
    events text COLLATE "C" NOT NULL, -- a JSON array of one or more
    PRIMARY KEY (task, first_seq)
) WITH (
    -- Rows of up to 8 kB stay in the table as they are: compressing one takes five times as long as storing it. Longer ones
    -- hold many small events, and shrink to an eighth for a microsecond each.
    toast_tuple_target = 8160,
    autovacuum_vacuum_insert_scale_factor = 0.05, -- rows are only added: freeze them in small portions
    autovacuum_freeze_min_age = 1000000
);

-- The latest snapshot of a task, taken after the event tasks.snapshot_seq. It is replaced often and may be large, and all
-- writes of its batch wait for it: it is not compressed.
CREATE TABLE snapshots (
    task bigint PRIMARY KEY, -- its number
    snapshot text COLLATE "C" NOT NULL, -- without its artifacts
    artifacts text COLLATE "C" NOT NULL
) WITH (fillfactor = 90, toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE snapshots ALTER COLUMN snapshot SET STORAGE EXTERNAL, ALTER COLUMN artifacts SET STORAGE EXTERNAL;

-- What became of a message, for a sender who repeats it. The key makes a message unique in the whole store.
CREATE TABLE sends (
    tenant text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    sent_at bigint NOT NULL,
    task text COLLATE "C",
    reply text COLLATE "C",
    holder text COLLATE "C" NOT NULL, -- the worker that works on a direct reply
    PRIMARY KEY (tenant, owner, message_id, digest)
) WITH (autovacuum_vacuum_scale_factor = 0.05); -- all of it is replaced within the window
CREATE INDEX sends_by_task ON sends (task) WHERE task IS NOT NULL;
CREATE INDEX sends_by_time ON sends (sent_at);

CREATE TABLE push_configs (
    tenant text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL, -- '' where a config has none
    owner text COLLATE "C" NOT NULL,
    config text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL, -- of the dialect in which it was registered
    delivered_seq bigint NOT NULL,
    PRIMARY KEY (tenant, task, id)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- Tasks of which at least one webhook is behind, each with the worker that calls their webhooks. The index holds the whole
-- row, so that a worker finds its own without reading those of others. Rows come and go with every delivery.
CREATE TABLE outbox (
    tenant text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, owner, task)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX outbox_by_holder ON outbox (holder, tenant, owner, task);

-- Messages and cancels for the holders of tasks, in the order in which they came.
CREATE TABLE inbox (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    item text COLLATE "C" NOT NULL,
    UNIQUE (tenant, task, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What agents keep for conversations. `written_at` lets retention delete what was not written for long.
CREATE TABLE context_values (
    tenant text COLLATE "C" NOT NULL,
    owner text COLLATE "C" NOT NULL,
    agent text COLLATE "C" NOT NULL,
    context text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    written_at bigint NOT NULL,
    PRIMARY KEY (tenant, owner, agent, context, name)
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX context_values_by_time ON context_values (written_at);

-- Records: what the host keeps of tenants that is not a task, such as agents, conversations, memory and files.
CREATE TABLE records (
    collection text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL, -- '' for records of the host itself
    id text COLLATE "C" NOT NULL,
    sort bigint NOT NULL, -- the place in a list, which the writer chooses
    revision bigint NOT NULL, -- how often the record was written
    value text COLLATE "C" NOT NULL, -- a JSON object
    PRIMARY KEY (collection, tenant, id)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX records_by_sort ON records (collection, tenant, sort, id);

-- Series of numbers, each with the last one that was given out. Deleting records does not change it.
CREATE TABLE number_series (
    name text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    last_number bigint NOT NULL,
    PRIMARY KEY (name, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A worker is alive until its lease expires, by the clock of this database. Few rows that are updated all the time: half of
-- each page stays free for their next versions.
CREATE TABLE leases (
    worker text COLLATE "C" PRIMARY KEY,
    expires_at bigint NOT NULL,
    report text COLLATE "C" NOT NULL,
    is_asked_to_drain boolean NOT NULL DEFAULT FALSE
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row for each process that writes: its present connection, and the last transaction that it committed. A process whose
-- connection broke during a COMMIT learns from this row what became of it.
CREATE TABLE writers (
    id text COLLATE "C" PRIMARY KEY,
    session bigint NOT NULL,
    last_batch bigint NOT NULL,
    written_at timestamptz NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
