"""The tokens and the cost of model calls, by tenant, agent, model, caller and day.

A call is a record of its own, named by its request and its number, so that a call that is reported again counts once.
It is written together with the sums of its day (`usage_days`) and, if budgets hold for it, with what they have left.
How many tokens each tenant has used today is also kept in memory, because every request asks for it; `refresh` learns
what other processes have counted. Days are in UTC.
Costs are decimal texts: a sum of floats would drift. A later change of prices does not change them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TypeAlias

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.epoch import day_start, milliseconds
from parley.host.data.keys import HOST, TENANTS, USAGE
from parley.host.data.paging import each_record
from parley.host.data.transactions import Decision, TenantTransactions
from parley.host.data.usage_days import UsageDay, UsageDays, UsageSums, sums_of
from parley.host.models.model import TokenUsage
from parley.stores.interface import PutRecord, RecordChange, RecordKey, Records

PricedCall: TypeAlias = tuple[str, TokenUsage, Decimal | None]
"""The model of a call, its tokens, and its cost; None: the price is not known."""

Settlement: TypeAlias = Callable[[], Awaitable[Sequence[RecordChange]]]
"""The changes that belong to a call and are written with it."""


class UsageRow(Struct, frozen=True):
    """What one agent has used of one model in some days."""

    agent: str
    model: str
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_create_tokens: int = 0
    cost: Decimal = Decimal(0)
    """The cost of the calls whose price is known."""
    calls_without_price: int = 0


class KeptCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model call, as it is stored."""

    agent: str
    model: str
    usage: TokenUsage
    cost: str | None
    """Decimal text; None: the price is not known."""
    caller: str = ""
    """The principal that began the request; empty in calls of hosts that did not record it."""
    conversation: int = 0

    @property
    def sums(self) -> UsageSums:
        """The call as sums."""
        return sums_of(self.usage, None if self.cost is None else Decimal(self.cost))


FRESH_SECONDS = 1.0
"""How long a sum that was read is used where other processes count as well."""


class _Today(Struct):
    """The tokens of a tenant on the latest day that it was used, and when that was read."""

    day: date
    tokens: int = 0
    read_at: float = 0.0


