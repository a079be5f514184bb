"""The adapter of Microsoft Agent Framework: workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any

import pytest
from agent_framework import (
    Executor,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
    response_handler,
    workflow,
)
from pydantic import BaseModel

from framework_tests.agent_framework import samples
from framework_tests.agent_framework.samples import Call, agent, user_texts
from framework_tests.suite import say
from parley import Agent
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import StatusUpdate
from parley.protocol.messages import DataPart
from parley.protocol.tasks import TaskState
from parley.testing import running, survives_crashes

pytestmark = pytest.mark.anyio

VISITS: list[str] = []


@dataclass
class WhichCity:
    """A request of a type of one's own."""

    prompt: str


class Guide(Executor):
    """Asks for the city."""

    def __init__(self) -> None:
        super().__init__(id="guide")
        self.asked = 0

    @handler
    async def begin(self, messages: list[Message], context: WorkflowContext[str, str]) -> None:
        self.asked += 1
        VISITS.append("guide")
        await context.yield_output(f"Question {self.asked}. ")
        await context.request_info(WhichCity(f"Which city, for {messages[-1].text}?"), str)

    @response_handler
    async def go_on(self, original: WhichCity, answer: str, context: WorkflowContext[str, str]) -> None:
        await context.send_message(answer)


class Traveller(Executor):
    """Goes there."""

    @handler
    async def go(self, city: str, context: WorkflowContext[str, str]) -> None:
        VISITS.append("traveller")
        await context.yield_output(f"Going to {city}.")


def travel() -> Workflow:
    guide, traveller = Guide(), Traveller(id="traveller")
    return WorkflowBuilder(start_executor=guide, name="Travel", description="Plans.").add_edge(guide, traveller).build()


async def test_a_request_is_a_question_and_a_restart_goes_on_after_it() -> None:
    VISITS.clear()
    async with running(Agent.of(travel())) as client:
        task = await client.send("fun")
        assert task.status.message is not None
        assert task.status.message.text == "Which city, for fun?"
        await client.crash()
        await client.restart()
        task = await client.send("Rome", task=task)
    assert client.text(task) == "Question 1. \n\nGoing to Rome."
    assert VISITS == ["guide", "traveller"]


async def test_a_crash_at_any_point_of_a_workflow_changes_nothing_that_readers_hold() -> None:
    await survives_crashes(Agent.of(travel()), "fun", answers=["Rome"])


async def test_runs_of_a_workflow_at_the_same_time_do_not_mix() -> None:
    async with running(Agent.of(travel())) as client:
        first, second = await asyncio.gather(client.send("fun"), client.send("work"))
        done, other = await asyncio.gather(client.send("Rome", task=first), client.send("Oslo", task=second))
    assert [client.text(task) for task in (done, other)] == [
        "Question 1. \n\nGoing to Rome.",
        "Question 1. \n\nGoing to Oslo.",
    ]


async def test_a_workflow_as_an_agent_is_the_same() -> None:
    made = Agent.of(travel().as_agent("Guide", description="Guides."))
    assert (made.card().name, made.card().description) == ("Guide", "Guides.")
    assert [skill.id for skill in made.card().skills] == ["guide", "traveller"]
    async with running(made) as client:
        task = await client.send("fun")
        task = await client.send("Rome", task=task)
    assert client.text(task) == "Question 1. \n\nGoing to Rome."


async def test_agents_of_a_workflow_stream_and_a_finished_one_is_not_asked_again() -> None:
    worker = agent("Worker", samples.work, tools=[samples.charge])
    speaker = agent("Speaker", samples.speak)
    made = Agent.of(WorkflowBuilder(start_executor=worker, name="Both").add_edge(worker, speaker).build())
    samples.EFFECTS.clear()
    async with running(made) as client:
        task = await client.start("Go")
        await client.crash_when(lambda event: "Running Speaker" in repr(event))
        await client.restart()
        task = await client.finished(task)
    assert client.text(task) == "All done.\n\nHello, world."
    assert samples.EFFECTS == ["charged"]
    assert task.metadata["usage"] == {"inputTokens": 30, "outputTokens": 15, "requests": 3}
    await survives_crashes(made, "Go")


async def test_the_approval_of_an_agent_in_a_workflow_is_asked() -> None:
    made = Agent.of(
        WorkflowBuilder(start_executor=agent("Deployer", samples.ask_to_deploy, tools=[samples.deploy])).build()
    )
    async with running(made) as client:
        task = await client.send("Go")
        assert task.status.state is TaskState.INPUT_REQUIRED
        await client.crash()
        await client.restart()
        task = await client.send("yes", task=task)
    assert client.text(task) == samples.ANSWERED
    await survives_crashes(made, "Go", answers=["yes"])


