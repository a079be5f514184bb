"""When each registered agent and catalogue is checked next, and what the last check found.

It is one queue for all tenants, in the order in which checks are due. A check is claimed by moving it into the future,
with compare-and-set: of several processes one makes it, and if that one dies, the check is due again after the claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.epoch import milliseconds, seconds
from parley.host.data.keys import HOST, REGISTRY_CHECKS
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordConflictError, RecordKey, Records

CLAIM_TIME = timedelta(minutes=2)
"""How long a process may take for one check: longer than reading a catalogue may take."""

CheckedKind: TypeAlias = Literal["agent", "source"]

HealthState: TypeAlias = Literal["healthy", "unreachable", "card_changed", "signature_invalid"]
"""What a check found. For a catalogue, only the first two."""


class CheckOutcome(Struct, frozen=True):
    """What one check found, and why."""

    state: HealthState
    reason: str = ""


class RegistryCheck(Struct, frozen=True):
    """The last check of an agent or a catalogue. Times are seconds since 1970."""

    tenant: str
    kind: CheckedKind
    name: str
    state: HealthState
    reason: str
    since: int
    """When it came into this state."""
    checked_at: int
    failures: int = 0
    """How many checks in a row could not reach it."""


class ClaimedCheck(Struct, frozen=True):
    """A check that this process makes now."""

    last: RegistryCheck
    revision: int


class RegistryChecks:
    """The checks of all tenants."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock

    def first(self, tenant: str, kind: CheckedKind, name: str, outcome: CheckOutcome, *, due: datetime) -> PutRecord:
        """The change that begins the checks of something new, which was checked just now."""
        now = seconds(self._clock.now())
        check = RegistryCheck(tenant, kind, name, outcome.state, outcome.reason, now, now)
        return _put(check, due, expected=None)

    def last(self, tenant: str, kind: CheckedKind, name: str) -> DeleteRecord:
        """The change that ends the checks of something that is removed."""
        return DeleteRecord(_key(tenant, kind, name))

    async def get(self, tenant: str, kind: CheckedKind, name: str) -> RegistryCheck | None:
        """What the last check found."""
        record = await self._records.get(_key(tenant, kind, name))
        return None if record is None else _decode(record)

    async def claim(self, tenant: str, kind: CheckedKind, name: str) -> ClaimedCheck | None:
        """Claim a check now, whether it is due or not; None if there is no such thing, or another process claims it."""
        record = await self._records.get(_key(tenant, kind, name))
        return None if record is None else await self._claim(record)

    async def claim_due(self, limit: int) -> Sequence[ClaimedCheck]:
        """Claim checks that are due, the longest due first."""
        now = milliseconds(self._clock.now())
        found = await self._records.list(REGISTRY_CHECKS, HOST, limit=limit, newest_first=False)
        claimed = [await self._claim(record) for record in found if record.sort <= now]
        return [one for one in claimed if one is not None]

    async def finish(self, claimed: ClaimedCheck, outcome: CheckOutcome, *, due: datetime) -> RegistryCheck | None:
        """Keep what a check found; None if the thing was removed, or the claim expired and another process took it."""
        last, now = claimed.last, seconds(self._clock.now())
        check = structs.replace(
            last,
            state=outcome.state,
            reason=outcome.reason,
            since=last.since if last.state == outcome.state else now,
            checked_at=now,
            failures=last.failures + 1 if outcome.state == "unreachable" else 0,
        )
        try:
            await self._records.write(_put(check, due, expected=claimed.revision))
        except RecordConflictError:
            return None
        return check

    async def _claim(self, record: Record) -> ClaimedCheck | None:
        last = _decode(record)
        try:
            await self._records.write(_put(last, self._clock.now() + CLAIM_TIME, expected=record.revision))
        except RecordConflictError:
            return None
        return ClaimedCheck(last, record.revision + 1)


def _key(tenant: str, kind: CheckedKind, name: str) -> RecordKey:
    return RecordKey(REGISTRY_CHECKS, HOST, f"{tenant}/{kind}/{name}")


def _put(check: RegistryCheck, due: datetime, *, expected: int | None) -> PutRecord:
    key = _key(check.tenant, check.kind, check.name)
    return PutRecord(key, to_builtins(check), milliseconds(due), expected=expected)


def _decode(record: Record) -> RegistryCheck:
    tenant = record.key.id.partition("/")[0]  # which is another one after a tenant was moved
    return structs.replace(msgspec.convert(record.value, RegistryCheck), tenant=tenant)
