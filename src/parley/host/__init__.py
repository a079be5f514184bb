"""The host: many agents of many tenants on one engine, an orchestrator, and remote agents."""
