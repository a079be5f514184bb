-- How far each webhook has been told of its task, and in which dialect it was registered.

ALTER TABLE push_configs ADD COLUMN version TEXT NOT NULL DEFAULT '1.0';
ALTER TABLE push_configs ADD COLUMN delivered_seq INTEGER NOT NULL DEFAULT 0;

-- Nobody called the webhooks that are there. They begin now, in the dialect of their tasks.
UPDATE push_configs SET version = tasks.created_in, delivered_seq = tasks.last_seq
FROM tasks WHERE tasks.tenant = push_configs.tenant AND tasks.id = push_configs.task;
