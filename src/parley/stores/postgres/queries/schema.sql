-- Which migrations a database has seen.

-- name: look
-- The schema in which tables are created, whether it is ours, and whether another program has a table of our most common name.
-- Both from one snapshot of the catalogue: to_regclass answers from a cache that may know only one of two tables that
-- another process has just made.
SELECT current_schema(), coalesce(bool_or(relname = 'parley_migrations'), false), coalesce(bool_or(relname = 'tasks'), false)
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = current_schema() AND relname IN ('parley_migrations', 'tasks')

-- name: lock
-- One process at a time, in one schema.
SELECT pg_advisory_xact_lock(hashtextextended('parley migrations ' || current_schema(), 0))

-- name: create
CREATE TABLE IF NOT EXISTS parley_migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    oldest_compatible integer NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
)

-- name: last
SELECT max(number) FROM parley_migrations

-- name: applied
SELECT max(number), max(oldest_compatible) FROM parley_migrations

-- name: note
INSERT INTO parley_migrations (number, name, oldest_compatible) VALUES ($1, $2, $3)
