"""Clocks that are set while a server runs: nothing is forgotten too early."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.caller import ANONYMOUS_CALLER
from parley.engine.clock import Steady
from parley.engine.engine import Engine
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendMessageRequest
from parley.stores.interface import Store, TaskFilter
from parley.stores.memory import MemoryStore
from parley.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

HOUR = 3_600.0


class Clocks:
    """A clock on the wall and the time that passes, in seconds."""

    def __init__(self) -> None:
        self.wall = self.passed = 0.0
        self.steady = Steady(lambda: self.wall, lambda: self.passed)

    def passes(self, seconds: float) -> float:
        """So much time passes, and the steady clock shows this then."""
        self.wall += seconds
        self.passed += seconds
        return self.steady.seconds()


def test_a_steady_clock_follows_the_one_on_the_wall_slowly() -> None:
    """It never jumps and never goes back; a sleep of the machine is time that passes."""
    clocks = Clocks()
    assert clocks.passes(8 * HOUR) == 8 * HOUR
    clocks.wall += 2 * HOUR
    assert clocks.passes(600) == pytest.approx(8 * HOUR + 606)
    clocks.wall -= 2 * HOUR
    assert clocks.passes(300) == pytest.approx(8 * HOUR + 903)
    assert clocks.passes(300) == clocks.wall
    clocks.wall += 2 * HOUR
    assert clocks.passes(100 * HOUR) == pytest.approx(clocks.wall - HOUR)
    assert clocks.passes(101 * HOUR) == clocks.wall
    clocks.wall -= HOUR
    assert clocks.passes(HOUR) == pytest.approx(clocks.wall + 0.99 * HOUR)


@asynccontextmanager
async def engine(store: Store, clock: FakeClock) -> AsyncGenerator[Engine]:
    async def handler(turn: Turn) -> None: ...

    agent = Agent("Test")
    agent.on_message(handler)
    async with Engine(store, agent, clock=clock, retention=timedelta(hours=1)) as engine:
        yield engine


async def send(engine: Engine) -> Any:
    return await engine.agent("test").send_message(SendMessageRequest(Message("m-1", Role.USER, (TextPart("go"),))))


async def minutes(clock: FakeClock, number: int) -> None:
    for _ in range(number):
        await clock.advance(60)


async def count_tasks(store: Store) -> int:
    return (await store.tasks.list(ANONYMOUS_CALLER.owner, TaskFilter())).total


async def test_a_clock_that_is_wrong_for_a_while_deletes_nothing() -> None:
    """Two hours forward and back again, while a server runs and while it starts; what is really old goes in the end."""
    clock, store = FakeClock(datetime(2026, 3, 1, tzinfo=UTC)), MemoryStore()
    async with engine(store, clock) as running:
        task = await send(running)
        assert await count_tasks(store) == 1
        await minutes(clock, 15)
        clock.jump(2 * HOUR)
        await minutes(clock, 5)
        assert await count_tasks(store) == 1
    async with engine(store, clock):
        await minutes(clock, 5)
        clock.jump(-2 * HOUR)
        await minutes(clock, 15)
        assert await count_tasks(store) == 1
        await minutes(clock, 40)
        assert await count_tasks(store) == 0
    assert task.status.state == "completed"


async def test_a_server_that_has_just_started_deletes_nothing_yet() -> None:
    """Its clock may be wrong until the machine has found the network."""
    clock, store = FakeClock(), MemoryStore()
    async with engine(store, clock) as running:
        await send(running)
    await clock.advance(3 * HOUR)
    async with engine(store, clock):
        await minutes(clock, 9)
        assert await count_tasks(store) == 1
        await minutes(clock, 3)
        assert await count_tasks(store) == 0
