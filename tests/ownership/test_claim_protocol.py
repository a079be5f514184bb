"""The claim protocol over thousands of seeds, on the store alone: one holder per task, no event lost or doubled."""

import os
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from parley.stores.interface import Store, Write
from parley.stores.memory import MemoryDatabase, MemoryStore, MemoryTasks
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened
from tests.ownership.claim_protocol import Play, Violation

pytestmark = pytest.mark.anyio

SEEDS = int(os.environ.get("PARLEY_CLAIM_SEEDS", "1000"))
STEPS = 80


class Time:
    """The store's clock."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds

    def go_by(self, seconds: float) -> None:
        self.seconds += seconds


async def play(seed: int, open_handle: Callable[[], Store], time: Time, *, steps: int = STEPS) -> None:
    game = Play(Random(seed), open_handle, time.go_by)
    for _ in range(3):
        game.start()
    for _ in range(steps):
        await game.step()
    await game.check()


async def test_one_worker_at_a_time_holds_a_task_whatever_sleeps_wakes_or_dies() -> None:
    for seed in range(SEEDS):
        time = Time()
        database = MemoryDatabase(now=time)
        try:
            await play(seed, lambda database=database: MemoryStore(database), time)
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}")


async def test_the_same_holds_for_handles_on_one_file(tmp_path: Path) -> None:
    for seed in range(3):
        time = Time()
        handles = [SqliteStore(tmp_path / f"{seed}.db", shared=True, now=time) for _ in range(4)]
        async with AsyncExitStack() as stack:
            for handle in handles:
                await stack.enter_async_context(opened(handle))
            await play(seed, partial(Random(seed).choice, handles), time)


class Unfenced(MemoryTasks):
    """A store without a fence: it takes every write, whoever holds the task and whatever its number."""

    def _write(self, write: Write) -> None:
        record = self._data.find(write.key)
        if record is not None and write.new is None:
            write = structs.replace(write, expected_seq=len(record.events), expected_holder=record.holder)
        super()._write(write)


async def test_the_checker_notices_a_store_without_a_fence() -> None:
    def handle(database: MemoryDatabase) -> Store:
        store = MemoryStore(database)
        store.tasks = Unfenced(database)
        return store

    noticed = 0
    for seed in range(50):
        time = Time()
        database = MemoryDatabase(now=time)
        try:
            await play(seed, lambda database=database: handle(database), time)
        except Violation:
            noticed += 1
    assert noticed > 10
