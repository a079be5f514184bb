"""Transactions: decisions that are made again, and keys that make a write happen once."""

from __future__ import annotations

import asyncio

import pytest

from parley.host.data.transactions import KEY_LIFETIME, MAX_ATTEMPTS, Decision, TenantTransactions
from parley.stores.interface import PutRecord, RecordConflictError, RecordKey
from parley.testing.clock import FakeClock
from tests.host.data_fixtures import ACME, OTHER, suspending_records
from tests.host.stores import MemoryStore

pytestmark = pytest.mark.anyio

COUNT = RecordKey("counts", ACME, "one")


async def test_a_decision_is_made_again_until_no_other_writer_was_quicker() -> None:
    records = suspending_records(11)

    async def count_up() -> Decision[int]:
        record = await records.get(COUNT)
        number, revision = (record.value["number"], record.revision) if record else (0, 0)
        assert isinstance(number, int)
        return number + 1, [PutRecord(COUNT, {"number": number + 1}, expected=revision)]

    processes = [TenantTransactions(records, FakeClock()) for _ in range(3)]
    numbers = await asyncio.gather(*(process.run(ACME, count_up) for process in processes for _ in range(4)))
    assert sorted(numbers) == list(range(1, 13))


async def test_a_decision_that_is_refused_every_time_is_given_up() -> None:
    records = MemoryStore().records
    await records.write(PutRecord(COUNT, {}))
    attempts: list[int] = []

    async def stale() -> Decision[None]:
        attempts.append(1)
        return None, [PutRecord(COUNT, {}, expected=7)]

    with pytest.raises(RecordConflictError):
        await TenantTransactions(records, FakeClock()).run(ACME, stale)
    assert len(attempts) == MAX_ATTEMPTS


async def test_a_key_is_a_tenants_own_and_is_forgotten_after_a_month() -> None:
    clock = FakeClock()
    transactions = TenantTransactions(MemoryStore().records, clock)
    results = iter(range(9))

    async def decide() -> Decision[int]:
        return next(results), ()

    async def run(tenant: str) -> int:
        return await transactions.run_once(tenant, "count", decide, key="step")

    assert [await run(ACME), await run(ACME), await run(OTHER)] == [0, 0, 1]
    await clock.advance(KEY_LIFETIME.total_seconds() - 1)
    assert await run(ACME) == 0
    await clock.advance(1)
    assert [await run(ACME), await run(ACME)] == [2, 2]
