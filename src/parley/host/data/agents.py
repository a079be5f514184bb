"""The agents that tenants have stored, each with its constitution and the versions of it.

Two tenants may use the same id. A change is written together with its version and its entry in the audit. A caller may
say which version it has seen: if there is a newer one, nothing is changed. The master `index` is not stored here, and
its id is reserved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from parley.engine.clock import Clock
from parley.host.constitution import INDEX, Constitution, InvalidConstitutionError
from parley.host.data.agent_changes import AgentChanges, AgentEdit, target_of
from parley.host.data.agent_drafts import AgentDrafts
from parley.host.data.agent_versions import AgentVersion
from parley.host.data.keys import AGENTS
from parley.host.data.paging import each_record_of_all
from parley.host.data.public_agents import public_key
from parley.host.data.stops import stop_key
from parley.host.data.stored_agent import (
    AgentExistsError,
    AgentNotFoundError,
    StaleVersionError,
    StoredAgent,
    TooManyAgentsError,
    agent_key,
    decode_agent,
    written_agent,
)
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, Records

__all__ = [
    "AgentEdit",
    "AgentExistsError",
    "AgentNotFoundError",
    "StaleVersionError",
    "StoredAgent",
    "StoredAgents",
    "TooManyAgentsError",
]

MAX_PAGE = 200
MAX_AGENTS = 1_000
"""Agents of one tenant: a roster of more does not fit into a prompt."""


class StoredAgents:
    """The agents of all tenants. `max_agents` is how many one tenant may have."""

    def __init__(self, records: Records, clock: Clock, *, max_agents: int = MAX_AGENTS) -> None:
        self._records = records
        self._transactions = TenantTransactions(records, clock)
        self._changes = AgentChanges(records, clock)
        self._max_agents = max_agents
        self.drafts = AgentDrafts(records, self._changes, self._transactions)

    # --- reading ------------------------------------------------------------------------------------------------------

    async def get(self, tenant: str, agent_id: str) -> StoredAgent:
        """One agent.

        Raises:
            AgentNotFoundError: the tenant has none with this id.
        """
        return await self._changes.get(tenant, agent_id)

    async def list(
        self, tenant: str, *, after: StoredAgent | None = None, limit: int = MAX_PAGE
    ) -> Sequence[StoredAgent]:
        """Agents of a tenant, those that were changed last first; `after` is the last of the page before."""
        last = (after.sort, after.id) if after else None
        found = await self._records.list(AGENTS, tenant, after=last, limit=min(max(limit, 1), MAX_PAGE))
        return [decode_agent(record) for record in found]

    async def all(self) -> AsyncIterator[StoredAgent]:
        """The agents of all tenants."""
        async for record in each_record_of_all(self._records, AGENTS):
            yield decode_agent(record)

    async def version(self, agent: StoredAgent, number: int) -> AgentVersion:
        """One version of an agent.

        Raises:
            VersionNotFoundError: there is none with this number, or it is too old.
        """
        return await self._changes.version(agent, number)

    async def versions(
        self, agent: StoredAgent, *, before: int | None = None, limit: int = MAX_PAGE
    ) -> Sequence[AgentVersion]:
        """Versions of an agent with smaller numbers than `before`, newest first."""
        if not agent.is_versioned:
            return [agent.first_version] if before is None or before > agent.version else []
        return await self._changes.versions.list(agent.tenant, agent.id, before=before, limit=limit)

    # --- changes ------------------------------------------------------------------------------------------------------

    async def create(
        self, tenant: str, constitution: Constitution, *, actor: str | None = None, note: str = ""
    ) -> StoredAgent:
        """A new agent. The actor is the tenant itself if none is given.

        Raises:
            AgentExistsError: the tenant has an agent with this id.
            TooManyAgentsError: the tenant has too many agents.
            InvalidConstitutionError: the id is reserved.
        """
        if constitution.id == INDEX.id:
            raise InvalidConstitutionError(f"'{INDEX.id}' is reserved for the master agent", "$.id")
        actor = actor or _actor(tenant)

        async def decide() -> Decision[StoredAgent]:
            existing = await self._records.get(agent_key(tenant, constitution.id))
            if existing is not None:
                raise AgentExistsError(decode_agent(existing))
            # Other processes may create agents at the same time: the bound is exact within one process.
            if await self._records.count(AGENTS, tenant) >= self._max_agents:
                raise TooManyAgentsError(f"a tenant may have {self._max_agents} agents; delete one first")
            now = self._changes.now()
            number, changes = await self._changes.versions.first_number(tenant, constitution.id)
            agent = StoredAgent(tenant, constitution, now, now, 0, 0, number, actor)
            put = agent.put(self._changes.sort())
            version = self._changes.versions.put(tenant, AgentVersion(number, actor, now, constitution, note))
            entry = await self._changes.audit.entry(
                "create_agent", target_of(agent), actor=actor, after={"version": number}
            )
            return written_agent(put), [put, version, entry, *changes]

        return await self._transactions.run(tenant, decide)

    async def replace(self, tenant: str, constitution: Constitution, edit: AgentEdit | None = None) -> StoredAgent:
        """The agent with another constitution, which is its next version. Without a difference nothing is written.

        Raises:
            AgentNotFoundError: the tenant has no agent with this id.
            StaleVersionError: the agent has another version than the caller has seen.
        """
        edit = edit or AgentEdit(actor=_actor(tenant))

        async def decide() -> Decision[StoredAgent]:
            before = await self.get(tenant, constitution.id)
            if before.constitution == constitution:  # perhaps a repeat of this very change
                return before, ()
            await self._changes.check(before, edit.expected_version)
            return await self._changes.next_version(before, constitution, edit, "update_agent")

        return await self._transactions.run(tenant, decide)

    async def roll_back(self, tenant: str, agent_id: str, number: int, edit: AgentEdit) -> StoredAgent:
        """The agent with the constitution of an earlier version, which is its next version.

        Raises:
            AgentNotFoundError, VersionNotFoundError: there is no such agent, or no such version of it.
            StaleVersionError: the agent has another version than the caller has seen.
        """

        async def decide() -> Decision[StoredAgent]:
            before = await self.get(tenant, agent_id)
            await self._changes.check(before, edit.expected_version)
            constitution = (await self._changes.version(before, number)).constitution
            return await self._changes.next_version(before, constitution, edit, "rollback_agent", rollback_to=number)

        return await self._transactions.run(tenant, decide)

    async def pin(self, tenant: str, agent_id: str, number: int | None, edit: AgentEdit) -> StoredAgent:
        """The agent with the version that is called whatever is newer; None: the newest again.

        Raises:
            AgentNotFoundError, VersionNotFoundError: there is no such agent, or no such version of it.
            StaleVersionError: the agent has another version than the caller has seen.
        """

        async def decide() -> Decision[StoredAgent]:
            before = await self.get(tenant, agent_id)
            await self._changes.check(before, edit.expected_version)
            pinned = None if number is None else await self._changes.version(before, number)
            if (pinned.number if pinned is not None else 0) == before.pinned:
                return before, ()
            put = before.put(
                self._changes.sort(),
                updated_at=self._changes.now(),
                changed_by=before.changed_by,
                pinned=pinned.number if pinned is not None else 0,
                pinned_constitution=pinned.constitution if pinned is not None else None,
            )
            entry = await self._changes.audit.entry(
                "unpin_agent" if pinned is None else "pin_agent",
                target_of(before),
                actor=edit.actor,
                before={"pinned": before.pinned or None},
                after={"pinned": number},
            )
            return written_agent(put), [put, entry, *self._changes.missing_version(before)]

        return await self._transactions.run(tenant, decide)

    async def delete(self, tenant: str, agent_id: str, edit: AgentEdit | None = None) -> None:
        """Delete an agent with its versions and drafts. Only the number of its last version is kept.

        Raises:
            AgentNotFoundError: the tenant has no agent with this id.
            StaleVersionError: the agent has another version than the caller has seen.
        """
        edit = edit or AgentEdit(actor=_actor(tenant))

        async def decide() -> Decision[None]:
            before = await self.get(tenant, agent_id)
            await self._changes.check(before, edit.expected_version)
            entry = await self._changes.audit.entry(
                "delete_agent", target_of(before), actor=edit.actor, before={"version": before.version}
            )
            changes = [
                *await self._changes.versions.deleted(tenant, agent_id, last=before.version),
                *await self.drafts.all_deleted(tenant, agent_id),
                DeleteRecord(stop_key(tenant, agent_id)),
                DeleteRecord(public_key(tenant, agent_id)),
            ]
            return None, [DeleteRecord(agent_key(tenant, agent_id), before.revision), entry, *changes]

        await self._transactions.run(tenant, decide)


def _actor(tenant: str) -> str:
    return f"tenant:{tenant}"
