-- What agents keep for a conversation, each for itself: the agent is part of the key. `written_at` lets retention delete what
-- was not written for long.
CREATE TABLE context_values (
    tenant TEXT NOT NULL,
    owner TEXT NOT NULL,
    agent TEXT NOT NULL,
    context TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    written_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, owner, agent, context, name)
) WITHOUT ROWID;

-- A value of before did not say whose it was, and every agent of the conversation could read it: each of them gets it. Where
-- the conversation's tasks are deleted, it goes to the file's only agent; with several agents it is dropped.
INSERT INTO context_values
SELECT DISTINCT m.tenant, m.owner, t.agent, m.context, m.name, m.value, CAST(strftime('%s', 'now') AS INTEGER) * 1000000
FROM context_memory AS m
JOIN tasks AS t ON t.tenant = m.tenant AND t.owner = m.owner AND t.context = m.context;

INSERT OR IGNORE INTO context_values
SELECT m.tenant, m.owner, a.agent, m.context, m.name, m.value, CAST(strftime('%s', 'now') AS INTEGER) * 1000000
FROM context_memory AS m, (SELECT min(agent) AS agent, count(DISTINCT agent) AS number FROM tasks) AS a
WHERE a.number = 1; -- and not HAVING: before 3.39, SQLite wants a GROUP BY with it

DROP TABLE context_memory;
CREATE INDEX context_values_by_time ON context_values (written_at);
