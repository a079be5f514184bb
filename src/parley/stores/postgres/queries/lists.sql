-- Lists of tasks, each merged from parts that an index holds in the order of the list: for an owner the tasks of an agent in
-- a state, for operators the tasks of a tenant, for recovery the tasks of a worker. The parts are found with one step in the
-- index each. A page begins in each part where the page before ended: the last page costs what the first did.
--
-- {head} stands for the columns of a head. `lists.py` fills in {matching}, the conditions that the caller asks for, and
-- {paging}, where the page begins, with their parameters.

-- name: of_owner
WITH RECURSIVE agents AS (
    (SELECT agent FROM tasks WHERE tenant = $1 AND owner = $2 ORDER BY agent LIMIT 1)
    UNION ALL
    SELECT (
        SELECT t.agent FROM tasks AS t
        WHERE t.tenant = $1 AND t.owner = $2 AND t.agent > agents.agent ORDER BY t.agent LIMIT 1
    )
    FROM agents WHERE agents.agent IS NOT NULL
),
parts AS (
    SELECT agent AS part_agent, part_state FROM agents CROSS JOIN unnest($3::text[]) AS part_state
    WHERE agent IS NOT NULL AND ($5::text IS NULL OR agent = $5)
)
SELECT counted.total, page.* FROM (
    SELECT coalesce(sum(number), 0)::bigint AS total FROM parts CROSS JOIN LATERAL (
        SELECT count(*) AS number FROM tasks
        WHERE tenant = $1 AND owner = $2 AND agent = part_agent AND state = part_state {matching}
    ) AS of_part
) AS counted
LEFT JOIN (
    SELECT found.* FROM parts CROSS JOIN LATERAL (
        SELECT {head} FROM tasks
        WHERE tenant = $1 AND owner = $2 AND agent = part_agent AND state = part_state {matching} {paging}
        ORDER BY status_at DESC, id LIMIT $4
    ) AS found
    ORDER BY status_at DESC, id LIMIT $4
) AS page ON TRUE
ORDER BY status_at DESC, id

-- name: of_context
-- A context has few tasks: they are sorted.
SELECT counted.total, page.* FROM (
    SELECT count(*) AS total FROM tasks
    WHERE tenant = $1 AND owner = $2 AND context = $3 AND ($5::text IS NULL OR agent = $5) {matching}
) AS counted
LEFT JOIN (
    SELECT {head} FROM tasks
    WHERE tenant = $1 AND owner = $2 AND context = $3 AND ($5::text IS NULL OR agent = $5) {matching} {paging}
    ORDER BY status_at DESC, id LIMIT $4
) AS page ON TRUE
ORDER BY status_at DESC, id

-- name: of_all
-- Tasks of one id and moment in several tenants are on one page.
WITH RECURSIVE tenants AS (
    (SELECT tenant FROM tasks WHERE $2::text IS NULL OR tenant = $2 ORDER BY tenant LIMIT 1)
    UNION ALL
    SELECT (SELECT t.tenant FROM tasks AS t WHERE t.tenant > tenants.tenant ORDER BY t.tenant LIMIT 1)
    FROM tenants WHERE tenants.tenant IS NOT NULL AND $2::text IS NULL
)
SELECT found.* FROM tenants CROSS JOIN LATERAL (
    SELECT {head} FROM tasks WHERE tasks.tenant = tenants.tenant {matching} {paging}
    ORDER BY status_at DESC, id LIMIT $1
) AS found
ORDER BY status_at DESC, id FETCH FIRST ($1) ROWS WITH TIES

-- name: count_all
SELECT count(*) FROM (
    SELECT 1 FROM tasks WHERE ($2::text IS NULL OR tenant = $2) {matching} LIMIT $1
) AS counted

-- name: newest
SELECT {head} FROM tasks WHERE tenant = $1 {paging} ORDER BY created_at DESC, id DESC LIMIT $2

-- name: orphaned
WITH RECURSIVE holders AS (
    (
        SELECT holder FROM tasks WHERE state IN ('submitted', 'working') AND wake_at IS NULL
        ORDER BY holder LIMIT 1
    )
    UNION ALL
    SELECT (
        SELECT t.holder FROM tasks AS t
        WHERE t.state IN ('submitted', 'working') AND t.wake_at IS NULL AND t.holder > holders.holder
        ORDER BY t.holder LIMIT 1
    )
    FROM holders WHERE holders.holder IS NOT NULL
)
SELECT found.* FROM (
    SELECT held.* FROM holders CROSS JOIN LATERAL (
        SELECT {head} FROM tasks
        WHERE tasks.holder = holders.holder AND state IN ('submitted', 'working') AND wake_at IS NULL {paging}
        ORDER BY created_at, id LIMIT $3
    ) AS held
    WHERE holders.holder <> ALL ($1::text[])
    UNION ALL
    SELECT due.* FROM (
        SELECT {head} FROM tasks WHERE wake_at <= $2::bigint {paging} ORDER BY created_at, id LIMIT $3
    ) AS due
) AS found
ORDER BY created_at, id LIMIT $3