async def test_a_workflow_remembers_the_conversation() -> None:
    def recall(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
        yield ", ".join(user_texts(messages))

    made = Agent.of(WorkflowBuilder(start_executor=agent("Rememberer", recall)).build())
    async with running(made) as client:
        first = await say(client, "one")
        second = await say(client, "two", after=first)
        other = await say(client, "uno")
    assert [client.text(task) for task in (first, second, other)] == ["one", "one, two", "uno"]


class Trip(BaseModel):
    city: str
    days: int


class Planner(Executor):
    """Takes a text, asks for an object, and says data."""

    @handler
    async def begin(self, text: str, context: WorkflowContext[str, Trip]) -> None:
        await context.request_info({"about": text}, Trip)

    @response_handler
    async def go_on(self, original: dict, trip: Trip, context: WorkflowContext[str, Trip]) -> None:
        await context.yield_output(trip)


async def test_a_request_for_an_object_is_a_form_and_an_object_that_is_said_is_data() -> None:
    made = Agent.of(WorkflowBuilder(start_executor=Planner(id="planner")).build())
    async with running(made) as client:
        task = await client.send("Go")
        assert task.status.message is not None
        assert '{"about": "Go"}' in task.status.message.text
        task = await client.send({"city": "Rome", "days": 3}, task=task)
    parts = [part for artifact in task.artifacts for part in artifact.parts]
    assert [part.data for part in parts if isinstance(part, DataPart)] == [{"city": "Rome", "days": 3}]


class Bookkeeper(Executor):
    """Asks for a yes or a no, and keeps a state of its own."""

    def __init__(self) -> None:
        super().__init__(id="bookkeeper")
        self.price = 0

    @handler
    async def begin(self, text: str, context: WorkflowContext[str, str]) -> None:
        self.price = len(text)
        await context.request_info(f"Pay {self.price}?", bool)

    @response_handler
    async def go_on(self, original: str, agreed: bool, context: WorkflowContext[str, str]) -> None:
        await context.yield_output(f"Paid {self.price}." if agreed else "Not paid.")

    async def on_checkpoint_save(self) -> dict[str, Any]:
        return {"price": self.price}

    async def on_checkpoint_restore(self, state: dict[str, Any]) -> None:
        self.price = state["price"]


@pytest.mark.parametrize(("answer", "said"), [("yes", "Paid 3."), ("no", "Not paid.")])
async def test_a_request_for_a_yes_is_an_approval_and_the_state_of_an_executor_is_kept(answer: str, said: str) -> None:
    async with running(Agent.of(WorkflowBuilder(start_executor=Bookkeeper()).build())) as client:
        task = await client.send("abc")
        await client.crash()
        await client.restart()
        task = await client.send(answer, task=task)
    assert client.text(task) == said


@pytest.mark.filterwarnings("ignore:.*FUNCTIONAL_WORKFLOWS")
def test_a_functional_workflow_is_refused() -> None:
    @workflow
    async def shout(text: str) -> str:
        return text.upper()

    with pytest.raises(LocalProtocolError, match="state of one caller"):
        Agent.of(shout.build().as_agent("Shouter"))


class Locked(Executor):
    """An executor that cannot be copied."""

    def __init__(self) -> None:
        super().__init__(id="locked")
        self.lock = Lock()

    @handler
    async def begin(self, text: str, context: WorkflowContext[str, str]) -> None:
        await context.yield_output(f"You said: {text}")


def locked() -> Workflow:
    return WorkflowBuilder(start_executor=Locked()).build()


async def test_a_workflow_that_cannot_be_copied_is_built_for_each_run(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Agent.of(locked())) as client:
        task = await client.send("Go")
        assert task.status.state is TaskState.FAILED
        assert "build=make_workflow" in caplog.text
    async with running(Agent.of(locked(), build=locked)) as client:
        events = [event async for event in client.stream("Go")]
        task = await client.get(events[0].id)
    shown = [event.status.message.text for event in events if isinstance(event, StatusUpdate) and event.status.message]
    assert client.text(task) == "You said: Go"
    assert shown == ["Running locked"]


async def test_a_cancel_reaches_the_executor() -> None:
    samples.STARTED.clear()
    samples.STOPPED.clear()
    hanger = agent("Hanger", samples.call_wait, tools=[samples.wait])
    async with running(Agent.of(WorkflowBuilder(start_executor=hanger).build())) as client:
        task = await client.start("Go")
        assert await asyncio.to_thread(samples.STARTED.wait, 30)
        task = await client.cancel(task)
        assert await asyncio.to_thread(samples.STOPPED.wait, 30)
    assert task.status.state is TaskState.CANCELED
