-- When the events of a row were written (microseconds since 1970). NULL in rows of before.
ALTER TABLE events ADD COLUMN written_at INTEGER;
