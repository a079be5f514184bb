"""The tokens and the cost of model calls, by tenant, agent, model and day.

A call is a record of its own, named by its request and its number, so that a call that is reported again counts once.
How many tokens each tenant has used today is also kept in memory, because every request asks for it. Days are in UTC.
Costs are decimal texts: a sum of floats would drift.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import TypeAlias

import msgspec
from msgspec import Struct, to_builtins

from parley.engine.clock import Clock
from parley.host.data.epoch import day_start, milliseconds
from parley.host.data.keys import HOST, TENANTS, USAGE
from parley.host.data.paging import each_record
from parley.host.data.transactions import Decision, TenantTransactions
from parley.host.models.model import TokenUsage
from parley.stores.interface import PutRecord, RecordKey, Records

PricedCall: TypeAlias = tuple[str, TokenUsage, Decimal | None]
"""The model of a call, its tokens, and its cost; None: the price is not known."""


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


class _KeptCall(Struct, frozen=True, kw_only=True):
    """One model call, as it is stored."""

    agent: str
    model: str
    usage: TokenUsage
    cost: str | None
    """Decimal text; None: the price is not known."""


class _Today(Struct):
    """The tokens of a tenant on the latest day that it was used."""

    day: date
    tokens: int = 0


class Usage:
    """What all tenants use. Call `load` at the start: what was used today before is unknown otherwise."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._transactions = TenantTransactions(records, clock)
        self._today: dict[str, _Today] = {}

    async def load(self) -> None:
        """Count again what all tenants have used today, also in other processes."""
        async for record in each_record(self._records, TENANTS, HOST):
            await self._load(str(int(record.key.id)))

    async def _load(self, tenant: str) -> None:
        day, tokens = self._clock.now().date(), 0
        async for call in self._calls(tenant, day, day):
            tokens += _tokens(call.usage)
        # What was counted while this was read is in memory only.
        self._today[tenant] = _Today(day, max(tokens, self.tokens_today(tenant)))

    async def record(
        self, tenant: str, request_id: str, agent: str, calls: Sequence[PricedCall], *, first: int = 0
    ) -> None:
        """Count the model calls of a request, in order, from the one with the number `first` on.

        Calls that were counted before are not counted again.
        """
        now = self._clock.now()

        async def decide() -> Decision[int]:
            changes: list[PutRecord] = []
            tokens = 0
            for number, (model, usage, cost) in enumerate(calls, first):
                key = RecordKey(USAGE, tenant, f"{request_id}/{number}")
                if await self._records.get(key) is None:
                    kept = _KeptCall(agent=agent, model=model, usage=usage, cost=_text(cost))
                    changes.append(PutRecord(key, to_builtins(kept), milliseconds(now), expected=0))
                    tokens += _tokens(usage)
            return tokens, changes

        self._count(tenant, now.date(), await self._transactions.run(tenant, decide))

    def tokens_today(self, tenant: str) -> int:
        """The input and output tokens that a tenant has used today."""
        today = self._today.get(tenant)
        return today.tokens if today is not None and today.day == self._clock.now().date() else 0

    async def report(self, tenant: str, day_from: date, day_to: date) -> Sequence[UsageRow]:
        """What a tenant has used from one day to another, both included, by agent and model."""
        rows: dict[tuple[str, str], UsageRow] = {}
        async for call in self._calls(tenant, day_from, day_to):
            rows[call.agent, call.model] = _add(rows.get((call.agent, call.model)), call)
        return [rows[key] for key in sorted(rows)]

    async def _calls(self, tenant: str, day_from: date, day_to: date) -> AsyncIterator[_KeptCall]:
        """The calls of some days, newest first."""
        end = day_start(day_to + timedelta(days=1)), ""
        async for record in each_record(self._records, USAGE, tenant, after=end):
            if record.sort < day_start(day_from):
                return
            yield msgspec.convert(record.value, _KeptCall)

    def _count(self, tenant: str, day: date, tokens: int) -> None:
        today = self._today.get(tenant)
        if today is None or today.day != day:
            today = self._today[tenant] = _Today(day)
        today.tokens += tokens


def _text(cost: Decimal | None) -> str | None:
    return None if cost is None else format(cost, "f")


def _tokens(usage: TokenUsage) -> int:
    return usage.input_tokens + usage.output_tokens


def _add(row: UsageRow | None, call: _KeptCall) -> UsageRow:
    """A row with one more call."""
    row = row or UsageRow(call.agent, call.model)
    return UsageRow(
        call.agent,
        call.model,
        calls=row.calls + 1,
        input_tokens=row.input_tokens + call.usage.input_tokens,
        output_tokens=row.output_tokens + call.usage.output_tokens,
        cache_read_tokens=row.cache_read_tokens + call.usage.cache_read_tokens,
        cache_create_tokens=row.cache_create_tokens + call.usage.cache_create_tokens,
        cost=row.cost + Decimal(call.cost or 0),
        calls_without_price=row.calls_without_price + (call.cost is None),
    )
