-- What a worker says of itself (a JSON object), and whether it was asked to drain.
ALTER TABLE leases ADD COLUMN report TEXT NOT NULL DEFAULT '{}';
ALTER TABLE leases ADD COLUMN is_asked_to_drain INTEGER NOT NULL DEFAULT 0;
