"""The time, random numbers and UUIDs of a turn: recorded, so that a handler that begins again gets the same ones."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from parley import Agent, Turn
from parley.protocol.events import StepRecorded
from parley.protocol.tasks import TaskState
from parley.testing import running
from parley.testing.clock import FakeClock
from tests.deadlines import fail_after
from tests.engine.test_slow_and_failing_stores import SlowLog, until

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 1, 1, 12, 30, 0, 123456, tzinfo=UTC)


def draw(turn: Turn) -> list[str | float]:
    """Values of each kind, two of some."""
    moments = (turn.now(), turn.now("later"))
    assert {moment.tzinfo for moment in moments} == {UTC}
    return [*map(str, moments), turn.random(), turn.random(), turn.uuid(), turn.uuid(), turn.uuid("payment")]


@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_handler_that_begins_again_gets_the_same_values(is_plain: bool) -> None:
    """After a question and after a crash, in a thread and out of one; each call gives another value."""
    agent, clock, drawn = Agent("Shop"), FakeClock(NOW), list[list[str | float]]()

    if is_plain:

        @agent.on_message
        def handle(turn: Turn) -> str:
            drawn.append(draw(turn))
            turn.wait(turn.ask("Really?"))
            return json.dumps(draw(turn)[2:])

    else:

        @agent.on_message
        async def handle(turn: Turn) -> str:
            drawn.append(draw(turn))
            await turn.ask("Really?")
            return json.dumps(draw(turn)[2:])

    with fail_after(5):
        async with running(agent, clock=clock) as client:
            task = await client.send("pay")
            await client.crash()
            await client.restart()
            await clock.advance(60)
            task = await client.send("yes", task=task.id)
            assert task.status.state is TaskState.COMPLETED
    assert drawn[0] == drawn[1]
    now, later, *numbers = drawn[0]
    assert [now, later] == [str(NOW)] * 2
    assert len({*numbers}) == len(numbers)
    assert all(0 <= number < 1 for number in numbers if isinstance(number, float))
    assert all(UUID(text).version == 4 for text in numbers if isinstance(text, str))
    assert not {*numbers} & {*json.loads(client.text(task))}  # those after the answer are others


async def test_no_step_begins_before_the_values_are_durable() -> None:
    """A key that was handed to a payment service is never forgotten; drawing it does not wait."""
    agent, store, keys, drawn = Agent("Shop"), SlowLog(), list[str](), asyncio.Event()

    @agent.on_message
    async def pay(turn: Turn) -> str:
        await turn.step("prepare", asyncio.sleep, 0)
        store.is_holding = True
        key = turn.uuid("payment")
        drawn.set()
        await turn.step("pay", charge, key)
        return key

    async def charge(key: str) -> None:
        keys.append(key)

    with fail_after(5):
        async with running(agent, store=store) as client:
            sending = asyncio.create_task(client.send("pay"))
            await drawn.wait()
            await until(lambda: store.held)
            for _ in range(10):
                await asyncio.sleep(0)
            assert keys == []
            (write, _), *_ = store.held
            assert [event.kind for event in write.events if isinstance(event, StepRecorded)] == ["value"]
            store.let_go()
            assert client.text(await sending) == keys[0]


async def test_code_that_runs_side_by_side_names_its_values() -> None:
    """It gets its own ones again, in whatever order it comes to them."""
    agent, clock, drawn = Agent("Shop"), FakeClock(NOW), list[dict[str, str]]()

    @agent.on_message
    async def handle(turn: Turn) -> None:
        keys = dict[str, str]()

        async def branch(name: str, yields: int) -> None:
            for _ in range(yields):
                await asyncio.sleep(0)
            keys[name] = turn.uuid(name)

        await asyncio.gather(branch("one", len(drawn)), branch("two", 1 - len(drawn)))
        drawn.append(keys)
        await turn.sleep("1 hour")

    with fail_after(5):
        async with running(agent, clock=clock) as client:
            task = await client.start("go")
            assert await client.asleep(task) == NOW + timedelta(hours=1)
            await clock.advance(3_600)
            await client.finished(task)
    assert list(drawn[0]) == ["one", "two"]
    assert list(drawn[1]) == ["two", "one"]
    assert drawn[0] == drawn[1]
