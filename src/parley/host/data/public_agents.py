"""Which agents are public: their cards can be read without a token, and the public catalogue lists them.

No agent is public unless it was made so. The mark is for one agent: if it is deleted, another one with its id is not
public. A public agent has a random handle, which is in URLs instead of its tenant's id, and which it keeps.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import msgspec
from msgspec import Struct, to_builtins

from parley.engine.clock import Clock
from parley.host.data.audit import Audit
from parley.host.data.epoch import seconds
from parley.host.data.errors import LimitReachedError
from parley.host.data.keys import HOST, PUBLIC_AGENTS
from parley.host.data.paging import each_record
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import PutRecord, Record, RecordKey, Records

MAX_PUBLIC = 10_000
"""Public agents of a host: its catalogue has ten pages then."""


KEPT_SECONDS = 5.0
"""How long the list is used without reading it again, and so how long another process shows what was made private."""


class PublicAgent(Struct, frozen=True):
    """An agent that is public, or was. `tenant` is empty for an agent that all tenants share."""

    tenant: str
    agent_id: str
    handle: str
    created_at: int
    """When the agent that was made public was created."""
    is_public: bool
    changed_at: int


class PublicAgents:
    """The public agents of all tenants."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)
        self._kept: tuple[float, Sequence[PublicAgent]] | None = None

    async def get(self, tenant: str, agent_id: str) -> PublicAgent | None:
        """What is known of an agent; None if it was never public."""
        record = await self._records.get(public_key(tenant, agent_id))
        return None if record is None else _decode(record)

    async def all(self) -> Sequence[PublicAgent]:
        """All agents that are public, those that became so last first. Callers without a token cause this read."""
        now = self._clock.monotonic()
        if self._kept is None or now >= self._kept[0]:
            found = [_decode(record) async for record in each_record(self._records, PUBLIC_AGENTS, HOST)]
            self._kept = now + KEPT_SECONDS, [agent for agent in found if agent.is_public]
        return self._kept[1]

    def read_again(self) -> None:
        """Read the list for the next caller, because an agent or a tenant has changed."""
        self._kept = None

    async def set(self, tenant: str, agent_id: str, *, created_at: int, is_public: bool, actor: str) -> PublicAgent:
        """Make an agent public, or private again. Raises LimitReachedError if the host has too many."""

        async def decide() -> Decision[PublicAgent]:
            record = await self._records.get(public_key(tenant, agent_id))
            before = None if record is None else _decode(record)
            is_same = before is not None and before.created_at == created_at
            if is_public and record is None and await self._records.count(PUBLIC_AGENTS, HOST) >= MAX_PUBLIC:
                raise LimitReachedError(f"a host may have {MAX_PUBLIC} public agents")
            handle = before.handle if before is not None and is_same else secrets.token_hex(8)
            now = seconds(self._clock.now())
            after = PublicAgent(tenant, agent_id, handle, created_at, is_public, now)
            if before is not None and is_same and before.is_public is is_public:
                return before, []
            put = PutRecord(
                public_key(tenant, agent_id), to_builtins(after), now, expected=0 if record is None else record.revision
            )
            entry = await self._audit.entry(
                "set_agent_public",
                f"{tenant}/{agent_id}",
                actor=actor,
                kind="agent",
                before={"public": before is not None and is_same and before.is_public},
                after={"public": is_public},
            )
            return after, [put, entry]

        try:
            return await self._transactions.run(tenant, decide)
        finally:
            self._kept = None


def public_key(tenant: str, agent_id: str) -> RecordKey:
    """Where the mark of an agent is."""
    return RecordKey(PUBLIC_AGENTS, HOST, f"{tenant}/{agent_id}")


def _decode(record: Record) -> PublicAgent:
    return msgspec.convert(record.value, PublicAgent)
