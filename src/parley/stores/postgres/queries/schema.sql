-- Which migrations a database has seen.

-- name: look
-- The schema in which tables are created, whether it is ours, and whether another program has a table of our most common name.
SELECT current_schema(), to_regclass(quote_ident(current_schema()) || '.parley_migrations') IS NOT NULL,
    to_regclass(quote_ident(current_schema()) || '.tasks') IS NOT NULL

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
