"""What the kill switch has stopped: agents of a tenant, or a tenant with all of them.

A tenant stops and resumes its agents and itself. The operator can stop it as well, and only the operator resumes that.
All stops are in memory, because every message is checked against them; what is stored counts. `refresh` learns what
other processes have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.audit import Audit, AuditAction
from parley.host.data.epoch import seconds
from parley.host.data.errors import InvalidValueError
from parley.host.data.keys import STOPS
from parley.host.data.paging import each_record_of_all
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.errors import UnsupportedOperationError
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordKey, Records

T = TypeVar("T")

BY_TENANT, BY_OPERATOR = "@tenant", "@operator"
"""The targets of stops of a whole tenant. No agent has such an id."""

MAX_REASON = 200
"""So that it fits into the text of an error."""


class Stop(Struct, frozen=True):
    """One thing that was stopped: why, by which principal, and when, in seconds since 1970."""

    tenant: str
    target: str
    """The id of an agent, `BY_TENANT` or `BY_OPERATOR`."""
    reason: str
    by: str
    at: int

    @property
    def is_of_tenant(self) -> bool:
        """Whether all agents of the tenant are stopped."""
        return self.target in (BY_TENANT, BY_OPERATOR)

    @property
    def text(self) -> str:
        """Why work does not begin, or goes no further."""
        return f"The {'tenant' if self.is_of_tenant else 'agent'} was stopped: {self.reason}"


class AgentStoppedError(UnsupportedOperationError):
    """The agent was stopped.

    gRPC calls this FAILED_PRECONDITION: the caller must not try again before the state of the agent has changed.
    """

    def __init__(self, stop: Stop) -> None:
        details = {"stopped": "tenant" if stop.is_of_tenant else "agent", "stoppedBy": stop.by, "cause": stop.reason}
        super().__init__(stop.text, details=details)
        self.stop = stop


class Stops:
    """What is stopped. Call `refresh` before anything else."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)
        self._known: dict[tuple[str, str], Stop] = {}
        """By tenant and target."""
        self._changes = 0
        self._changing: set[asyncio.Task[Any]] = set()
        self._listeners: list[Callable[[str], None]] = []

    def on_change(self, listener: Callable[[str], None]) -> None:
        """Call a function with the id of each tenant in which something was stopped or resumed."""
        self._listeners.append(listener)

    def find(self, tenant: str, agent_id: str) -> Stop | None:
        """Why an agent of a tenant does not work; None if it does."""
        if not self._known:
            return None
        known = self._known
        return known.get((tenant, BY_OPERATOR)) or known.get((tenant, BY_TENANT)) or known.get((tenant, agent_id))

    def list(self, tenant: str) -> Sequence[Stop]:
        """All stops of a tenant, the newest first."""
        return sorted([stop for stop in self._known.values() if stop.tenant == tenant], key=lambda stop: -stop.at)

    async def refresh(self) -> None:
        """Read all stops, and follow what other processes have changed."""
        changes = -1
        found: dict[tuple[str, str], Stop] = {}
        while changes != self._changes:  # what this process has changed meanwhile may not be in what was read
            changes = self._changes
            found = {}
            async for record in each_record_of_all(self._records, STOPS):
                found[record.key.tenant, record.key.id] = _decode(record)
        before, self._known = self._known, found
        for tenant in sorted({tenant for (tenant, _), _ in before.items() ^ found.items()}):
            self._tell(tenant)

    async def stop(self, tenant: str, target: str, reason: str, *, actor: str) -> Stop:
        """Stop an agent or a tenant. One that is stopped already is stopped for the new reason.

        Raises:
            InvalidValueError: the reason is empty, too long, or holds control characters.
        """
        reason = reason.strip()
        if not reason or len(reason) > MAX_REASON or not reason.isprintable():
            raise InvalidValueError(f"must be 1 to {MAX_REASON} printable characters", "$.reason")

        async def decide() -> Decision[Stop]:
            record = await self._records.get(stop_key(tenant, target))
            stop = Stop(tenant, target, reason, actor, seconds(self._clock.now()))
            revision = 0 if record is None else record.revision
            put = PutRecord(stop_key(tenant, target), to_builtins(stop), stop.at, expected=revision)
            return stop, [put, await self._entry("stop", tenant, target, actor, after={"reason": reason})]

        async def change() -> Stop:
            stop = await self._transactions.run(tenant, decide)
            self._known[tenant, target] = stop
            self._changed(tenant)
            return stop

        return await self._finish(change())

    async def resume(self, tenant: str, target: str, *, actor: str) -> bool:
        """Let an agent or a tenant work again. Returns whether it was stopped."""

        async def decide() -> Decision[bool]:
            record = await self._records.get(stop_key(tenant, target))
            if record is None:
                return False, ()
            before = {"reason": _decode(record).reason}
            entry = await self._entry("resume", tenant, target, actor, before=before)
            return True, [DeleteRecord(record.key, record.revision), entry]

        async def change() -> bool:
            was_stopped = await self._transactions.run(tenant, decide)
            self.forget(tenant, target)
            return was_stopped

        return await self._finish(change())

    def forget(self, tenant: str, target: str) -> None:
        """Follow the end of a stop, also of an agent that was deleted."""
        self._known.pop((tenant, target), None)
        self._changed(tenant)

    async def _entry(self, action: str, tenant: str, target: str, actor: str, **about: Any) -> PutRecord:
        if target in (BY_TENANT, BY_OPERATOR):
            of_tenant: AuditAction = "stop_tenant" if action == "stop" else "resume_tenant"
            return await self._audit.entry(of_tenant, tenant, actor=actor, kind="tenant", **about)
        of_agent: AuditAction = "stop_agent" if action == "stop" else "resume_agent"
        return await self._audit.entry(of_agent, f"{tenant}/{target}", actor=actor, kind="agent", **about)

    def _changed(self, tenant: str) -> None:
        self._changes += 1
        self._tell(tenant)

    def _tell(self, tenant: str) -> None:
        for listener in self._listeners:
            listener(tenant)

    async def _finish(self, change: Coroutine[Any, Any, T]) -> T:
        """Complete a change also if its caller is cancelled: what is in the store must be in memory too."""
        task = asyncio.ensure_future(change)
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)
        return await asyncio.shield(task)


def stop_key(tenant: str, target: str) -> RecordKey:
    """The key of the record of a stop."""
    return RecordKey(STOPS, tenant, target)


def _decode(record: Record) -> Stop:
    """The stop of a record, whose key says what is stopped."""
    return structs.replace(msgspec.convert(record.value, Stop), tenant=record.key.tenant, target=record.key.id)
