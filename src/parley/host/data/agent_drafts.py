"""Drafts: a constitution that its author tries out before it becomes a version of the agent.

A principal has one draft of an agent. It remembers the version that it was made from, so that publishing it cannot undo
what others have changed since. Only its author reads, calls and publishes it.
"""

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Struct, to_builtins

from parley.host.constitution import Constitution
from parley.host.data.agent_changes import AgentChanges, AgentEdit, target_of
from parley.host.data.errors import LimitReachedError, NotFoundError
from parley.host.data.keys import AGENT_DRAFTS, collection_of
from parley.host.data.paging import each_record
from parley.host.data.stored_agent import StoredAgent
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordChange, RecordKey, Records

MAX_DRAFTS = 100
"""Of one agent: more authors than work on one at the same time."""


class DraftNotFoundError(NotFoundError):
    """The principal has no draft of this agent."""


class TooManyDraftsError(LimitReachedError):
    """The agent has as many drafts as it may have."""


class AgentDraft(Struct, frozen=True):
    """A draft of an agent. Times are seconds since 1970."""

    author: str
    constitution: Constitution
    base_version: int
    """The version that it was made from."""
    created_at: int
    updated_at: int


class AgentDrafts:
    """The drafts of all agents. `most` may be kept of each."""

    def __init__(
        self, records: Records, changes: AgentChanges, transactions: TenantTransactions, *, most: int = MAX_DRAFTS
    ) -> None:
        self._records = records
        self._changes = changes
        self._transactions = transactions
        self._most = most

    async def get(self, tenant: str, agent_id: str, author: str) -> AgentDraft:
        """The draft of an author.

        Raises:
            DraftNotFoundError: there is none.
        """
        draft = await self.find(tenant, agent_id, author)
        if draft is None:
            raise DraftNotFoundError(f"you have no draft of agent '{agent_id}'")
        return draft

    async def find(self, tenant: str, agent_id: str, author: str) -> AgentDraft | None:
        """The draft of an author; None if there is none."""
        record = await self._records.get(_key(tenant, agent_id, author))
        return None if record is None else _decode(record)

    async def save(
        self, tenant: str, constitution: Constitution, author: str, *, base_version: int | None = None
    ) -> AgentDraft:
        """The draft of an author, which replaces an earlier one. It is made from the newest version if none is given.

        Raises:
            AgentNotFoundError, VersionNotFoundError: there is no such agent, or no such version of it.
            TooManyDraftsError: the agent has too many drafts of other authors.
        """

        async def decide() -> Decision[AgentDraft]:
            agent = await self._changes.get(tenant, constitution.id)
            base = agent.version
            if base_version is not None:
                base = (await self._changes.version(agent, base_version)).number
            key, now = _key(tenant, agent.id, author), self._changes.now()
            earlier = await self._records.get(key)
            if earlier is None and await self._records.count(key.collection, tenant) >= self._most:
                raise TooManyDraftsError(f"agent '{agent.id}' has {self._most} drafts; publish or delete one first")
            begun = now if earlier is None else _decode(earlier).created_at
            draft = AgentDraft(author, constitution, base, begun, now)
            put = PutRecord(key, to_builtins(draft), now, expected=0 if earlier is None else earlier.revision)
            entry = await self._changes.audit.entry(
                "save_draft", target_of(agent), actor=author, kind="agent", after={"base_version": base}
            )
            return draft, [put, entry]

        return await self._transactions.run(tenant, decide)

    async def delete(self, tenant: str, agent_id: str, author: str) -> bool:
        """Delete the draft of an author. Returns whether there was one. Raises AgentNotFoundError."""

        async def decide() -> Decision[bool]:
            agent = await self._changes.get(tenant, agent_id)
            record = await self._records.get(_key(tenant, agent_id, author))
            if record is None:
                return False, ()
            entry = await self._changes.audit.entry("delete_draft", target_of(agent), actor=author, kind="agent")
            return True, [DeleteRecord(record.key, record.revision), entry]

        return await self._transactions.run(tenant, decide)

    async def publish(self, tenant: str, agent_id: str, author: str, *, note: str = "") -> StoredAgent:
        """The agent with the draft of an author as its next version. The draft is deleted.

        Raises:
            AgentNotFoundError, DraftNotFoundError: there is no such agent, or the author has no draft of it.
            StaleVersionError: the agent has another version than the draft was made from; the draft stays.
        """

        async def decide() -> Decision[StoredAgent]:
            before = await self._changes.get(tenant, agent_id)
            record = await self._records.get(_key(tenant, agent_id, author))
            if record is None:
                raise DraftNotFoundError(f"you have no draft of agent '{agent_id}'")
            draft = _decode(record)
            await self._changes.check(before, draft.base_version)
            edit = AgentEdit(actor=author, note=note, expected_version=draft.base_version)
            published, changes = await self._changes.next_version(before, draft.constitution, edit, "publish_agent")
            return published, [*changes, DeleteRecord(record.key, record.revision)]

        return await self._transactions.run(tenant, decide)

    async def all_deleted(self, tenant: str, agent_id: str) -> list[RecordChange]:
        """The changes that delete all drafts of an agent, to be written with its deletion."""
        records = each_record(self._records, collection_of(AGENT_DRAFTS, agent_id), tenant)
        return [DeleteRecord(record.key, record.revision) async for record in records]


def _key(tenant: str, agent_id: str, author: str) -> RecordKey:
    # The name of a principal may be long, and hold any character.
    digest = hashlib.sha256(author.encode()).hexdigest()[:32]
    return RecordKey(collection_of(AGENT_DRAFTS, agent_id), tenant, digest)


def _decode(record: Record) -> AgentDraft:
    return msgspec.convert(record.value, AgentDraft)
