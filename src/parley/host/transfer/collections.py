"""What of a tenant is exported: one row for every collection that a host keeps, with the decision about it.

A test fails if a collection of `data/keys` has no row, so a new one cannot be forgotten. Secrets never leave the host:
they are left out, and what must be set again is noted. The rest is copied as it is stored; ids stay the same, because
everything is kept under its tenant.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from parley.host.budgets.scopes import ScopeSums
from parley.host.constitution import INDEX, is_agent_id
from parley.host.data import keys
from parley.host.data.agent_versions import AgentVersion, LastVersion
from parley.host.data.approvals import Approval
from parley.host.data.artifacts import StoredArtifact
from parley.host.data.budget_policy import BudgetPolicy
from parley.host.data.catalog_sources import CatalogSource, KeptCatalogEntries
from parley.host.data.conversations import StoredConversation
from parley.host.data.mcp_servers import KeptMcpServer
from parley.host.data.memory_entry import MemoryEntry, MemoryLink
from parley.host.data.registered_agents import RegisteredAgent
from parley.host.data.registry_checks import RegistryCheck
from parley.host.data.roles import KeptRole
from parley.host.data.schedule import Schedule, ScheduleRun, TickState
from parley.host.data.service_accounts import ServiceAccount
from parley.host.data.stops import Stop
from parley.host.data.storage import StorageSum
from parley.host.data.stored_agent import decode_agent
from parley.host.data.usage import KeptCall
from parley.host.data.usage_days import UsageDay
from parley.host.transfer.redaction import Redaction, without_headers, without_reserved, without_token
from parley.stores.interface import Record

OwnerOf: TypeAlias = Callable[[Record], str]
Check: TypeAlias = Callable[[Record], object]
"""Reads a record as the host does later. Raises msgspec.ValidationError, or another ValueError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRule:
    """What is done with one collection."""

    name: str
    decision: Literal["copied", "left out"] = "copied"
    reason: str = ""
    """Why it is left out."""
    set_again: str = ""
    """What the operator must set again for each record that is left out: `the access token {name}`."""
    parent: str = ""
    """The collection whose records each have a collection of their own with this name: `artifacts/7`."""
    owner_of: OwnerOf | None = None
    """What such a collection is named after, by a record of the parent."""
    host_ids: Sequence[str] = ()
    """How the ids of the host's records begin that belong to a tenant: `expire/@/`; `@` stands for the tenant."""
    is_numbered: bool = False
    """Whether the host gives numbers to its records."""
    names_principals: bool = True
    """Whether names of principals in it are to name the new tenant. Contents of users are not touched."""
    redact: Redaction | None = None
    check: Check | None = None

    @property
    def is_of_host(self) -> bool:
        """Whether its records are the host's, which acts on them as soon as they are there."""
        return bool(self.host_ids)


def _is_a(kind: type[Struct]) -> Check:
    return lambda record: msgspec.convert(record.value, kind)


def _is_agent(record: Record) -> None:
    agent = decode_agent(record)
    if agent.id != record.key.id or agent.id == INDEX.id or not is_agent_id(agent.id):
        raise ValueError("an agent cannot have this id")


def _id(record: Record) -> str:
    return record.key.id


def _number(record: Record) -> str:
    return str(int(record.key.id))


def _conversation(record: Record) -> str:
    return str(record.value["conversation_id"])


def _left_out(name: str, reason: str, set_again: str = "", host_ids: Sequence[str] = ()) -> TransferRule:
    return TransferRule(name=name, decision="left out", reason=reason, set_again=set_again, host_ids=host_ids)


def _content(name: str, kind: type[Struct], *, is_numbered: bool = False) -> TransferRule:
    """What users and agents have said and written: it is copied to the letter."""
    return TransferRule(name=name, is_numbered=is_numbered, names_principals=False, check=_is_a(kind))


def _text(name: str, member: str) -> TransferRule:
    """The same where each record is one text."""
    return TransferRule(
        name=name,
        names_principals=False,
        check=lambda record: msgspec.convert(record.value.get(member), str),
    )


def _content_of(name: str, parent: str, owner_of: OwnerOf, kind: type[Struct], *, is_numbered: bool) -> TransferRule:
    return TransferRule(
        name=name,
        parent=parent,
        owner_of=owner_of,
        is_numbered=is_numbered,
        names_principals=False,
        check=_is_a(kind),
    )


