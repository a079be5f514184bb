"""Delegations that have begun at the other agent, but the log of the task that delegates does not name its task yet.

The handler has given up before the answer came, or the process was killed then. The other agent's task is canceled all
the same when ours is.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from parley import Agent, Client, Turn
from parley.agents.delegation import delegation
from parley.agents.delegation.peers import LocalPeer, RemotePeer
from parley.engine.limits import Limits
from parley.protocol.events import MessageAdded, TaskEvent
from parley.protocol.extensions import DELEGATION
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import ListTasksRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.server.app import App
from parley.stores.interface import Store, Write
from parley.stores.memory import MemoryStore
from parley.stores.sqlite.store import SqliteStore
from parley.testing.client import AgentClient
from parley.testing.clock import FakeClock
from tests.bounded import bounded
from tests.server.serving import running as served

pytestmark = pytest.mark.anyio
on_any_store = pytest.mark.usefixtures("any_store")


def agent_of(handler: Any, name: str = "Parent") -> Agent:
    agent = Agent(name)
    agent.on_message(handler)
    return agent


class Child:
    """An agent that says when it has begun, and ends only if it is asked to."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.agent = agent_of(self._work, "Child")

    async def _work(self, turn: Turn) -> Any:
        self.begun.set()
        await self.may_end.wait()
        return "done"


