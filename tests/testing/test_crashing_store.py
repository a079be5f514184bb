"""A store that a simulated crash cuts off."""

import asyncio

import pytest

from parley.stores.interface import PutRecord, Record, RecordKey
from parley.stores.memory import MemoryStore
from parley.testing.crashing_store import CrashingStore, Cut

KEY, LATER = RecordKey("agents", "acme", "a-1"), RecordKey("agents", "acme", "a-2")


@pytest.mark.anyio
@pytest.mark.parametrize("cut", ["before", "after"])
async def test_records_are_cut_off_by_a_crash_as_tasks_are(cut: Cut) -> None:
    """The write at which it comes is kept or lost, its outcome is not reported, and later changes are not made."""
    memory = MemoryStore()
    store = CrashingStore(memory)
    assert await store.records.next_number("todos", "acme") == 1
    store.decide = lambda write: cut if write == "agents" else None
    changes = [
        asyncio.ensure_future(store.records.write(PutRecord(KEY, {}))),
        asyncio.ensure_future(store.records.write(PutRecord(LATER, {}))),
        asyncio.ensure_future(store.records.next_number("todos", "acme")),
    ]
    await store.crashed.wait()
    _, unfinished = await asyncio.wait(changes, timeout=0)
    assert len(unfinished) == 3
    for change in changes:
        change.cancel()
    assert await store.records.get(KEY) == (Record(KEY, {}, 0, 1) if cut == "after" else None)
    assert await store.records.get(LATER) is None
    assert await memory.records.next_number("todos", "acme") == 2
