"""The agents that tenants have stored, each with its constitution.

Two tenants may use the same id. A change is written together with its entry in the audit. The master `index` is not
stored here, and its id is reserved.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import msgspec
from msgspec import Struct, to_builtins

from parley.engine.clock import Clock
from parley.host.constitution import INDEX, Constitution, InvalidConstitutionError
from parley.host.data.audit import Audit, changed_members
from parley.host.data.epoch import milliseconds, seconds
from parley.host.data.errors import AlreadyExistsError, LimitReachedError, NotFoundError, StaleRevisionError
from parley.host.data.keys import AGENTS
from parley.host.data.paging import each_record_of_all
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordKey, Records

MAX_PAGE = 200
MAX_AGENTS = 1_000
"""Agents of one tenant: a roster of more does not fit into a prompt."""


class AgentNotFoundError(NotFoundError):
    """There is no such agent for this tenant."""


class AgentExistsError(AlreadyExistsError):
    """An agent with this id exists already. `existing` is that agent."""

    def __init__(self, existing: StoredAgent) -> None:
        super().__init__(f"agent '{existing.id}' already exists for this tenant")
        self.existing = existing


class TooManyAgentsError(LimitReachedError):
    """The tenant has as many agents as it may have; delete one."""


class StoredAgent(Struct, frozen=True):
    """An agent of a tenant. Times are seconds since 1970."""

    tenant: str
    constitution: Constitution
    created_at: int
    updated_at: int
    revision: int
    """Counts the writes of the agent, from 1 on."""
    sort: int
    """The agent's place in a list."""

    @property
    def id(self) -> str:
        """The id of the agent."""
        return self.constitution.id


class _KeptAgent(Struct, frozen=True):
    """An agent, as it is stored."""

    constitution: Constitution
    created_at: int
    updated_at: int


class StoredAgents:
    """The agents of all tenants. `max_agents` is how many one tenant may have."""

    def __init__(self, records: Records, clock: Clock, *, max_agents: int = MAX_AGENTS) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)
        self._max_agents = max_agents

    async def get(self, tenant: str, agent_id: str) -> StoredAgent:
        """One agent.

        Raises:
            AgentNotFoundError: the tenant has none with this id.
        """
        record = await self._records.get(_key(tenant, agent_id))
        if record is None:
            raise AgentNotFoundError(f"no agent '{agent_id}' for this tenant")
        return _decode(record)

    async def list(
        self, tenant: str, *, after: StoredAgent | None = None, limit: int = MAX_PAGE
    ) -> Sequence[StoredAgent]:
        """Agents of a tenant, those that were changed last first; `after` is the last of the page before."""
        last = (after.sort, after.id) if after else None
        found = await self._records.list(AGENTS, tenant, after=last, limit=min(max(limit, 1), MAX_PAGE))
        return [_decode(record) for record in found]

    async def all(self) -> AsyncIterator[StoredAgent]:
        """The agents of all tenants."""
        async for record in each_record_of_all(self._records, AGENTS):
            yield _decode(record)

    async def create(self, tenant: str, constitution: Constitution, *, actor: str | None = None) -> StoredAgent:
        """A new agent. The actor is the tenant itself if none is given.

        Raises:
            AgentExistsError: the tenant has an agent with this id.
            TooManyAgentsError: the tenant has too many agents.
            InvalidConstitutionError: the id is reserved.
        """
        if constitution.id == INDEX.id:
            raise InvalidConstitutionError(f"'{INDEX.id}' is reserved for the master agent", "$.id")

        async def decide() -> Decision[StoredAgent]:
            existing = await self._records.get(_key(tenant, constitution.id))
            if existing is not None:
                raise AgentExistsError(_decode(existing))
            # Other processes may create agents at the same time: the bound is exact within one process.
            if await self._records.count(AGENTS, tenant) >= self._max_agents:
                raise TooManyAgentsError(f"a tenant may have {self._max_agents} agents; delete one first")
            now = seconds(self._clock.now())
            put = self._put(tenant, _KeptAgent(constitution, now, now), revision=0)
            entry = await self._audit.entry(
                "create_agent", _target(put.key), actor=actor or _actor(tenant), after={"revision": 1}
            )
            return _written(put), [put, entry]

        return await self._transactions.run(tenant, decide)

    async def replace(
        self, tenant: str, constitution: Constitution, *, revision: int | None = None, actor: str | None = None
    ) -> StoredAgent:
        """The agent with another constitution. `revision` is the one that the caller has seen; None: any.

        Raises:
            AgentNotFoundError: the tenant has no agent with this id.
            StaleRevisionError: the agent has another revision.
        """

        async def decide() -> Decision[StoredAgent]:
            before = await self.get(tenant, constitution.id)
            _check_revision(before, revision)
            kept = _KeptAgent(constitution, before.created_at, seconds(self._clock.now()))
            put = self._put(tenant, kept, revision=before.revision)
            changed = changed_members(before.constitution, constitution)
            entry = await self._audit.entry(
                "update_agent",
                _target(put.key),
                actor=actor or _actor(tenant),
                before={"revision": before.revision},
                after={"revision": before.revision + 1, "changed": list(changed)},
            )
            return _written(put), [put, entry]

        return await self._transactions.run(tenant, decide)

    async def delete(
        self, tenant: str, agent_id: str, *, revision: int | None = None, actor: str | None = None
    ) -> None:
        """Delete an agent. `revision` is the one that the caller has seen; None: any.

        Raises:
            AgentNotFoundError: the tenant has no agent with this id.
            StaleRevisionError: the agent has another revision.
        """

        async def decide() -> Decision[None]:
            before = await self.get(tenant, agent_id)
            _check_revision(before, revision)
            key = _key(tenant, agent_id)
            entry = await self._audit.entry(
                "delete_agent", _target(key), actor=actor or _actor(tenant), before={"revision": before.revision}
            )
            return None, [DeleteRecord(key, before.revision), entry]

        await self._transactions.run(tenant, decide)

    def _put(self, tenant: str, kept: _KeptAgent, *, revision: int) -> PutRecord:
        key = _key(tenant, kept.constitution.id)
        return PutRecord(key, to_builtins(kept), milliseconds(self._clock.now()), expected=revision)


def _check_revision(agent: StoredAgent, revision: int | None) -> None:
    if revision not in (None, agent.revision):
        raise StaleRevisionError(f"agent '{agent.id}' has changed since revision {revision}; read it again")


def _key(tenant: str, agent_id: str) -> RecordKey:
    return RecordKey(AGENTS, tenant, agent_id)


def _actor(tenant: str) -> str:
    return f"tenant:{tenant}"


def _target(key: RecordKey) -> str:
    return f"{key.tenant}/{key.id}"


def _decode(record: Record) -> StoredAgent:
    kept = msgspec.convert(record.value, _KeptAgent)
    return StoredAgent(
        record.key.tenant, kept.constitution, kept.created_at, kept.updated_at, record.revision, record.sort
    )


def _written(put: PutRecord) -> StoredAgent:
    """The agent as a change leaves it."""
    return _decode(Record(put.key, put.value, put.sort, (put.expected or 0) + 1))
