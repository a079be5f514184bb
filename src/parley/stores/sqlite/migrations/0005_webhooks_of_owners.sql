-- Webhooks that are behind are read page by page for one owner, so that one with many of them holds up nobody else.
CREATE INDEX push_configs_by_owner ON push_configs (tenant, owner, task, id);
