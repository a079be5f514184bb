"""What was used on each day, by agent, model and caller: sums that are written together with the calls they count.

A report over a year reads these instead of a million calls. The sums of a day can be made again from its calls: a store
that was written before there were sums gets them so.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Callable
from datetime import date, timedelta
from decimal import Decimal

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.host.data.epoch import day_start
from parley.host.data.keys import USAGE_DAYS
from parley.host.data.paging import each_record
from parley.host.data.transactions import Decision, TenantTransactions
from parley.host.models.model import TokenUsage
from parley.stores.interface import PutRecord, Record, RecordKey, Records

PAGE = 1_000


class UsageSums(Struct, frozen=True, kw_only=True):
    """How much some model calls have used."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_create_tokens: int = 0
    cost: Decimal = Decimal(0)
    """The cost of the calls whose price is known."""
    calls_without_price: int = 0

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: UsageSums) -> UsageSums:
        return UsageSums(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_create_tokens=self.cache_create_tokens + other.cache_create_tokens,
            cost=self.cost + other.cost,
            calls_without_price=self.calls_without_price + other.calls_without_price,
        )


def sums_of(usage: TokenUsage, cost: Decimal | None) -> UsageSums:
    """One call as sums; a cost of None is not known."""
    return UsageSums(
        calls=1,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_create_tokens=usage.cache_create_tokens,
        cost=cost or Decimal(0),
        calls_without_price=int(cost is None),
    )


class UsageDay(Struct, frozen=True, kw_only=True):
    """What one caller has used of one model through one agent on one day in UTC."""

    day: date
    agent: str
    model: str
    caller: str = ""
    sums: UsageSums = UsageSums()

    @property
    def key(self) -> tuple[date, str, str, str]:
        """What tells it apart from others."""
        return self.day, self.agent, self.model, self.caller


class UsageDays:
    """The sums of all tenants."""

    def __init__(self, records: Records, transactions: TenantTransactions) -> None:
        self._records = records
        self._transactions = transactions

    async def added(self, tenant: str, one: UsageDay) -> PutRecord:
        """The change that adds calls to the sums of their day. Write it together with the calls."""
        record = await self._records.get(_key(tenant, one))
        before = _decode(record) if record is not None else None
        after = structs.replace(one, sums=before.sums + one.sums) if before is not None else one
        return _put(tenant, after, record)

    async def each(self, tenant: str, day_from: date, day_to: date) -> AsyncIterator[UsageDay]:
        """The sums from one day to another, both included, the newest day first."""
        end = day_start(day_to + timedelta(days=1)), ""
        async for record in each_record(self._records, USAGE_DAYS, tenant, after=end, page_size=PAGE):
            if record.sort < day_start(day_from):
                return
            yield _decode(record)

    async def is_empty(self, tenant: str) -> bool:
        """Whether there are no sums of a tenant."""
        return not await self._records.list(USAGE_DAYS, tenant, limit=1)

    async def rebuild(self, tenant: str, day: date, calls: Callable[[], AsyncIterator[UsageDay]]) -> None:
        """Make the sums of a day again. `calls` reads what the day's calls have used."""

        async def decide() -> Decision[None]:
            # The sums are read before the calls: if a call is added meanwhile, its sums have another revision.
            kept = {
                one.key: record
                async for record in each_record(self._records, USAGE_DAYS, tenant, after=_end_of(day), page_size=PAGE)
                if (one := _decode(record)).day == day
            }
            made: dict[tuple[date, str, str, str], UsageDay] = {}
            async for one in calls():
                before = made.get(one.key)
                made[one.key] = one if before is None else structs.replace(one, sums=before.sums + one.sums)
            return None, [_put(tenant, one, kept.get(key)) for key, one in made.items()]

        await self._transactions.run(tenant, decide)


def _end_of(day: date) -> tuple[int, str]:
    return day_start(day + timedelta(days=1)), ""


def _key(tenant: str, one: UsageDay) -> RecordKey:
    # Names of models and callers may be long; the value has them.
    digest = hashlib.sha256(msgspec.json.encode((one.agent, one.model, one.caller))).hexdigest()[:24]
    return RecordKey(USAGE_DAYS, tenant, f"{one.day.isoformat()}/{digest}")


def _put(tenant: str, one: UsageDay, record: Record | None) -> PutRecord:
    revision = record.revision if record is not None else 0
    return PutRecord(_key(tenant, one), to_builtins(one), day_start(one.day), expected=revision)


def _decode(record: Record) -> UsageDay:
    return msgspec.convert(record.value, UsageDay)
