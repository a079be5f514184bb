"""What a server needs of an engine: shared stores, batches, resumed sends, draining, and refusals that do not leak."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.caller import Caller
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.operations import AgentOperations
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError, UnavailableError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CancelTaskRequest,
    CreatePushConfigRequest,
    GetTaskRequest,
    ListPushConfigsRequest,
    ListTasksRequest,
    SendConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import StoreUnavailableError, TaskKey
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened
from tests.bounded import bounded, open_log
from tests.changed_store import ChangedStore
from tests.deadlines import fail_after

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test", **options)
    agent.on_message(handler)
    return agent


def message(text: str = "go", id: str = "m-1") -> Message:
    return Message(id, Role.USER, (TextPart(text),))


async def echo(turn: Turn) -> str:
    return turn.text


async def collect(batches: Any) -> list[Any]:
    return [batch async for batch in batches]


# --- one store, several agents ----------------------------------------------------------------------------------------


async def test_an_engine_continues_the_tasks_of_its_own_agents_and_of_one_that_is_added_later(tmp_path: Path) -> None:
    begun = {name: asyncio.Event() for name in "ab"}

    async def hang(turn: Turn) -> None:
        begun[turn.text].set()
        await asyncio.Event().wait()

    later = SendConfiguration(return_immediately=True)
    with fail_after(5):
        async with opened(SqliteStore(tmp_path / "tasks.db")) as store:
            async with Engine(store, *(agent_of(hang, id=name) for name in "ab"), drain_seconds=0) as engine:
                mine: Any = await engine.agent("a").send_message(SendMessageRequest(message("a"), later))
                theirs: Any = await engine.agent("b").send_message(SendMessageRequest(message("b"), later))
                await begun["a"].wait()
                await begun["b"].wait()
            async with Engine(store, agent_of(echo, id="a")) as engine:
                assert text_of(await finished(engine.agent("a"), mine.id)) == "a"
                with pytest.raises(TaskNotFoundError):
                    await engine.agent("a").get_task(GetTaskRequest(theirs.id))
                head = await store.tasks.head(TaskKey(Caller().owner, theirs.id))
                assert head is not None
                assert head.state is TaskState.WORKING
                engine.add(agent_of(echo, id="b"))
                assert text_of(await finished(engine.agent("b"), theirs.id)) == "b"


async def finished(agent: AgentOperations, task_id: str) -> Task:
    await collect(agent.subscribe_to_task(SubscribeToTaskRequest(task_id), after=0))
    return await agent.get_task(GetTaskRequest(task_id))


def text_of(task: Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts if isinstance(part, TextPart))


async def test_a_store_stays_open_when_an_engine_has_ended(tmp_path: Path) -> None:
    with fail_after(5):
        async with opened(SqliteStore(tmp_path / "tasks.db")) as store:
            async with Engine(store, agent_of(echo)) as engine:
                task: Any = await engine.agent("test").send_message(SendMessageRequest(message()))
            assert await store.tasks.head(TaskKey(Caller().owner, task.id)) is not None
        with pytest.raises(StoreUnavailableError, match="not open"):
            await store.tasks.head(TaskKey(Caller().owner, task.id))


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.embedded
async def test_a_quick_answer_is_one_batch() -> None:
    async with bounded(agent_of(echo)) as client:
        (batch,) = await collect(client.agent.send_streaming_message(SendMessageRequest(message())))

    assert [(seq, type(event)) for seq, event in batch] == [
        (2, Task),
        (3, StatusUpdate),
        (4, ArtifactUpdate),
        (5, StatusUpdate),
    ]
    assert batch[-1][1].status.state is TaskState.COMPLETED


async def test_events_come_at_once_and_none_is_kept_back_for_a_larger_batch() -> None:
    gate = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        yield "1"
        yield "2"
        await gate.wait()
        yield "3"

    async with bounded(agent_of(handler)) as client:
        batches = client.agent.send_streaming_message(SendMessageRequest(message()))
        seen: list[int] = []
        while len(seen) < 4:
            seen += [seq for seq, _ in await anext(batches)]
        assert seen == [2, 3, 4, 5]
        gate.set()
        assert [seq for batch in await collect(batches) for seq, _ in batch] == [6, 7]


@pytest.mark.embedded
async def test_a_batch_ends_with_the_event_that_ends_the_stream() -> None:
    """Also where there is more behind it already."""
    gate = asyncio.Event()

    async def handler(turn: Turn) -> str:
        await gate.wait()
        return (await turn.ask("?")).text

    async with bounded(agent_of(handler)) as client:
        batches = client.agent.send_streaming_message(SendMessageRequest(message()))
        (_, task), *_ = await anext(batches)
        assert isinstance(task, Task)
        gate.set()
        while (await client.get(task)).status.state is not TaskState.INPUT_REQUIRED:
            await asyncio.sleep(0)
        await client.send("answer", task=task)
        (rest,) = await collect(batches)
        whole = await collect(client.agent.subscribe_to_task(SubscribeToTaskRequest(task.id), after=0))

    assert [(seq, event.status.state) for seq, event in rest] == [(4, TaskState.INPUT_REQUIRED)]
    assert [seq for batch in whole for seq, _ in batch] == [3, 4, 6, 7, 8]


async def test_a_direct_reply_is_one_batch_of_one() -> None:
    async with bounded(agent_of(echo, replies_directly=True)) as client:
        request = SendMessageRequest(message())
        reply = await client.agent.send_message(request)
        assert await collect(client.agent.send_streaming_message(request)) == [[(0, reply)]]


# --- a send whose stream broke ----------------------------------------------------------------------------------------


async def test_a_repeated_send_goes_on_exactly_after_a_number() -> None:
    """At every place, whether the task is at work or has ended; and with nothing where nothing was missed."""
    gate = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        yield "1"
        await gate.wait()
        yield "2"

    async with bounded(agent_of(handler)) as client:
        request = SendMessageRequest(message())
        broken = client.agent.send_streaming_message(request)
        seen: list[Any] = []
        while len(seen) < 3:
            seen += await anext(broken)
        await broken.aclose()
        live = asyncio.create_task(collect(client.agent.send_streaming_message(request, after=seen[-1][0])))
        await asyncio.sleep(0)
        gate.set()
        numbered = seen + [pair for batch in await live for pair in batch]
        assert [seq for seq, _ in numbered] == [2, 3, 4, 5, 6]
        for place, (seq, _) in enumerate(numbered):
            batches = await collect(client.agent.send_streaming_message(request, after=seq))
            assert [pair for batch in batches for pair in batch] == numbered[place + 1 :]
        with pytest.raises(InvalidParamsError, match="none with number 7"):
            await collect(client.agent.send_streaming_message(request, after=7))


@pytest.mark.embedded
async def test_a_repeated_send_does_not_wait_after_a_question() -> None:
    async def handler(turn: Turn) -> str:
        return (await turn.ask("?")).text

    async with bounded(agent_of(handler)) as client:
        request = SendMessageRequest(message())
        (batch,) = await collect(client.agent.send_streaming_message(request))
        assert batch[-1][1].status.state is TaskState.INPUT_REQUIRED
        assert await collect(client.agent.send_streaming_message(request, after=batch[-1][0])) == []


@pytest.mark.embedded
async def test_a_number_means_nothing_for_a_message_that_was_not_sent_before() -> None:
    async with bounded(agent_of(echo)) as client:
        (batch,) = await collect(client.agent.send_streaming_message(SendMessageRequest(message()), after=4))
        assert [seq for seq, _ in batch] == [2, 3, 4, 5]


# --- dialects ---------------------------------------------------------------------------------------------------------


async def test_a_task_knows_the_dialect_it_was_created_in() -> None:
    async with bounded(agent_of(echo), caller=Caller("ada", version=Version.V0_2)) as client:
        task = await client.send("go")
        engine = client.agent
        assert await engine.created_in(task.id, Caller("ada")) is Version.V0_2
        assert await engine.created_in(task.id, Caller("bob")) is None
        assert await engine.created_in("none", Caller("ada")) is None


# --- draining ---------------------------------------------------------------------------------------------------------


async def test_draining_lets_runs_finish_refuses_new_ones_and_cuts_readers_off_at_last() -> None:
    gate = asyncio.Event()
    begun = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        if turn.text == "ask":
            await turn.ask("?")
        begun.set()
        await gate.wait()
        yield "done"

    with fail_after(5):
        store = await open_log()
        async with Engine(store, agent_of(handler)) as engine:
            asked: Any = await engine.agent("test").send_message(SendMessageRequest(message("ask", "m-2")))
            reader = asyncio.create_task(
                collect(engine.agent("test").subscribe_to_task(SubscribeToTaskRequest(asked.id)))
            )
            sender = asyncio.create_task(engine.agent("test").send_message(SendMessageRequest(message())))
            await begun.wait()
            draining = [asyncio.create_task(engine.drain()) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(UnavailableError, match="restarting"):
                await engine.agent("test").send_message(SendMessageRequest(message("another", "m-3")))
            assert engine.runs.working == 1
            assert not reader.done()
            gate.set()
            await asyncio.gather(*draining)
            task: Any = await sender
            assert task.status.state is TaskState.COMPLETED
            with pytest.raises(UnavailableError, match="subscribe again"):
                await reader
            assert await engine.agent("test").get_task(GetTaskRequest(task.id)) == task
            late = engine.agent("test").subscribe_to_task(SubscribeToTaskRequest(asked.id))
            assert await anext(late) == [(4, asked)]
            with pytest.raises(UnavailableError, match="subscribe again"):
                await anext(late)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (
            600.0,
            "The agent is restarting and goes on with the task then; the same message sent again gets the same task",
        ),
        (0.0, "The agent is restarting and goes on with the task then"),
    ],
    ids=["the same task", "idempotency is off"],
)
async def test_what_a_drain_cut_off_is_taken_up_by_the_next_engine(seconds: float, text: str) -> None:
    limits = Limits(idempotency_seconds=seconds)
    begun = asyncio.Event()

    async def hang(turn: Turn) -> None:
        await turn.step("a step that is recorded, and its task with it", lambda: None)
        begun.set()
        await asyncio.Event().wait()

    with fail_after(5):
        store = await open_log()
        async with Engine(store, agent_of(hang), limits=limits, drain_seconds=0) as engine:
            sender = asyncio.create_task(engine.agent("test").send_message(SendMessageRequest(message())))
            await begun.wait()
            await engine.drain()
            with pytest.raises(UnavailableError) as cut:
                await sender
        assert cut.value.message == text
        async with Engine(store, agent_of(echo), limits=limits) as engine:
            page = await engine.agent("test").list_tasks(ListTasksRequest())
            assert cut.value.details == {"taskId": page.tasks[0].id}
            assert text_of(await finished(engine.agent("test"), page.tasks[0].id)) == "go"
            again: Any = await engine.agent("test").send_message(SendMessageRequest(message()))
            assert (again.id == page.tasks[0].id) is (seconds > 0)


# --- stores that refuse -----------------------------------------------------------------------------------------------


class Unreadable(ChangedStore):
    """A store that cannot be read any more."""

    is_broken = False

    def __init__(self) -> None:
        super().__init__()
        self._find, self.database.find = self.database.find, self._find_unless_broken

    def _find_unless_broken(self, key: TaskKey) -> Any:
        if self.is_broken:
            raise StoreUnavailableError("/secret/path.db: the disk fails")
        return self._find(key)

    async def sends_find(self, *_: Any, **__: Any) -> Any:
        self.database.find(TaskKey(Caller().owner, ""))

    async def tasks_list(self, *_: Any, **__: Any) -> Any:
        self.database.find(TaskKey(Caller().owner, ""))


async def test_a_store_that_cannot_be_read_makes_the_agent_unavailable(caplog: pytest.LogCaptureFixture) -> None:
    """Its own words stay in the log."""
    store = Unreadable()
    async with bounded(agent_of(echo), store=store) as client:
        task = await client.send("go")
        store.is_broken = True
        agent = client.agent
        for work in (
            agent.send_message(SendMessageRequest(message())),
            collect(agent.send_streaming_message(SendMessageRequest(message()))),
            agent.get_task(GetTaskRequest(task.id)),
            agent.list_tasks(ListTasksRequest()),
            agent.cancel_task(CancelTaskRequest(task.id)),
            collect(agent.subscribe_to_task(SubscribeToTaskRequest(task.id))),
            agent.created_in(task.id),
            agent.create_push_config(CreatePushConfigRequest(task.id, PushConfig("https://x.example"))),
            agent.list_push_configs(ListPushConfigsRequest(task.id)),
        ):
            caplog.clear()
            with caplog.at_level(logging.ERROR), pytest.raises(UnavailableError) as refusal:
                await work
            assert refusal.value.message == "The agent cannot reach its store now; try again later"
            assert isinstance(refusal.value.__cause__, StoreUnavailableError)
            assert "/secret/path.db: the disk fails" in caplog.text


async def test_half_a_character_in_an_id_is_the_callers_mistake(tmp_path: Path) -> None:
    async with bounded(agent_of(echo), store=SqliteStore(tmp_path / "tasks.db")) as client:
        with pytest.raises(InvalidParamsError, match="not valid Unicode"):
            await client.get("\ud800")


async def test_a_webhook_for_a_task_that_was_just_deleted_finds_no_task() -> None:
    class Forgetful(ChangedStore):
        async def outbox_configs(self, key: TaskKey) -> Any:
            await self.tasks.delete(key)
            return ()

    async with bounded(agent_of(echo), store=Forgetful()) as client:
        task = await client.send("go")
        with pytest.raises(TaskNotFoundError):
            await client.agent.create_push_config(CreatePushConfigRequest(task.id, PushConfig("https://x.example")))


async def test_a_reader_that_is_far_behind_gets_pages_of_the_store() -> None:
    async def handler(turn: Turn) -> Any:
        for number in range(10):
            yield str(number)

    async with bounded(agent_of(handler), limits=Limits(events_in_memory=2, page_events=4)) as client:
        task = await client.send("go")
        batches = await collect(client.agent.subscribe_to_task(SubscribeToTaskRequest(task.id), after=0))
        assert [[seq for seq, _ in batch] for batch in batches] == [[3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14]]