RULES: Sequence[TransferRule] = (
    # --- what stays at the host
    _left_out(keys.TENANTS, "the head of the file has the tenant, without its tokens"),
    _left_out(keys.TENANT_USE, "it is about the other host"),
    _left_out(keys.AUDIT, "it belongs to the host"),
    _left_out(keys.TENANT_IMPORTS, "it belongs to the host"),
    _left_out(keys.CHANGE_NOTES, "it belongs to the processes of the host"),
    _left_out(keys.REPLICA_COUNTS, "it belongs to the processes of the host"),
    _left_out(keys.CONVERSATION_HOLDERS, "it belongs to the processes of the host"),
    _left_out(keys.RUN_REQUESTS, "it belongs to the processes of the host"),
    _left_out(keys.ACCESS_TOKENS, "it is secret", "the access token {name}"),
    _left_out(keys.REGISTRY_SECRETS, "it is secret"),  # the registered agents say that they had one
    _left_out(keys.PUBLIC_AGENTS, "the operator of a host says what is public", "that {name} is public", ("@/",)),
    _left_out(keys.KEYED_WRITES, "it is about runs at work, which are not continued"),
    _left_out(keys.IDEMPOTENCY_KEYS, "it is forgotten within a day"),
    _left_out(keys.BUDGET_RESERVATIONS, "it is about model calls at work"),
    _left_out(keys.AGENT_DRAFTS, "its author is a token of the other host"),
    # --- access
    TransferRule(name=keys.TENANT_ROLES, check=_is_a(KeptRole)),
    TransferRule(name=keys.SERVICE_ACCOUNTS, check=_is_a(ServiceAccount)),
    # --- agents
    TransferRule(name=keys.AGENTS, check=_is_agent),
    TransferRule(name=keys.AGENT_LAST_VERSIONS, check=_is_a(LastVersion)),
    TransferRule(name=keys.AGENT_VERSIONS, parent=keys.AGENTS, owner_of=_id, check=_is_a(AgentVersion)),
    TransferRule(name=keys.STOPS, check=_is_a(Stop)),
    TransferRule(name=keys.MCP_SERVERS, redact=without_headers, check=_is_a(KeptMcpServer)),
    TransferRule(name=keys.REGISTERED_AGENTS, redact=without_token, check=_is_a(RegisteredAgent)),
    TransferRule(name=keys.REGISTRY_CHECKS, host_ids=("@/",), check=_is_a(RegistryCheck)),
    TransferRule(name=keys.CATALOG_SOURCES, redact=without_token, check=_is_a(CatalogSource)),
    TransferRule(name=keys.CATALOG_SOURCE_ENTRIES, check=_is_a(KeptCatalogEntries)),
    # --- contents
    _content(keys.CONVERSATIONS, StoredConversation, is_numbered=True),
    _content(keys.ARTIFACTS, StoredArtifact, is_numbered=True),
    _content_of(keys.ARTIFACTS, keys.ARTIFACTS, _conversation, StoredArtifact, is_numbered=False),
    _text(keys.ARTIFACT_CONTENTS, "content"),
    _content(keys.STORAGE, StorageSum),
    _text(keys.SCRATCHPADS, "text"),
    _content(keys.MEMORY_ENTRIES, MemoryEntry, is_numbered=True),
    _content_of(keys.MEMORY_LINKS, keys.MEMORY_ENTRIES, _number, MemoryLink, is_numbered=True),
    # --- money: records of usage are named after their callers, so these keep the names that they had
    _content(keys.USAGE, KeptCall),
    _content(keys.USAGE_DAYS, UsageDay),
    TransferRule(name=keys.BUDGETS, check=_is_a(BudgetPolicy)),
    TransferRule(name=keys.BUDGET_SUMS, redact=without_reserved, check=_is_a(ScopeSums)),
    TransferRule(name=keys.BUDGET_REQUESTS, redact=without_reserved, check=_is_a(ScopeSums)),
    # --- what happens by itself
    TransferRule(name=keys.APPROVALS_PENDING, check=_is_a(Approval)),
    TransferRule(name=keys.APPROVALS_DECIDED, check=_is_a(Approval)),
    TransferRule(name=keys.APPROVAL_TIMERS, host_ids=("expire/@/", "wake/@/")),
    TransferRule(name=keys.SCHEDULES, check=_is_a(Schedule)),
    TransferRule(name=keys.SCHEDULE_RUNS, parent=keys.SCHEDULES, owner_of=_id, check=_is_a(ScheduleRun)),
    TransferRule(name=keys.SCHEDULE_TICKS, host_ids=("@/",), check=_is_a(TickState)),
)
