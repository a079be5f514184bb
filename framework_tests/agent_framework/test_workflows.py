"""The adapter of Microsoft Agent Framework: workflows."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from threading import Lock
from typing import Any

import pytest
from agent_framework import Agent as FrameworkAgent
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
from framework_tests.agent_framework.samples import Call, ScriptedClient, agent, user_texts
from framework_tests.suite import say
from parley import Agent
from parley.adapters.agent_framework.differences import changed_by, difference_of
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


async def test_a_workflow_without_a_name_finds_its_tasks_after_a_restart() -> None:
    """The framework makes up another name in each process."""

    def unnamed() -> Agent:
        guide, traveller = Guide(), Traveller(id="traveller")
        return Agent.of(WorkflowBuilder(start_executor=guide).add_edge(guide, traveller).build(), default_name="Travel")

    async with running(unnamed()) as client:
        task = await client.send("fun")
        await client.crash()
        client.program = unnamed()
        await client.restart()
        assert client.text(await client.send("Rome", task=task)) == "Question 1. \n\nGoing to Rome."
    assert unnamed().name == "Travel"
    assert Agent.of(WorkflowBuilder(start_executor=Guide()).build().as_agent()).name == "Agent"


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


class Asker(Executor):
    """Asks for something of a type, and says what it got."""

    def __init__(self, kind: Any) -> None:
        super().__init__(id="asker")
        self.kind = kind

    @handler
    async def begin(self, text: str, context: WorkflowContext[str, str]) -> None:
        await context.request_info(text, self.kind)

    @response_handler
    async def got_numbers(self, original: str, answer: list[int], context: WorkflowContext[str, str]) -> None:
        await context.yield_output(f"Got {answer!r}.")

    @response_handler
    async def got_number(self, original: str, answer: int, context: WorkflowContext[str, str]) -> None:
        await context.yield_output(f"Got {answer!r}.")

    @response_handler
    async def got_messages(self, original: str, answer: list[Message], context: WorkflowContext[str, str]) -> None:
        await context.yield_output(f"Got {[message.text for message in answer]}.")


@pytest.mark.parametrize(
    ("kind", "nonsense", "answer", "said"),
    [
        (int, "three", "3", "Got 3."),
        (list[int], "three", [1, 2], "Got [1, 2]."),
        (list[Message], None, "Hello", "Got ['Hello']."),
    ],
)
async def test_a_response_of_another_type_is_a_form_with_one_field_or_a_message(
    kind: Any, nonsense: str | None, answer: Any, said: str
) -> None:
    made = Agent.of(WorkflowBuilder(start_executor=Asker(kind)).build())
    async with running(made) as client:
        task = await client.send("How many?")
        if nonsense:
            task = await client.send(nonsense, task=task)
            assert task.status.state is TaskState.INPUT_REQUIRED, "it does not fit"
        assert task.status.message is not None
        assert task.status.message.text.endswith("How many?")
        await client.crash()
        await client.restart()
        task = await client.send(answer, task=task)
    assert client.text(task) == said


class Item(BaseModel):
    name: str


@dataclass
class Basket:
    items: list[Item]


class Shop(Executor):
    """Sends an object with objects in it, and asks for one."""

    @handler
    async def begin(self, data: dict, context: WorkflowContext[Basket, str]) -> None:
        await context.send_message(Basket([Item(name=str(data["name"]))]), target_id="shop")
        await context.request_info(data, dict)

    @handler
    async def fill(self, basket: Basket, context: WorkflowContext[Basket, str]) -> None:
        context.set_state("basket", basket)
        context.set_state("is_paid", 1)

    @response_handler
    async def go_on(self, original: dict, answer: dict, context: WorkflowContext[Basket, str]) -> None:
        context.set_state("is_paid", True)
        await context.yield_output(f"{context.get_state('basket')}, {sorted(original)}, {sorted(answer)}")


HOSTILE = {"name": "milk", "__pickled__": base64.b64encode(b"cos\nsystem\n.").decode(), "__type__": "posix:system"}
"""What the framework would unpickle if it took it for its own."""


async def test_objects_within_declared_objects_are_saved_and_nothing_of_the_caller_is_unpickled() -> None:
    shop = Shop(id="shop")
    made = Agent.of(WorkflowBuilder(start_executor=shop).add_edge(shop, shop).build())
    async with running(made) as client:
        task = await client.send(HOSTILE)
        await client.crash()
        await client.restart()
        task = await client.send(HOSTILE, task=task)
    keys = sorted(HOSTILE)
    assert client.text(task) == f"Basket(items=[Item(name='milk')]), {keys}, {keys}"


def test_a_change_from_one_to_true_is_a_change() -> None:
    old, new = {"a": {"b": 1, "c": [1]}, "d": 1}, {"a": {"b": True, "c": [1.0]}, "d": 1}
    assert repr(changed_by(old, difference_of(old, new))) == repr(new)


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


class Starter(Executor):
    """Passes on what it gets."""

    @handler
    async def begin(self, messages: list[Message], context: WorkflowContext[list[Message]]) -> None:
        await context.send_message(messages)


class SlowClient(ScriptedClient):
    """A model that lets others speak between its words."""

    async def _updates(self, messages: list[Message], tools: list[Any]) -> AsyncIterator[Any]:
        async for update in super()._updates(messages, tools):
            await asyncio.sleep(0)
            yield update


async def test_texts_of_agents_side_by_side_are_not_mixed() -> None:
    def says(name: str) -> FrameworkAgent:
        return FrameworkAgent(
            SlowClient(lambda messages, tools: [f"{name}{number} " for number in range(9)]), name=name
        )

    start, agents = Starter(id="start"), [says("a"), says("b"), says("c")]
    async with running(
        Agent.of(WorkflowBuilder(start_executor=start).add_fan_out_edges(start, agents).build())
    ) as client:
        task = await client.send("Go")
    expected = ["".join(f"{name}{number} " for number in range(9)) for name in "abc"]
    assert sorted(client.text(task).split("\n\n")) == expected


class Collector(Executor):
    """Says several messages at once."""

    @handler
    async def begin(self, messages: list[Message], context: WorkflowContext[str, list[Message]]) -> None:
        await context.yield_output([messages[-1], Message("assistant", ["One."]), Message("assistant", ["Two", "."])])


async def test_messages_are_paragraphs() -> None:
    async with running(Agent.of(WorkflowBuilder(start_executor=Collector(id="collector")).build())) as client:
        task = await client.send("Go")
    assert client.text(task) == "One.\n\nTwo."


async def test_a_workflow_within_a_workflow_keeps_the_state_of_one_run() -> None:
    def echo(messages: list[Message], tools: list[Any]) -> Iterator[str | Call]:
        yield f"You said: {user_texts(messages)[-1]}."

    inner = WorkflowBuilder(start_executor=agent("Inner", echo)).build().as_agent("Inner workflow")
    made = Agent.of(WorkflowBuilder(start_executor=inner).build())
    async with running(made) as client:
        tasks = await asyncio.gather(*[client.send(f"{number}") for number in range(3)])
    assert [client.text(task) for task in tasks] == [f"You said: {number}." for number in range(3)]
    await survives_crashes(made, "Go")


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
