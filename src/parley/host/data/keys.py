"""The names of all collections and number series that the host keeps in its store, and numbers as record ids.

One list, so that no two modules use the same name. Everything is kept under its tenant; only what belongs to the host
itself (the tenants, the audit) is under `HOST`. Each name is part of the format of a store.
"""

from __future__ import annotations

HOST = ""
"""The tenant of the host's own records."""

TENANTS = "tenants"
TENANT_USE = "tenant_use"
AUDIT = "audit"
AGENTS = "agents"
AGENT_VERSIONS = "agent_versions"
AGENT_LAST_VERSIONS = "agent_last_versions"
AGENT_DRAFTS = "agent_drafts"
STOPS = "stops"
ACCESS_TOKENS = "access_tokens"
SERVICE_ACCOUNTS = "service_accounts"
TENANT_ROLES = "tenant_roles"
CONVERSATIONS = "conversations"
ARTIFACTS = "artifacts"
ARTIFACT_CONTENTS = "artifact_contents"
STORAGE = "storage"
SCRATCHPADS = "scratchpads"
MEMORY_ENTRIES = "memory_entries"
MEMORY_LINKS = "memory_links"
USAGE = "usage"
USAGE_DAYS = "usage_days"
BUDGETS = "budgets"
BUDGET_SUMS = "budget_sums"
BUDGET_REQUESTS = "budget_requests"
BUDGET_RESERVATIONS = "budget_reservations"
APPROVALS_PENDING = "approvals_pending"
APPROVALS_DECIDED = "approvals_decided"
APPROVAL_TIMERS = "approval_timers"
MCP_SERVERS = "mcp_servers"
REGISTERED_AGENTS = "registered_agents"
REGISTRY_SECRETS = "registry_secrets"
REGISTRY_CHECKS = "registry_checks"
CATALOG_SOURCES = "catalog_sources"
CATALOG_SOURCE_ENTRIES = "catalog_source_entries"
PUBLIC_AGENTS = "public_agents"
KEYED_WRITES = "keyed_writes"
IDEMPOTENCY_KEYS = "idempotency_keys"
SCHEDULES = "schedules"
SCHEDULE_TICKS = "schedule_ticks"
SCHEDULE_RUNS = "schedule_runs"
TENANT_IMPORTS = "tenant_imports"
CHANGE_NOTES = "change_notes"
REPLICA_COUNTS = "replica_counts"
CONVERSATION_HOLDERS = "conversation_holders"
RUN_REQUESTS = "run_requests"


def collection_of(name: str, owner: int | str) -> str:
    """The collection of what belongs to one thing: the artifacts of conversation 7 are in `artifacts/7`."""
    return f"{name}/{owner}"


def number_id(number: int) -> str:
    """A number as the id of a record, padded so that ids are in the order of the numbers."""
    return f"{number:016d}"
