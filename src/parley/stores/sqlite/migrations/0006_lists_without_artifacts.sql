-- A list shows tasks without their artifacts, which may be large: it can leave them unread.

-- Rows of events that hold nothing a list shows: artifacts and steps only. Rows of before are read, whatever they hold.
-- SQLite keeps a 1 in the head of a row, so that the events need not be read to learn of it.
ALTER TABLE events ADD COLUMN is_unlisted INTEGER NOT NULL DEFAULT 0;

-- The artifacts of a snapshot. NULL in rows of before: there they are in the snapshot itself.
ALTER TABLE snapshots ADD COLUMN artifacts TEXT;
