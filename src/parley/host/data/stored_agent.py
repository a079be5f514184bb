"""An agent as it is stored: its newest constitution, the number of that version, and the version that is pinned.

The agent's record holds everything that is needed to run it. Earlier versions are records of their own, which
`agent_versions` keeps. The module knows how a record is read and written, and not when.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.host.constitution import Constitution
from parley.host.data.agent_versions import AgentVersion
from parley.host.data.errors import AlreadyExistsError, LimitReachedError, NotFoundError, StaleRevisionError
from parley.host.data.keys import AGENTS
from parley.stores.interface import PutRecord, Record, RecordKey

UNKNOWN = "unknown"
"""The author of version 1 of agents that were stored before versions were kept."""


class AgentNotFoundError(NotFoundError):
    """There is no such agent for this tenant."""


class AgentExistsError(AlreadyExistsError):
    """An agent with this id exists already. `existing` is that agent."""

    def __init__(self, existing: StoredAgent) -> None:
        super().__init__(f"agent '{existing.id}' already exists for this tenant")
        self.existing = existing


class TooManyAgentsError(LimitReachedError):
    """The tenant has as many agents as it may have; delete one."""


class StaleVersionError(StaleRevisionError):
    """The agent was changed since the version that the caller has seen.

    `current` is the agent as it is, `base` the number that the caller gave, and `before` the constitution of that
    version; None if there is none with this number.
    """

    def __init__(self, current: StoredAgent, base: int, before: Constitution | None) -> None:
        super().__init__(
            f"agent '{current.id}' has version {current.version} by {current.changed_by}, and your change was made for "
            f"version {base}; merge the two and send the change for version {current.version}"
        )
        self.current = current
        self.base = base
        self.before = before


class _KeptAgent(Struct, frozen=True, omit_defaults=True):
    """An agent, as it is stored."""

    constitution: Constitution
    created_at: int
    updated_at: int
    version: int = 1
    changed_by: str = ""
    """Empty: the agent was stored before versions were kept, and its version 1 has no record."""
    pinned: int = 0
    pinned_constitution: Constitution | None = None


class StoredAgent(Struct, frozen=True):
    """An agent of a tenant. Times are seconds since 1970."""

    tenant: str
    constitution: Constitution
    """The newest version."""
    created_at: int
    updated_at: int
    revision: int
    """Counts the writes of the agent, from 1 on."""
    sort: int
    """The agent's place in a list."""
    version: int = 1
    """The number of the newest version."""
    changed_by: str = UNKNOWN
    """The principal that has made the newest version."""
    pinned: int = 0
    """The version that is called whatever is newer; 0: the newest."""
    pinned_constitution: Constitution | None = None
    is_versioned: bool = True
    """Whether its newest version has a record."""

    @property
    def id(self) -> str:
        """The id of the agent."""
        return self.constitution.id

    @property
    def order(self) -> tuple[int, int]:
        """Rises with every change, also if the agent is deleted and created again."""
        return self.version, self.revision

    @property
    def live(self) -> Constitution:
        """The constitution that is called."""
        return self.pinned_constitution or self.constitution

    @property
    def live_version(self) -> int:
        """The version that is called."""
        return self.pinned or self.version

    @property
    def first_version(self) -> AgentVersion:
        """Version 1 of an agent that was stored before versions were kept."""
        return AgentVersion(self.version, self.changed_by, self.updated_at, self.constitution)

    def put(self, sort: int, **changes: Any) -> PutRecord:
        """The change that writes the agent with other members, if it still has its revision."""
        after = structs.replace(self, **changes)
        kept = _KeptAgent(
            after.constitution,
            after.created_at,
            after.updated_at,
            after.version,
            after.changed_by,
            after.pinned,
            after.pinned_constitution,
        )
        return PutRecord(agent_key(self.tenant, self.id), to_builtins(kept), sort, expected=self.revision)


def agent_key(tenant: str, agent_id: str) -> RecordKey:
    """The key of an agent's record."""
    return RecordKey(AGENTS, tenant, agent_id)


def decode_agent(record: Record) -> StoredAgent:
    """The agent of a record."""
    kept = msgspec.convert(record.value, _KeptAgent)
    return StoredAgent(
        tenant=record.key.tenant,
        constitution=kept.constitution,
        created_at=kept.created_at,
        updated_at=kept.updated_at,
        revision=record.revision,
        sort=record.sort,
        version=kept.version,
        changed_by=kept.changed_by or UNKNOWN,
        pinned=kept.pinned,
        pinned_constitution=kept.pinned_constitution,
        is_versioned=bool(kept.changed_by),
    )


def written_agent(put: PutRecord) -> StoredAgent:
    """The agent as a change leaves it."""
    return decode_agent(Record(put.key, put.value, put.sort, (put.expected or 0) + 1))
