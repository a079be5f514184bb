"""The parts of which changes of an agent are made: whether the caller has seen the newest version, and the next one.

Everything here only reads, and returns changes for the transaction that its caller makes. So every way to change an
agent keeps the same records: the agent, its version, its entry in the audit, and the versions that are forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.engine.clock import Clock
from parley.host.constitution import Constitution
from parley.host.data.agent_versions import AgentVersion, AgentVersions, VersionNotFoundError
from parley.host.data.audit import Audit, AuditAction, changed_members
from parley.host.data.epoch import milliseconds, seconds
from parley.host.data.stored_agent import (
    AgentNotFoundError,
    StaleVersionError,
    StoredAgent,
    agent_key,
    decode_agent,
    written_agent,
)
from parley.host.data.transactions import Decision
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import RecordChange, Records

MAX_NOTE = 1_000
"""Of the note of a version: a paragraph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEdit:
    """Who changes an agent, why, and for which version: `expected_version` is the newest that the caller has seen."""

    actor: str
    note: str = ""
    expected_version: int | None = None
    """None: the change is made whatever the newest version is."""


class AgentChanges:
    """Reads agents, and makes the changes of their records."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self.audit = Audit(records, clock)
        self.versions = AgentVersions(records)

    async def get(self, tenant: str, agent_id: str) -> StoredAgent:
        """One agent.

        Raises:
            AgentNotFoundError: the tenant has none with this id.
        """
        record = await self._records.get(agent_key(tenant, agent_id))
        if record is None:
            raise AgentNotFoundError(f"no agent '{agent_id}' for this tenant")
        return decode_agent(record)

    async def version(self, agent: StoredAgent, number: int) -> AgentVersion:
        """One version of an agent.

        Raises:
            VersionNotFoundError: there is none with this number, or it is too old.
        """
        if not agent.is_versioned and number == agent.version:
            return agent.first_version
        found = await self.versions.find(agent.tenant, agent.id, number)
        if found is None:
            raise VersionNotFoundError(f"agent '{agent.id}' has no version {number}")
        return found

    async def check(self, agent: StoredAgent, expected_version: int | None) -> None:
        """Refuse a caller that has not seen the newest version. Raises StaleVersionError."""
        if expected_version is None or expected_version == agent.version:
            return
        seen = await self.versions.find(agent.tenant, agent.id, expected_version)
        raise StaleVersionError(agent, expected_version, None if seen is None else seen.constitution)

    async def next_version(
        self,
        before: StoredAgent,
        constitution: Constitution,
        edit: AgentEdit,
        action: AuditAction,
        *,
        rollback_to: int = 0,
    ) -> Decision[StoredAgent]:
        """The agent with one more version, and the changes that write it."""
        tenant, now = before.tenant, self.now()
        version = AgentVersion(before.version + 1, edit.actor, now, constitution, edit.note, rollback_to)
        put = before.put(
            self.sort(), constitution=constitution, updated_at=now, version=version.number, changed_by=edit.actor
        )
        changed = changed_members(before.constitution, constitution)
        # What the caller had seen; null: it has replaced whatever there was.
        seen: JsonObject = {"changed": list(changed), "expected_version": edit.expected_version}
        rolled_back: JsonObject = {"rollback_to": rollback_to} if rollback_to else {}
        entry = await self.audit.entry(
            action,
            target_of(before),
            actor=edit.actor,
            before={"version": before.version},
            after={"version": version.number, **seen, **rolled_back},
        )
        return written_agent(put), [
            put,
            entry,
            self.versions.put(tenant, version),
            *self.missing_version(before),
            *await self.versions.forgotten(tenant, before.id, pinned=before.pinned),
        ]

    def missing_version(self, agent: StoredAgent) -> list[RecordChange]:
        """The change that keeps version 1 of an agent that was stored before versions were kept."""
        return [] if agent.is_versioned else [self.versions.put(agent.tenant, agent.first_version)]

    def now(self) -> int:
        """The present moment in seconds."""
        return seconds(self._clock.now())

    def sort(self) -> int:
        """The place in lists of an agent that is changed now."""
        return milliseconds(self._clock.now())


def target_of(agent: StoredAgent) -> str:
    """An agent as the audit names it."""
    return f"{agent.tenant}/{agent.id}"
