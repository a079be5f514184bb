"""The versions of an agent's constitution: each with its number, its author, the time and a note.

Numbers rise by one and are never given twice, also not to an agent that is deleted and created again. Of many versions
the oldest are forgotten. The module reads versions, and makes the changes that `agents` writes together with the agent.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct, to_builtins

from parley.host.constitution import Constitution
from parley.host.data.errors import NotFoundError
from parley.host.data.keys import AGENT_LAST_VERSIONS, AGENT_VERSIONS, collection_of, number_id
from parley.host.data.paging import each_record
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordChange, RecordKey, Records

MAX_VERSIONS = 100
"""Of one agent, beside one that is pinned: months of work. Each may have 64 KiB."""

MAX_PAGE = 100


class VersionNotFoundError(NotFoundError):
    """The agent has no version with this number, or not any more."""


class AgentVersion(Struct, frozen=True, omit_defaults=True):
    """One version of a constitution. `at` is in seconds since 1970."""

    number: int
    by: str
    """The principal that has made it."""
    at: int
    constitution: Constitution
    note: str = ""
    rollback_to: int = 0
    """The version whose constitution it repeats, if it was made by a rollback."""


class LastVersion(Struct, frozen=True):
    """What is kept of the versions of a deleted agent."""

    number: int


class AgentVersions:
    """The versions of all agents. `most` are kept of each."""

    def __init__(self, records: Records, *, most: int = MAX_VERSIONS) -> None:
        self._records = records
        self._most = most

    async def find(self, tenant: str, agent_id: str, number: int) -> AgentVersion | None:
        """One version; None if there is no record of it."""
        record = await self._records.get(_key(tenant, agent_id, number))
        return None if record is None else _decode(record)

    async def list(
        self, tenant: str, agent_id: str, *, before: int | None = None, limit: int = MAX_PAGE
    ) -> Sequence[AgentVersion]:
        """The newest versions with smaller numbers than `before`, newest first."""
        after = None if before is None else (before, "")
        found = await self._records.list(
            collection_of(AGENT_VERSIONS, agent_id), tenant, after=after, limit=min(max(limit, 1), MAX_PAGE)
        )
        return [_decode(record) for record in found]

    # --- changes, to be written with the agent ------------------------------------------------------------------------

    def put(self, tenant: str, version: AgentVersion) -> PutRecord:
        """The change that adds a version."""
        key = _key(tenant, version.constitution.id, version.number)
        return PutRecord(key, to_builtins(version), version.number, expected=0)

    async def forgotten(self, tenant: str, agent_id: str, *, pinned: int) -> Sequence[RecordChange]:
        """The changes that make room for one more version. The one that is pinned stays."""
        collection = collection_of(AGENT_VERSIONS, agent_id)
        too_many = await self._records.count(collection, tenant) + 1 - self._most
        if too_many <= 0:
            return []
        oldest = await self._records.list(collection, tenant, limit=too_many + 1, newest_first=False)
        kept = number_id(pinned)
        old = [record for record in oldest if record.key.id != kept]
        return [DeleteRecord(record.key, record.revision) for record in old[:too_many]]

    async def deleted(self, tenant: str, agent_id: str, *, last: int) -> list[RecordChange]:
        """The changes that forget all versions of an agent, but not the number of its last one."""
        key = RecordKey(AGENT_LAST_VERSIONS, tenant, agent_id)
        changes: list[RecordChange] = [PutRecord(key, to_builtins(LastVersion(last)))]
        async for record in each_record(self._records, collection_of(AGENT_VERSIONS, agent_id), tenant):
            changes.append(DeleteRecord(record.key, record.revision))
        return changes

    async def first_number(self, tenant: str, agent_id: str) -> tuple[int, list[RecordChange]]:
        """The number of the first version of a new agent, and the changes that belong to it."""
        record = await self._records.get(RecordKey(AGENT_LAST_VERSIONS, tenant, agent_id))
        if record is None:
            return 1, []
        last = msgspec.convert(record.value, LastVersion)
        return last.number + 1, [DeleteRecord(record.key, record.revision)]


def _key(tenant: str, agent_id: str, number: int) -> RecordKey:
    return RecordKey(collection_of(AGENT_VERSIONS, agent_id), tenant, number_id(number))


def _decode(record: Record) -> AgentVersion:
    return msgspec.convert(record.value, AgentVersion)
