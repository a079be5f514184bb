"""Every way a run can end, also the odd ones: nobody waits for ever, and no task is left with nobody working on it."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.clock import random_id
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.protocol.errors import InvalidParamsError, TaskFinishedError, TaskNotFoundError, UnavailableError
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import ListTasksRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from tests.bounded import bounded, open_log

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test", **options)
    agent.on_message(handler)
    return agent


async def hang(turn: Turn) -> None:
    await asyncio.Event().wait()


async def test_a_cancel_before_the_first_step_of_an_answer_cancels_it() -> None:
    async def handler(turn: Turn) -> None:
        await turn.ask("?")
        await asyncio.Event().wait()

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        both = asyncio.gather(client.send("yes", task=asked), client.cancel(asked), return_exceptions=True)
        answered, canceled = await both
        assert canceled.status.state is TaskState.CANCELED
        assert answered == canceled or isinstance(answered, TaskFinishedError)  # if the cancel came first
        assert client.engine.runs.working == 0


class Panic(BaseException):
    """As libraries in other languages raise it."""


async def _cancel_oneself() -> None:
    task = asyncio.current_task()
    assert task is not None
    child = asyncio.create_task(asyncio.Event().wait())
    child.cancel()
    await child


@pytest.mark.parametrize("error", [Panic(), SystemExit(1), StopIteration()], ids=lambda error: type(error).__name__)
async def test_whatever_a_handler_raises_its_task_fails(error: BaseException) -> None:
    def plain(turn: Turn) -> None:
        raise error

    async def stepping(turn: Turn) -> None:
        await turn.step("s", plain, turn)

    for handler in (plain, stepping):
        async with bounded(agent_of(handler)) as client:
            assert (await client.send("go")).status.state is TaskState.FAILED


async def test_a_cancellation_of_the_handlers_own_is_a_failure() -> None:
    async def handler(turn: Turn) -> None:
        await _cancel_oneself()

    async with bounded(agent_of(handler)) as client:
        assert (await client.send("go")).status.state is TaskState.FAILED


async def test_nobody_waits_for_a_handler_that_was_left_behind() -> None:
    release = asyncio.Event()

    async def stubborn(turn: Turn) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with bounded(agent_of(stubborn), limits=Limits(cancel_seconds=0.01, runs_at_once=1)) as client:
        request = SendMessageRequest(client.message("go"))
        sender = asyncio.create_task(client.agent.send_message(request))
        while not (tasks := (await client.agent.list_tasks(ListTasksRequest())).tasks):
            await asyncio.sleep(0)
        (task,) = tasks
        first, second = await asyncio.gather(client.cancel(task.id), client.cancel(task.id))
        assert first.status.state is TaskState.CANCELED
        assert (await sender, second) == (first, first)
        streamed = [event async for batch in client.agent.send_streaming_message(request) for _, event in batch]
        assert streamed[0] == first
        assert client.engine.runs.working == 0  # its place is free for others
        release.set()


async def test_senders_of_runs_that_never_began_are_told_when_the_engine_stops() -> None:
    async with bounded(agent_of(hang), limits=Limits(runs_at_once=1)) as client:
        senders = [asyncio.create_task(client.send(text)) for text in ("one", "two")]
        while (await client.agent.list_tasks(ListTasksRequest())).total_size < 2:
            await asyncio.sleep(0)
        await client.stop()
        for sender in senders:
            with pytest.raises(UnavailableError, match="restarting"):
                await sender
        await client.restart()
        assert (client.engine.runs.working, client.engine.runs.waiting) == (1, 0)  # the other waits in the store


async def test_what_a_handler_left_running_cannot_write_after_its_end() -> None:
    ghosts: list[asyncio.Task[None]] = []
    haunt = asyncio.Event()

    async def handler(turn: Turn) -> None:
        async def ghost() -> None:
            await haunt.wait()
            await turn.status("boo")

        if not ghosts:
            ghosts.append(asyncio.create_task(ghost()))
            await asyncio.Event().wait()

    async with bounded(agent_of(handler)) as client:
        task = await client.start("go")
        while not ghosts:
            await asyncio.sleep(0)
        await client.stop()
        await client.restart()
        finished = await client.finished(task)
        haunt.set()
        await asyncio.wait(ghosts)
        assert await client.get(task) == finished
        ghosts[0].exception()
    assert [message.text for message in finished.history] == ["go"]


async def test_a_retry_after_a_lost_connection_finds_the_task_it_began() -> None:
    async with bounded(agent_of(hang)) as client:
        push = SendConfiguration(push_config=PushConfig("https://hook"))
        request = SendMessageRequest(client.message("go"), push)
        lost = asyncio.create_task(client.agent.send_message(request))
        await asyncio.sleep(0)
        lost.cancel()
        again = SendMessageRequest(request.message, SendConfiguration(return_immediately=True))
        await client.agent.send_message(again)
        assert (await client.agent.list_tasks(ListTasksRequest())).total_size == 1


async def test_agents_that_share_a_store_do_not_see_each_others_tasks() -> None:
    async def handler(turn: Turn) -> str:
        return (await turn.ask("?")).text

    store = await open_log()
    message = Message("same", Role.USER, (TextPart("hi"),))
    async with Engine(store, agent_of(handler, id="a"), agent_of(handler, id="b")) as engine:
        a, b = engine.agent("a"), engine.agent("b")
        mine: Any = await a.send_message(SendMessageRequest(message))
        theirs: Any = await b.send_message(SendMessageRequest(message))
        assert mine.id != theirs.id
        answer = Message("answer", Role.USER, (TextPart("x"),), None, mine.id)
        with pytest.raises(TaskNotFoundError):
            await b.send_message(SendMessageRequest(answer))


async def test_agents_that_share_a_store_keep_their_contexts_apart() -> None:
    """Neither reads what the other keeps for a context, or stumbles over the other's tasks in it."""

    async def handler(turn: Turn) -> Any:
        await turn.context.set(turn.text, True)
        kept = [name for name in ("a", "b") if await turn.context.get(name)]
        return {"kept": kept, "tasks": [task.id for task in await turn.context.tasks()]}

    store = await open_log()
    async with Engine(store, agent_of(handler, id="a"), agent_of(handler, id="b")) as engine:

        async def talk(agent_id: str) -> Any:
            message = Message(random_id(), Role.USER, (TextPart(agent_id),), "c-1")
            return await engine.agent(agent_id).send_message(SendMessageRequest(message))

        first, of_b, second = [await talk(agent_id) for agent_id in "aba"]
        assert [await engine.agent(agent_id).created_in(of_b.id) for agent_id in "ab"] == [None, Version.V1_0]
    assert [task.artifacts[0].parts[0].data for task in (of_b, second)] == [
        {"kept": ["b"], "tasks": []},
        {"kept": ["a"], "tasks": [first.id]},
    ]