@pytest.fixture
def unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other agents begin, but the first answer to each message does not come while the handler waits."""
    sent: set[str] = set()

    def losing(send: Callable[[Any, Message], AsyncGenerator[Any]]) -> Any:
        async def lose(peer: Any, message: Message) -> AsyncGenerator[Any]:
            is_repeat = message.message_id in sent
            sent.add(message.message_id)
            async with aclosing(send(peer, message)) as events:
                async for event in events:
                    if not is_repeat:
                        await asyncio.Event().wait()
                    yield event

        return lose

    for kind in (LocalPeer, RemotePeer):
        monkeypatch.setattr(kind, "send", losing(kind.send))


class Place(Struct):
    """Where the other agent is: what handlers call it, the agents beside them, and how to list its tasks."""

    other_agent: Any
    others: list[Agent]
    states: Callable[[AgentClient], Awaitable[list[TaskState]]]


@asynccontextmanager
async def place_of(child: Child, where: str) -> AsyncGenerator[Place]:
    if where == "here":
        yield Place("child", [child.agent], states)
        return

    async def states_there(_: AgentClient) -> list[TaskState]:
        return [task.status.state async for task in reader.list()]

    async with served(App(child.agent)) as http:
        url = str(http.base_url)
        async with Client(url) as reader:
            yield Place(Client(url, versions=[Version.V0_3]) if where == "in 0.3" else url, [], states_there)


async def states(client: AgentClient) -> list[TaskState]:
    """The states of the tasks of the other agent on the same server."""
    page = await client.engine.agent("child").list_tasks(ListTasksRequest(), client.caller)
    return [task.status.state for task in page.tasks]


def gives_up(other_agent: Any, child: Child, *, goes_on: asyncio.Event) -> Any:
    """A handler that leaves its delegation when that has begun, and then sleeps, or waits and answers."""

    async def parent(turn: Turn) -> Any:
        async def delegate() -> None:
            await turn.delegate(other_agent)

        delegating = asyncio.create_task(delegate())
        await child.begun.wait()
        delegating.cancel()
        await asyncio.wait([delegating])
        if turn.text == "sleep":
            await turn.sleep("3 days")
        await goes_on.wait()
        return "too slow"

    return parent


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "tasks.db")


@pytest.mark.usefixtures("unanswered")
@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("how", ["asleep", "asleep before a restart", "at work", "at work for long", "ended"])
async def test_a_task_that_began_when_the_handler_gave_up_is_canceled_with_ours(
    how: str, where: str, store: Store
) -> None:
    child, goes_on, clock = Child(), asyncio.Event(), FakeClock()
    async with place_of(child, where) as place:
        parent = agent_of(gives_up(place.other_agent, child, goes_on=goes_on))
        async with bounded(parent, store=store, others=place.others, clock=clock) as client:
            task = await client.start("sleep" if how.startswith("asleep") else "work")
            await child.begun.wait()
            if how.startswith("asleep"):
                await client.asleep(task)
            if how == "asleep before a restart":
                await client.crash()
                await client.restart()
            if how == "at work for long":
                await clock.advance(700)  # the other agent does not remember the message any more
            if how == "ended":
                goes_on.set()
            else:
                await client.cancel(task)
            while await place.states(client) != [TaskState.CANCELED]:
                await asyncio.sleep(0)


def begins_child(event: TaskEvent) -> bool:
    return isinstance(event, MessageAdded) and DELEGATION in event.message.metadata


def delegates_once(agent: Any) -> Any:
    """A handler that delegates in its first run; the next ones do not come so far."""
    runs: list[Turn] = []

    async def parent(turn: Turn) -> Any:
        runs.append(turn)
        if len(runs) > 1:
            await asyncio.Event().wait()
        return turn.delegate(agent)

    return parent


@on_any_store
async def test_a_task_that_began_before_a_crash_is_canceled_although_the_next_run_does_not_come_so_far() -> None:
    child = Child()
    async with bounded(agent_of(delegates_once("child")), others=[child.agent]) as client:
        crashing = asyncio.create_task(client.crash_when(begins_child))
        task = await client.start("work")
        await crashing
        await client.restart()
        await client.cancel(task)
        while await states(client) != [TaskState.CANCELED]:
            await asyncio.sleep(0)


@on_any_store
async def test_a_run_that_is_canceled_before_its_handler_begins_again_cancels_what_earlier_runs_have_begun() -> None:
    child = Child()

    async def parent(turn: Turn) -> Any:
        if turn.text == "busy":
            await asyncio.Event().wait()
        delegating = asyncio.create_task(delegate_to_child(turn))
        await child.begun.wait()
        await turn.ask("Shall I wait?")
        await delegating

    async def delegate_to_child(turn: Turn) -> None:
        await turn.delegate("child")

    limits = Limits(runs_at_once=1)
    async with bounded(agent_of(parent), others=[child.agent], limits=limits) as client:
        task = await client.finished(await client.start("work"))
        await client.start("busy")
        await client.start("yes", task=task)
        await client.cancel(task)
        while await states(client) != [TaskState.CANCELED]:
            await asyncio.sleep(0)


@on_any_store
async def test_nothing_is_begun_by_canceling_a_delegation_of_which_only_the_log_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delegation, "ARRIVAL_SECONDS", 0)
    child = Child()

    def decide(write: Any) -> Any:
        return "before" if isinstance(write, Write) and any(map(begins_child, write.events)) else None

    async with bounded(agent_of(delegates_once("child")), others=[child.agent]) as client:
        crashing = asyncio.create_task(client.crash_at(decide))
        task = await client.start("work")
        await crashing
        await client.restart()
        child.begun.clear()  # a store in memory lets the handler begin with the write
        await client.cancel(task)
        for _ in range(200):
            await asyncio.sleep(0)
        assert await states(client) == []
        assert not child.begun.is_set()


@pytest.mark.usefixtures("unanswered")
async def test_no_second_task_begins_for_one_that_ended_long_before_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation, "ARRIVAL_SECONDS", 0)
    child, goes_on, clock = Child(), asyncio.Event(), FakeClock()
    child.may_end.set()
    parent = agent_of(gives_up("child", child, goes_on=goes_on))
    async with bounded(parent, others=[child.agent], clock=clock) as client:
        task = await client.start("work")
        while await states(client) != [TaskState.COMPLETED]:
            await asyncio.sleep(0)
        await clock.advance(700)
        goes_on.set()
        await client.finished(task)
        for _ in range(200):
            await asyncio.sleep(0)
        assert await states(client) == [TaskState.COMPLETED]


@pytest.mark.usefixtures("unanswered")
async def test_a_message_that_arrives_after_its_sender_has_gone_is_found_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delegation, "ARRIVAL_SECONDS", 0)
    open_tasks, looked_up = LocalPeer.open_tasks, list[str | None]()

    async def list_later(peer: LocalPeer, context_id: str | None) -> AsyncGenerator[Task]:
        looked_up.append(context_id)
        if len(looked_up) > 1:
            async for task in open_tasks(peer, context_id):
                yield task

    monkeypatch.setattr(LocalPeer, "open_tasks", list_later)
    child = Child()
    parent = agent_of(gives_up("child", child, goes_on=asyncio.Event()))
    async with bounded(parent, others=[child.agent]) as client:
        task = await client.start("sleep")
        await client.asleep(task)
        await client.cancel(task)
        while await states(client) != [TaskState.CANCELED]:
            await asyncio.sleep(0)
    assert looked_up == [task.context_id] * 2


@pytest.mark.usefixtures("unanswered")
async def test_the_same_message_of_another_task_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that comes again after ten minutes begins a second task, which delegates under the same message id."""
    monkeypatch.setattr(delegation, "ARRIVAL_SECONDS", 0)
    child, clock = Child(), FakeClock()
    parent = agent_of(gives_up("child", child, goes_on=asyncio.Event()))
    async with bounded(parent, others=[child.agent], clock=clock) as client:
        message = Message("again", Role.USER, (TextPart("sleep"),), "context")
        request = SendMessageRequest(message, SendConfiguration(return_immediately=True))
        first = await client.agent.send_message(request, client.caller)
        assert isinstance(first, Task)
        await client.asleep(first)
        await clock.advance(700)
        child.begun.clear()
        second = await client.agent.send_message(request, client.caller)
        assert isinstance(second, Task)
        assert second.id != first.id
        await client.asleep(second)
        await client.cancel(first)
        while TaskState.CANCELED not in await states(client):
            await asyncio.sleep(0)
        listed = await client.engine.agent("child").list_tasks(ListTasksRequest(), client.caller)
        origins = {task.status.state: task.history[0].metadata[DELEGATION] for task in listed.tasks}
        assert origins == {
            TaskState.CANCELED: {"taskId": first.id, "depth": 1},
            TaskState.WORKING: {"taskId": second.id, "depth": 1},
        }


@pytest.mark.usefixtures("unanswered")
async def test_an_agent_of_0_3_cannot_be_asked_for_its_tasks_which_the_log_says(
    caplog: pytest.LogCaptureFixture,
) -> None:
    child = Child()
    async with place_of(child, "in 0.3") as place:
        parent = agent_of(gives_up(place.other_agent, child, goes_on=asyncio.Event()))
        async with bounded(parent) as client:
            at_work = await client.start("work")
            await child.begun.wait()
            await client.cancel(at_work)  # the message is repeated, as the agent declares that it may be
            while await place.states(client) != [TaskState.CANCELED]:
                await asyncio.sleep(0)
            child.begun.clear()
            asleep = await client.start("sleep")
            await child.begun.wait()
            await client.asleep(asleep)
            with caplog.at_level(logging.WARNING):
                await client.cancel(asleep)
                while "could not be canceled" not in caplog.text:
                    await asyncio.sleep(0)
            assert TaskState.WORKING in await place.states(client)
            child.may_end.set()
