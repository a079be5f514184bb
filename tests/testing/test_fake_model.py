"""`FakeModel` misbehaves as its script says, and an agent that streams it comes to a clear end."""

import asyncio
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.limits import Limits
from parley.protocol.events import ArtifactUpdate
from parley.protocol.tasks import TaskState
from parley.testing import STALL, FakeClock, FakeModel
from tests.bounded import bounded

pytestmark = pytest.mark.anyio


def streaming(model: FakeModel) -> Agent:
    agent = Agent("Streams")

    @agent.on_message
    async def answer(turn: Turn) -> Any:
        yield turn.stream("answer", model.stream, turn.text)

    return agent


async def test_a_model_follows_its_scripts_and_counts_its_calls() -> None:
    model = FakeModel(["a{call} ", "b{call} "], ["c", ConnectionError("cut")], ["d{call}", 0, "e"])
    assert await model.complete("one") == "a1 b1 "
    with pytest.raises(ConnectionError, match="cut"):
        await model.complete("two")
    assert [await model.complete(), await model.complete()] == ["d3e", "d4e"]
    assert [call.prompt for call in model.calls] == ["one", "two", "", ""]
    assert model.said("d4e")
    assert not model.said("c")


async def test_a_model_that_stalls_is_called_again_after_a_restart() -> None:
    model = FakeModel(["Hello ", STALL], ["Goodbye ", "world"])
    async with bounded(streaming(model)) as client:
        crashing = asyncio.create_task(client.crash_when(lambda event: isinstance(event, ArtifactUpdate)))
        task = await client.start("hi")
        await crashing
        await client.restart()
        task = await client.finished(task)
    assert (task.status.state, client.text(task)) == (TaskState.COMPLETED, "Goodbye world")


async def test_a_model_that_stalls_fails_its_task_when_the_time_is_over() -> None:
    clock = FakeClock()
    async with bounded(streaming(FakeModel(["Hello ", STALL])), clock=clock, limits=Limits(run_seconds=60)) as client:
        task = await client.start("hi")
        async for _, event in client.follow(task, after=0):
            if isinstance(event, ArtifactUpdate):
                await clock.advance(61)
        task = await client.get(task)
    assert task.status.message is not None
    assert (task.status.state, task.status.message.text) == (TaskState.FAILED, "The agent took longer than 60 seconds.")


@pytest.mark.parametrize(
    ("script", "state"),
    [(["Hel"], TaskState.COMPLETED), (["Hel", ConnectionError("the model is gone")], TaskState.FAILED)],
    ids=["ends early", "raises"],
)
async def test_a_model_that_breaks_off_leaves_what_it_said(script: list[Any], state: TaskState) -> None:
    async with bounded(streaming(FakeModel(script))) as client:
        task = await client.send("hi")
    assert (task.status.state, client.text(task)) == (state, "Hel")
    assert task.status.message is None or "the model is gone" not in task.status.message.text