async def test_statuses_and_steps_count_as_events_too() -> None:
    async def statuses(turn: Turn) -> None:
        while True:
            await turn.status("x")

    async def steps(turn: Turn) -> None:
        while True:
            await turn.step("x", lambda: 1)

    for handler in (statuses, steps):
        async with bounded(agent_of(handler), limits=Limits(events_per_task=50)) as client:
            failed = await client.send("go")
            assert failed.status.message.text == "The task has more than 50 events."


async def test_two_steps_of_one_name_at_the_same_time_are_an_error_that_names_the_cure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def handler(turn: Turn) -> Any:
        await asyncio.gather(turn.step("take", asyncio.sleep, 0), turn.step("take", asyncio.sleep, 0))

    async with bounded(agent_of(handler)) as client:
        assert (await client.send("go")).status.state is TaskState.FAILED
    assert "Two steps named 'take' run at the same time; give each a name of its own" in caplog.text


async def test_a_question_waits_for_the_steps_beside_it() -> None:
    taken: list[str] = []
    has_begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def look_up() -> str:
        has_begun.set()
        await may_go_on.wait()
        taken.append("looked up")
        return "found"

    async def ask(turn: Turn) -> str:
        await has_begun.wait()
        asyncio.get_running_loop().call_later(0.01, may_go_on.set)
        return (await turn.ask("Which?")).text

    async def handler(turn: Turn) -> Any:
        return await asyncio.gather(turn.step("look up", look_up), ask(turn))

    async with bounded(agent_of(handler)) as client:
        asked = await client.send("go")
        task = await client.send("this", task=asked)
    assert task.artifacts[0].parts[0].data == ["found", "this"]
    assert taken == ["looked up"]


async def test_a_turn_stays_on_its_own_loop_and_off_its_own_thread() -> None:
    def elsewhere(turn: Turn) -> None:
        asyncio.run(turn.status("from another loop"))

    async def waiting(turn: Turn) -> None:
        turn.wait(turn.status("for myself"))

    async def nameless(turn: Turn) -> None:
        turn.artifact("")

    for handler in (elsewhere, waiting, nameless):
        async with bounded(agent_of(handler)) as client:
            assert (await client.send("go")).status.state is TaskState.FAILED


async def test_a_list_goes_by_the_time_of_the_latest_status() -> None:
    async def handler(turn: Turn) -> None:
        await turn.status("begun")
        await asyncio.Event().wait()

    async with bounded(agent_of(handler)) as client:
        task = await client.start("go")
        await client.clock.advance(60)  # pyright: ignore[reportAttributeAccessIssue]
        begun = client.clock.now()
        asked = await client.start("more", task=task)
        assert asked.id == task.id
        head = (await client.store.tasks.orphaned(frozenset(), limit=9))[0]
        assert head.status_at <= begun


async def test_text_that_cannot_be_written_down_is_refused() -> None:
    async with bounded(agent_of(hang)) as client:
        message = Message("m", Role.USER, (TextPart("\ud800"),))
        with pytest.raises(InvalidParamsError, match="surrogate"):
            await client.agent.send_message(SendMessageRequest(message))


def test_a_handler_that_brings_the_process_down_at_once_is_begun_only_so_often(tmp_path: Path) -> None:
    script = f"""
import asyncio, os, sys
from parley import Agent
from parley.engine.clock import random_id
from parley.engine.engine import Engine
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendMessageRequest
from parley.stores.urls import opened
from parley.stores.sqlite.store import SqliteStore

agent = Agent("Bomb")

@agent.on_message
async def explode(turn):
    await asyncio.sleep(0.05 if not os.path.exists({str(tmp_path / "lit")!r}) else 0)
    open({str(tmp_path / "lit")!r}, "w").close()
    os._exit(9)

async def main():
    async with opened(SqliteStore({str(tmp_path / "x.db")!r})) as log, Engine(log, agent) as engine:
        task = await engine.agent("bomb").send_message(SendMessageRequest(Message("m", Role.USER, (TextPart("go"),))))
        print(task.status.state)

asyncio.run(main())
"""
    outcomes = []
    for _ in range(6):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
        outcomes.append(done.stdout.strip() or done.returncode)
    assert outcomes == [9, 9, 9, "failed", "failed", "failed"]
