-- Records: what the host keeps of tenants that is not a task, such as agents, conversations, memory and files.
CREATE TABLE records (
    collection TEXT NOT NULL,
    tenant TEXT NOT NULL, -- '' for records of the host itself
    id TEXT NOT NULL,
    sort INTEGER NOT NULL, -- the place in a list, which the writer chooses
    revision INTEGER NOT NULL, -- how often the record was written
    value TEXT NOT NULL, -- a JSON object
    PRIMARY KEY (collection, tenant, id)
) WITHOUT ROWID;

-- The records of a tenant in the order of a list. Counting reads only the index.
CREATE INDEX records_by_sort ON records (collection, tenant, sort, id);

-- Series of numbers, each with the last one that was given out. Deleting records does not change it.
CREATE TABLE number_series (
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    PRIMARY KEY (name, tenant)
) WITHOUT ROWID;

-- The tasks of a tenant by the time of their creation. No later write to a task changes this index.
CREATE INDEX tasks_by_creation ON tasks (tenant, created_at, id);
