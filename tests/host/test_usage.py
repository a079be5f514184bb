"""Tokens and costs of tenants."""

from __future__ import annotations

import asyncio
from datetime import date
from decimal import Decimal

import pytest

from parley.host.data.tenants import Tenants
from parley.host.data.usage import Usage, UsageRow
from parley.host.models.model import TokenUsage
from parley.testing.clock import FakeClock
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

DAY = 86_400
SMALL = ("small", TokenUsage(10, 5), Decimal("0.1"))
LARGE = ("large", TokenUsage(100, 50, 7, 3), Decimal("0.20"))
UNPRICED = ("large", TokenUsage(1, 1), None)


async def test_calls_are_reported_by_agent_and_model() -> None:
    usage = Usage(MemoryStore().records, FakeClock())
    await usage.record(ACME, "r1", "scout", [SMALL, LARGE])
    await usage.record(ACME, "r2", "index", [SMALL])
    await usage.record(ACME, "r3", "scout", [UNPRICED, SMALL, SMALL])
    await usage.record(OTHER, "r1", "scout", [SMALL])
    today = date(2026, 1, 1)
    assert await usage.report(ACME, today, today) == [
        UsageRow("index", "small", 1, 10, 5, 0, 0, Decimal("0.1"), 0),
        UsageRow("scout", "large", 2, 101, 51, 7, 3, Decimal("0.2"), 1),
        UsageRow("scout", "small", 3, 30, 15, 0, 0, Decimal("0.3"), 0),
    ]
    assert (usage.tokens_today(ACME), usage.tokens_today(OTHER), usage.tokens_today("3")) == (212, 15, 0)


async def test_a_call_that_is_reported_again_counts_once() -> None:
    clock = FakeClock()
    records = suspending_records(9)
    here, there = Usage(records, clock), Usage(records, clock)
    await asyncio.gather(
        here.record(ACME, "r1", "a", [SMALL]),
        here.record(ACME, "r1", "a", [SMALL, SMALL]),
        there.record(ACME, "r1", "a", [SMALL, SMALL]),
    )
    assert here.tokens_today(ACME) + there.tokens_today(ACME) == 30
    await clock.advance(DAY)
    await here.record(ACME, "r1", "a", [SMALL, SMALL])
    assert here.tokens_today(ACME) == 0
    (row,) = await here.report(ACME, date(2026, 1, 1), date(2026, 1, 2))
    assert (row.calls, row.cost) == (2, Decimal("0.2"))


async def test_a_report_has_the_days_that_were_asked_for() -> None:
    clock = FakeClock()
    usage = Usage(MemoryStore().records, clock)
    for number in range(4):
        await usage.record(ACME, f"r{number}", "a", [SMALL] * (number + 1))
        await clock.advance(DAY - 1 if number == 0 else DAY)
    assert [row.calls for row in await usage.report(ACME, date(2026, 1, 1), date(2026, 1, 1))] == [3]
    assert [row.calls for row in await usage.report(ACME, date(2026, 1, 2), date(2026, 1, 3))] == [7]
    assert await usage.report(ACME, date(2026, 1, 5), date(2026, 1, 9)) == []


async def test_a_restart_counts_what_was_used_today() -> None:
    clock = FakeClock()
    records = MemoryStore().records
    tenants = Tenants(records, clock)
    for name in ("Acme", "Other"):
        await tenants.create(name)
    before = Usage(records, clock)
    await before.record(ACME, "yesterday", "a", [LARGE])
    await clock.advance(DAY)
    await before.record(ACME, "r1", "a", [SMALL])
    await before.record(OTHER, "r1", "a", [SMALL, SMALL])
    after = Usage(records, clock)
    await after.load()
    await after.load()
    assert (after.tokens_today(ACME), after.tokens_today(OTHER)) == (15, 30)
    await clock.advance(DAY)
    assert after.tokens_today(ACME) == 0
