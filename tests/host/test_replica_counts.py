"""Counts of other processes: each message is counted once, whatever processes come and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from parley.engine.engine import Engine
from parley.host.data.keys import HOST, REPLICA_COUNTS
from parley.host.replica_counts import MOST_KNOWN, ReplicaCounts
from parley.stores.interface import PutRecord, RecordKey
from parley.stores.memory import MemoryDatabase, MemoryStore
from parley.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
async def engine() -> AsyncGenerator[Engine]:
    clock = FakeClock()
    async with Engine(MemoryStore(MemoryDatabase(now=clock.monotonic)), clock=clock, worker="own") as engine:
        yield engine


async def report(engine: Engine, process: str, taken: int, *, seconds: float) -> None:
    """What another process does: it renews its lease and writes its counts."""
    await engine.store.leases.renew(process, seconds=seconds)
    value: dict[str, Any] = {"tenants": {"acme": {"active": 1, "taken": taken}}}
    await engine.store.records.write(PutRecord(RecordKey(REPLICA_COUNTS, HOST, process), value))


async def test_the_messages_of_a_process_that_lives_long_are_counted_once_however_many_others_have_come_and_gone(
    engine: Engine,
) -> None:
    counted: Counter[str] = Counter()
    counts = ReplicaCounts(engine.store.records, engine, own=dict, on_taken=lambda id, n: counted.update({id: n}))
    await counts.read()
    await report(engine, "long", 5, seconds=1e6)
    await counts.read()
    for number in range(MOST_KNOWN + 3):
        await report(engine, f"short-{number}", 1, seconds=1)
        await counts.read()
        await engine.clock.sleep(0)
        await engine.store.leases.release(f"short-{number}")
        await counts.read()
    assert counted == {"acme": 5 + MOST_KNOWN + 3}
    assert counts.active("acme") == 1