class Usage:
    """What all tenants use. Call `load` at the start: what was used today before is unknown otherwise."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self.transactions = TenantTransactions(records, clock)
        """Shared with whatever is written together with calls."""
        self.days = UsageDays(records, self.transactions)
        self._today: dict[str, _Today] = {}
        self._counted: dict[str, UsageSums] = {}

    async def load(self) -> None:
        """Count again what all tenants have used today, also in other processes."""
        async for record in each_record(self._records, TENANTS, HOST):
            await self.load_tenant(str(int(record.key.id)))

    async def load_tenant(self, tenant: str) -> None:
        """Count again what one tenant has used today."""
        if await self.days.is_empty(tenant):
            await self.rebuild_days(tenant)
        await self._read(tenant)

    async def refresh(self, tenant: str) -> None:
        """Learn what other processes have counted, unless that was read a moment ago."""
        today, now = self._today.get(tenant), self._clock.monotonic()
        if today is None or now - today.read_at >= FRESH_SECONDS or today.day != self._clock.now().date():
            await self._read(tenant)

    async def _read(self, tenant: str) -> None:
        now, day, tokens = self._clock.monotonic(), self._clock.now().date(), 0
        before = self._counted.get(tenant)
        async for one in self.days.each(tenant, day, day):
            tokens += one.sums.tokens
        if self._counted.get(tenant) != before:  # what was counted while this was read may be in memory only
            tokens = max(tokens, self.tokens_today(tenant))
        self._today[tenant] = _Today(day, tokens, now)

    async def record(
        self,
        tenant: str,
        request_id: str,
        agent: str,
        calls: Sequence[PricedCall],
        *,
        first: int = 0,
        caller: str = "",
        conversation: int = 0,
        settlement: Settlement | None = None,
    ) -> None:
        """Count the model calls of a request, in order, from the one with the number `first` on.

        Calls that were counted before are not counted again, and nothing is settled for them.
        """
        for number, (model, usage, cost) in enumerate(calls, first):
            call = KeptCall(
                agent=agent, model=model, usage=usage, cost=_text(cost), caller=caller, conversation=conversation
            )
            await self._record(RecordKey(USAGE, tenant, f"{request_id}/{number}"), call, settlement)

    async def cost_of_call(self, tenant: str, request_id: str, number: int) -> str | None:
        """The cost of one call of a request, as decimal text; None if it is not known."""
        record = await self._records.get(RecordKey(USAGE, tenant, f"{request_id}/{number}"))
        return None if record is None else msgspec.convert(record.value, KeptCall).cost

    async def _record(self, key: RecordKey, call: KeptCall, settlement: Settlement | None) -> None:
        now, tenant = self._clock.now(), key.tenant

        async def decide() -> Decision[bool]:
            if await self._records.get(key) is not None:
                return False, ()
            changes: list[RecordChange] = [PutRecord(key, to_builtins(call), milliseconds(now), expected=0)]
            changes.append(await self.days.added(tenant, _day_of(call, now.date())))
            if settlement is not None:
                changes += await settlement()
            return True, changes

        if await self.transactions.run(tenant, decide):
            self._count(tenant, now.date(), call.sums)

    def tokens_today(self, tenant: str) -> int:
        """The input and output tokens that a tenant has used today."""
        today = self._today.get(tenant)
        return today.tokens if today is not None and today.day == self._clock.now().date() else 0

    @property
    def counted(self) -> Mapping[str, UsageSums]:
        """What this process has counted since its start, by tenant."""
        return self._counted

    async def report(self, tenant: str, day_from: date, day_to: date) -> Sequence[UsageRow]:
        """What a tenant has used from one day to another, both included, by agent and model."""
        rows: dict[tuple[str, str], UsageSums] = {}
        async for one in self.days.each(tenant, day_from, day_to):
            key = one.agent, one.model
            rows[key] = rows.get(key, UsageSums()) + one.sums
        return [UsageRow(*key, **structs.asdict(rows[key])) for key in sorted(rows)]

    async def rebuild_days(self, tenant: str) -> None:
        """Make the sums of all days again from the calls."""
        days: set[date] = set()
        async for day, _ in self.dated_calls(tenant, date(1970, 1, 1), self._clock.now().date()):
            days.add(day)
        for day in days:
            await self.days.rebuild(tenant, day, lambda day=day: self._calls_as_days(tenant, day))

    async def _calls_as_days(self, tenant: str, day: date) -> AsyncIterator[UsageDay]:
        async for _, call in self.dated_calls(tenant, day, day):
            yield _day_of(call, day)

    async def dated_calls(self, tenant: str, day_from: date, day_to: date) -> AsyncIterator[tuple[date, KeptCall]]:
        """The calls of some days with their days, newest first."""
        end = day_start(day_to + timedelta(days=1)), ""
        async for record in each_record(self._records, USAGE, tenant, after=end):
            if record.sort < day_start(day_from):
                return
            day = datetime.fromtimestamp(record.sort / 1_000, UTC).date()
            yield day, msgspec.convert(record.value, KeptCall)

    def _count(self, tenant: str, day: date, sums: UsageSums) -> None:
        today = self._today.get(tenant)
        if today is None or today.day != day:
            today = self._today[tenant] = _Today(day)
        today.tokens += sums.tokens
        self._counted[tenant] = self._counted.get(tenant, UsageSums()) + sums


def _day_of(call: KeptCall, day: date) -> UsageDay:
    return UsageDay(day=day, agent=call.agent, model=call.model, caller=call.caller, sums=call.sums)


def _text(cost: Decimal | None) -> str | None:
    return None if cost is None else format(cost, "f")
