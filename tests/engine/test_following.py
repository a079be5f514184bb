"""Subscriptions: snapshots, cursors, slow readers, and reading lists."""

import asyncio
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.limits import Limits
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError, UnavailableError, UnsupportedOperationError
from parley.protocol.events import ArtifactUpdate, StatusUpdate
from parley.protocol.requests import GetTaskRequest, ListTasksRequest
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import TaskKey
from tests.bounded import bounded

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]


class Stepper:
    """An agent that says a number each time it is let go on."""

    def __init__(self, count: int = 5) -> None:
        self.count = count
        self.permits = asyncio.Semaphore(0)
        self.agent = Agent("Stepper")
        self.agent.on_message(self.handle)

    async def handle(self, turn: Turn) -> Any:
        for number in range(self.count):
            await self.permits.acquire()
            yield f"{number} "

    def go_on(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.permits.release()


def text_of(events: list[Any]) -> str:
    return "".join(e.artifact.parts[0].text for e in events if isinstance(e, ArtifactUpdate))


async def test_a_subscriber_that_joins_late_sees_the_whole_artifact() -> None:
    stepper = Stepper()
    async with bounded(stepper.agent) as client:
        task = await client.start("go")
        stepper.go_on(3)
        while client.text(await client.get(task)) != "0 1 2 ":
            await asyncio.sleep(0)
        following = client.follow(task)
        _, snapshot = await anext(following)
        stepper.go_on(2)
        rest = [event async for _, event in following]

    assert isinstance(snapshot, Task)
    assert client.text(snapshot) + text_of(rest) == "0 1 2 3 4 "
    assert rest[-1].status.state is TaskState.COMPLETED  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_cursor_resumes_exactly_there_at_every_place_running_and_finished() -> None:
    stepper = Stepper()
    async with bounded(stepper.agent) as client:
        task = await client.start("go")
        live = asyncio.create_task(_collect(client.follow(task, after=0)))
        stepper.go_on(5)
        numbered = await live
        for place, (seq, _) in enumerate(numbered):
            assert [pair async for pair in client.follow(task, after=seq)] == numbered[place + 1 :]
        assert [pair async for pair in client.follow(task, after=0)] == numbered


async def _collect(events: Any) -> list[Any]:
    return [event async for event in events]


async def test_a_cursor_beyond_the_log_is_refused() -> None:
    stepper = Stepper(0)
    async with bounded(stepper.agent) as client:
        task = await client.send("go")
        for cursor in (-1, 99):
            with pytest.raises(InvalidParamsError):
                await anext(client.follow(task, after=cursor))


async def test_a_finished_task_without_a_cursor_is_refused_in_1_0_and_tells_its_end_in_0_x() -> None:
    stepper = Stepper(0)
    async with bounded(stepper.agent) as client:
        task = await client.send("go")
        with pytest.raises(UnsupportedOperationError):
            await anext(client.follow(task))
        older = client.as_caller(version=Version.V0_3)
        assert [event async for _, event in older.follow(task)] == [StatusUpdate(task.id, task.context_id, task.status)]


async def test_a_replay_does_not_stop_at_a_question_of_the_past() -> None:
    agent = Agent("Asker")

    @agent.on_message
    async def ask(turn: Turn) -> str:
        return (await turn.ask("?")).text

    async with bounded(agent) as client:
        asked = await client.send("go")
        waiting = asyncio.create_task(_collect(client.follow(asked)))
        await asyncio.sleep(0)
        await client.send("answer", task=asked)
        states = [e.status.state for _, e in [x async for x in client.follow(asked, after=0)] if hasattr(e, "status")]
        live = await waiting

    assert states == ["working", "input-required", "working", "completed"]
    assert isinstance(live[0][1], Task)
    assert live[-1][1].status.state is TaskState.COMPLETED


async def test_two_hundred_subscribers_see_the_same_while_one_never_reads() -> None:
    stepper = Stepper(300)
    async with bounded(stepper.agent, limits=Limits(events_in_memory=16, page_events=10)) as client:
        task = await client.start("go")
        stalled = client.follow(task, after=0)
        await anext(stalled)
        readers = [asyncio.create_task(_collect(client.follow(task, after=0))) for _ in range(199)]
        stepper.go_on(300)
        seen = await asyncio.gather(*readers)
        assert all(events == seen[0] for events in seen)
        assert text_of([event for _, event in seen[0]]) == "".join(f"{n} " for n in range(300))
        # The one that stalled lost nothing either: it reads on from the store.
        late = [event async for _, event in stalled]
        assert text_of(late) == text_of([event for _, event in seen[0]])


async def test_a_slow_reader_of_a_task_that_is_deleted_meanwhile_is_told_so() -> None:
    stepper = Stepper(50)
    async with bounded(stepper.agent, limits=Limits(events_in_memory=4, page_events=10)) as client:
        task = await client.start("go")
        slow = client.follow(task, after=0)
        await anext(slow)
        stepper.go_on(50)
        while (await client.get(task)).status.state is not TaskState.COMPLETED:
            await asyncio.sleep(0)
        assert await client.store.tasks.delete(TaskKey(client.caller.owner, task.id))

        with pytest.raises(TaskNotFoundError):
            _ = [event async for event in slow]


async def test_a_reader_that_goes_away_takes_nothing_with_it() -> None:
    stepper = Stepper(2)
    async with bounded(stepper.agent) as client:
        following = client.stream("go")
        task = await anext(following)
        await following.aclose()  # pyright: ignore[reportAttributeAccessIssue]
        stepper.go_on(2)
        assert client.text(await client.finished(task)) == "0 1 "


async def test_stopping_the_engine_cuts_readers_off_with_an_error() -> None:
    stepper = Stepper(2)
    async with bounded(stepper.agent) as client:
        task = await client.start("go")
        following = client.follow(task)
        await anext(following)
        reading = asyncio.create_task(_collect(following))
        await asyncio.sleep(0)
        await client.stop()
        with pytest.raises(UnavailableError, match="subscribe again"):
            await reading


async def test_a_list_is_newest_first_and_pages_without_repeating() -> None:
    stepper = Stepper(0)
    async with bounded(stepper.agent) as client:
        sent = []
        for _ in range(5):
            sent.append(await client.send("go"))
            await client.clock.advance(1)  # pyright: ignore[reportAttributeAccessIssue]
        listed, token = [], None
        while True:
            page = await client.agent.list_tasks(ListTasksRequest(page_size=2, page_token=token))
            listed.extend(task.id for task in page.tasks)
            assert (page.page_size, page.total_size) == (2, 5)
            if not (token := page.next_page_token):
                break
        assert listed == [task.id for task in reversed(sent)]


@pytest.mark.embedded
async def test_a_page_of_large_tasks_is_shorter_and_the_next_goes_on() -> None:
    agent = Agent("Verbose")

    @agent.on_message
    async def talk(turn: Turn) -> str:
        return "x" * 1_000

    async with bounded(agent, limits=Limits(page_bytes=1_500)) as client:
        ids = [(await client.send("talk")).id for _ in range(5)]
        seen: list[list[str]] = []
        token: str | None = None
        while token != "":
            request = ListTasksRequest(include_artifacts=True, page_token=token)
            page = await client.agent.list_tasks(request, client.caller)
            seen.append([task.id for task in page.tasks])
            token = page.next_page_token
            assert page.total_size == 5
    assert [len(page) for page in seen] == [2, 2, 1]
    assert sorted(id for page in seen for id in page) == sorted(ids)


async def test_a_list_shows_artifacts_and_history_only_as_asked() -> None:
    stepper = Stepper(1)
    stepper.go_on()
    async with bounded(stepper.agent) as client:
        task = await client.send("go")
        (plain,) = (await client.agent.list_tasks(ListTasksRequest(history_length=0))).tasks
        assert (plain.artifacts, plain.history) == ((), ())
        request = ListTasksRequest(
            include_artifacts=True,
            state=TaskState.COMPLETED,
            context_id=task.context_id,
            status_timestamp_after=client.clock.now(),
        )
        (full,) = (await client.agent.list_tasks(request)).tasks
        assert full == task
        assert (await client.agent.list_tasks(ListTasksRequest(state=TaskState.FAILED))).tasks == ()


@pytest.mark.parametrize("request_", [ListTasksRequest(page_size=0), ListTasksRequest(page_size=101)])
async def test_a_page_size_out_of_range_is_refused(request_: ListTasksRequest) -> None:
    async with bounded(Stepper().agent) as client:
        with pytest.raises(InvalidParamsError):
            await client.agent.list_tasks(request_)


@pytest.mark.parametrize(
    "token", ["nonsense", "bm9uc2Vuc2U=", "WzEsMl0=", "é", "!WzEsICJ4Il0=", "Wzk5OTk5OTk5OTk5OTk5OTk5OTksIngiXQ=="]
)
async def test_a_page_token_that_is_not_ours_is_refused(token: str) -> None:
    async with bounded(Stepper().agent) as client:
        with pytest.raises(InvalidParamsError) as caught:
            await client.agent.list_tasks(ListTasksRequest(page_token=token))
        assert caught.value.path == "$.pageToken"


async def test_a_long_task_gets_a_snapshot_and_reads_the_same() -> None:
    stepper = Stepper(50)
    stepper.go_on(50)
    async with bounded(stepper.agent, limits=Limits(snapshot_events=10, events_in_memory=8)) as client:
        task = await client.send("go")
        while (stored := await client.store.tasks.read(_key(client, task))) is not None and stored.snapshot is None:
            await asyncio.sleep(0)
        assert stored is not None
        assert stored.snapshot == task
        assert stored.events == ()
        assert await client.agent.get_task(GetTaskRequest(task.id)) == task


def _key(client: Any, task: Task) -> Any:
    from parley.stores.interface import TaskKey

    return TaskKey(client.caller.owner, task.id)
