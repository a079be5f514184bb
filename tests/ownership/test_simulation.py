"""Several engines on one store, over many seeds: pauses, wrong clocks, lost hints and crashes lose nothing."""

import os

import pytest
from msgspec import structs

from parley.protocol.errors import LocalProtocolError
from parley.stores.interface import Write
from parley.stores.memory import MemoryTasks
from tests.ownership.simulation import Violation, World

pytestmark = pytest.mark.anyio

SEEDS = int(os.environ.get("PARLEY_SIMULATION_SEEDS", "40"))
STEPS = 60


async def test_engines_that_pause_wake_and_die_lose_and_double_nothing() -> None:
    for seed in range(SEEDS):
        try:
            await World(seed).play(STEPS)
        except Violation as violation:
            pytest.fail(f"seed {seed}: {violation}")


async def test_the_simulation_notices_a_store_without_a_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    fenced = MemoryTasks._write

    def unfenced(self: MemoryTasks, write: Write) -> None:
        record = self._data.find(write.key)
        if record is not None and write.new is None:
            write = structs.replace(write, expected_seq=len(record.events), expected_holder=record.holder)
        fenced(self, write)

    monkeypatch.setattr(MemoryTasks, "_write", unfenced)
    noticed = 0
    for seed in range(30):
        try:
            await World(seed).play(STEPS)
        except (Violation, LocalProtocolError):  # or a log that makes no task
            noticed += 1
        if noticed == 3:
            return
    pytest.fail(f"{noticed} violations were noticed")
