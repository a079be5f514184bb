"""Tasks that sleep: they cost nothing, survive restarts, and one worker wakes them on time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from anyio import create_task_group

from parley import Agent, Turn
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.protocol.errors import LocalProtocolError, TaskNotCancelableError, UnavailableError
from parley.protocol.events import MessageAdded, SleepStarted, StatusUpdate, TaskClaimed
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import CancelTaskRequest, GetTaskRequest, SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Owner, Store, StoreUnavailableError, TaskFilter, TaskHead, TaskKey, Write
from parley.stores.memory import MemoryDatabase, MemoryStore
from parley.stores.sqlite.store import SqliteStore
from parley.testing import AgentClient, running, survives_crashes
from parley.testing.clock import FakeClock
from tests.changed_store import ChangedStore
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

DAY = 86_400.0
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "tasks.db")


def reminder(*sleeps: Any, **settings: Any) -> tuple[Agent, list[str]]:
    """An agent that says something, sleeps, and says something more; and the steps that it took."""
    agent, taken = Agent("Reminder", **settings), list[str]()

    async def take(name: str) -> str:  # a plain function would run in a thread, in real time
        taken.append(name)
        return name

    @agent.on_message
    async def remind(turn: Turn) -> AsyncGenerator[str]:
        yield await turn.step("begin", take, "I sleep. ")
        for sleep in sleeps:
            await turn.sleep(sleep)
        heard = ", ".join(message.text for message in turn.history)
        yield await turn.step("end", take, f"Awake; heard: {heard}")

    return agent, taken


async def head_of(client: AgentClient, task: Task) -> TaskHead:
    head = await client.store.tasks.head(TaskKey(client.caller.owner, task.id))
    assert head is not None
    return head


async def kinds(client: AgentClient, task: Task) -> list[type]:
    """What the log holds after the first five events."""
    key = TaskKey(client.caller.owner, task.id)
    return [type(event) for _, event in await client.store.tasks.events(key, after=5, limit=99)]


async def test_a_task_that_sleeps_is_a_row_and_nothing_else(store: Store) -> None:
    """Its sender and its readers wait with it, whatever the time that a run may take, and each step is taken once."""
    clock, (agent, taken) = FakeClock(NOW), reminder("3 days", timedelta(days=1))
    seen, answers = list[Any](), list[Task]()
    with fail_after(5):
        async with running(agent, store=store, clock=clock, limits=Limits(run_seconds=60)) as client:
            task = await client.start("milk")

            async def follow() -> None:
                seen.extend([event async for _, event in client.follow(task, after=0)])

            async def repeat() -> None:
                message = Message("message-1", Role.USER, (TextPart("milk"),))
                answer = await client.agent.send_message(SendMessageRequest(message), client.caller)
                assert isinstance(answer, Task)
                answers.append(answer)

            assert await client.asleep(task) == NOW + timedelta(days=3)
            head = await head_of(client, task)
            assert (head.state, head.holder, head.attempts) == (TaskState.WORKING, "", 0)
            assert client.engine.runs.all == ()
            assert client.engine.feeds.get(head.key) is None
            async with create_task_group() as callers:
                callers.start_soon(follow)
                callers.start_soon(repeat)
                for day in (2, 1):
                    assert taken == ["I sleep. "]
                    await clock.advance(day * DAY)
                while await client.asleep(task) != NOW + timedelta(days=4):
                    await asyncio.sleep(0)
                await clock.advance(DAY)
            task = await client.get(task)
    assert taken == ["I sleep. ", "Awake; heard: milk"]
    assert client.text(task) == "I sleep. Awake; heard: milk"
    assert answers == [task]
    states = [event.status.state for event in seen if isinstance(event, StatusUpdate)]
    assert states == [TaskState.WORKING, TaskState.COMPLETED]
    assert task.status.state is TaskState.COMPLETED


@pytest.mark.parametrize("end", [AgentClient.crash, AgentClient.stop])
@pytest.mark.parametrize("days_without_process", [1, 5])
async def test_a_restart_does_not_matter_to_a_task_that_sleeps(
    store: Store, end: Callable[[AgentClient], Any], days_without_process: int
) -> None:
    """It wakes on time, or at once if that time has passed; it was not a crash, so nothing counts as an attempt."""
    clock, (agent, taken) = FakeClock(NOW), reminder("3 days", on_restart="fail", run_attempts=1)
    with fail_after(5):
        async with running(agent, store=store, clock=clock) as client:
            task = await client.start("milk")
            await client.asleep(task)
            for _ in range(2):
                await end(client)
                await client.restart()
            assert taken == ["I sleep. "]
            await end(client)
            await clock.advance(days_without_process * DAY)
            await client.restart()
            if days_without_process == 1:
                assert await client.asleep(task) == NOW + timedelta(days=3)
                await clock.advance(2 * DAY)
            task = await client.finished(task)
    assert client.text(task) == "I sleep. Awake; heard: milk"
    assert len(taken) == 2


async def test_a_message_to_a_task_that_sleeps_joins_it(store: Store) -> None:
    """The task sleeps on until its time has come, and the sender waits for its end."""
    clock, (agent, _) = FakeClock(NOW), reminder("3 days")
    with fail_after(5):
        async with running(agent, store=store, clock=clock) as client:
            task = await client.start("milk")
            await client.asleep(task)
            assert (await client.start("bread", task=task)).status == (await client.get(task)).status
            assert await client.asleep(task) == NOW + timedelta(days=3)
            assert (await kinds(client, task))[-3:] == [SleepStarted, MessageAdded, SleepStarted]
            answers: list[Task] = []
            async with create_task_group() as callers:

                async def ask() -> None:
                    answers.append(await client.send("eggs", task=task))

                callers.start_soon(ask)
                while len((await client.get(task)).history) < 3:
                    await asyncio.sleep(0)
                await client.asleep(task)
                await clock.advance(3 * DAY)
    assert client.text(answers[0]) == "I sleep. Awake; heard: milk, bread, eggs"


async def test_a_task_that_sleeps_can_be_canceled(store: Store) -> None:
    """Also while it falls asleep; and then it does not wake."""
    clock, (agent, taken) = FakeClock(NOW), reminder("3 days")
    with fail_after(5):
        async with running(agent, store=store, clock=clock) as client:
            for number in range(8):
                task = await client.start("milk")
                for _ in range(number):
                    await asyncio.sleep(0)
                if number == 7:
                    await client.asleep(task)
                canceled = await client.cancel(task)
                assert canceled.status.state is TaskState.CANCELED
                assert (await head_of(client, task)).wake_at is None
                with pytest.raises(TaskNotCancelableError):
                    await client.cancel(task)
            await clock.advance(3 * DAY)
            assert await store.tasks.next_wake(after=NOW) is None
    assert not [text for text in taken if text.startswith("Awake")]


async def test_a_short_rest_passes_in_the_handler() -> None:
    """The run goes on, and nothing is claimed."""
    clock, (agent, _) = FakeClock(NOW), reminder(0, 1, "900 ms", NOW - timedelta(days=1))
    with fail_after(5):
        async with running(agent, clock=clock) as client:
            task = await client.start("milk")
            while not (await client.get(task)).artifacts:
                await asyncio.sleep(0)
            for _ in range(30):
                await asyncio.sleep(0)
                await clock.advance(0.1)
            task = await client.finished(task)
            assert not {TaskClaimed, SleepStarted} & set(await kinds(client, task))
    assert client.text(task) == "I sleep. Awake; heard: milk"


async def test_many_tasks_that_sleep_have_one_timer(store: Store) -> None:
    """It is set for the next one that is due, whichever began first; they wake as far as there is room."""
    clock, agent, woken = FakeClock(NOW), Agent("Sleeper"), list[str]()

    @agent.on_message
    async def sleep(turn: Turn) -> None:
        await turn.sleep(turn.text)
        woken.append(turn.text)

    with fail_after(10):
        async with running(agent, store=store, clock=clock, limits=Limits(runs_at_once=2)) as client:
            tasks = [await client.start("300 minutes")]
            await client.asleep(tasks[0])
            background = len(asyncio.all_tasks())
            for minutes in (*range(250, 200, -5), *range(100, 200, 5)):
                tasks.append(await client.start(f"{minutes} minutes"))
                await client.asleep(tasks[-1])
            assert len(asyncio.all_tasks()) == background
            await clock.advance(100 * 60)
            await client.finished(tasks[11])
            assert woken == ["100 minutes"]
            await clock.advance(200 * 60)
            for task in tasks:
                assert (await client.finished(task)).status.state is TaskState.COMPLETED
    assert len(woken) == len(tasks)


async def test_a_nonsensical_sleep_is_one_error_to_the_author_and_nothing_is_recorded() -> None:
    agent, errors = Agent("Sleeper"), list[str]()
    late = datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5)))

    @agent.on_message
    async def sleep(turn: Turn) -> None:
        for value in (-1, float("nan"), float("inf"), "soon", None, "3000000 days", NOW.replace(tzinfo=None), late):
            with pytest.raises(LocalProtocolError) as caught:
                await turn.sleep(value)  # pyright: ignore[reportArgumentType]
            errors.append(caught.value.message.partition(":")[0])

    async with running(agent) as client:
        task = await client.send("now")
        assert await kinds(client, task) == []
    assert task.status.state is TaskState.COMPLETED
    assert errors == [*["Invalid duration"] * 5, "Invalid sleep", "Invalid moment", "Invalid sleep"]


async def test_sleeps_side_by_side_end_in_their_own_time(store: Store) -> None:
    """Each begins when its code comes to it, and the task wakes for the first; those that overlap need names."""
    clock, agent, log = FakeClock(NOW), Agent("Sleeper"), list[tuple[str, int]]()

    @agent.on_message
    async def sleep(turn: Turn) -> str:
        async def branch(name: str, days: int) -> None:
            await turn.sleep(f"{days} days", name=name)
            await turn.step(f"note {name}", lambda: log.append((name, (clock.now() - NOW).days)))

        await asyncio.gather(branch("long", 3), branch("short", 1))
        with pytest.raises(LocalProtocolError, match="Two sleeps named 'sleep' are in progress"):
            await asyncio.gather(turn.sleep("2 ms"), turn.sleep("1 ms"))
        return "done"

    with fail_after(5):
        async with running(agent, store=store, clock=clock) as client:
            task = await client.start("now")
            assert await client.asleep(task) == NOW + timedelta(days=1)
            await clock.advance(DAY)
            while await client.asleep(task) != NOW + timedelta(days=3):
                await asyncio.sleep(0)
            assert log == [("short", 1)]
            await clock.advance(2 * DAY)
            assert client.text(await client.finished(task)) == "done"
    assert log == [("short", 1), ("long", 3)]


class Workers:
    """Engines on one database, each with a clock of its own that may be wrong."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._database = MemoryDatabase(now=lambda: self.clocks[0].monotonic())
        self._exits = AsyncExitStack()
        self.clocks = [FakeClock(NOW)]
        self.store = MemoryStore(self._database)

    async def __aenter__(self) -> Workers:
        self._exits.enter_context(fail_after(5))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._exits.aclose()

    async def join(self, name: str, *, wrong_by: float = 0) -> Engine:
        clock = FakeClock(self.clocks[0].now())
        clock.jump(wrong_by)
        self.clocks.append(clock)
        engine = Engine(MemoryStore(self._database), self._agent, clock=clock, worker=name, drain_seconds=0)
        return await self._exits.enter_async_context(engine)

    async def pass_time(self, seconds: float) -> None:
        for clock in self.clocks:
            await clock.advance(seconds)
        for _ in range(50):
            await asyncio.sleep(0)

    async def asleep(self, key: TaskKey) -> datetime | None:
        """When a task is to wake, once no worker holds it."""
        while (head := await self.store.tasks.head(key)) is None or head.holder:
            await asyncio.sleep(0)
        return head.wake_at


def request(text: str, task_id: str | None = None) -> SendMessageRequest:
    message = Message(f"m {text}", Role.USER, (TextPart(text),), None, task_id)
    return SendMessageRequest(message, SendConfiguration(return_immediately=True))


async def test_one_worker_wakes_a_task_whichever_let_it_sleep() -> None:
    """Also if that one has died; messages and cancels go through any worker."""
    agent, taken = reminder("1 hour")
    async with Workers(agent) as workers:
        one, two, _ = [await workers.join(name) for name in ("one", "two", "three")]
        tasks = [await one.agent(agent.id).send_message(request(text)) for text in ("milk", "eggs", "rice")]
        keys = [TaskKey(Owner("", ""), task.id) for task in tasks if isinstance(task, Task)]
        assert [await workers.asleep(key) for key in keys] == [NOW + timedelta(hours=1)] * 3
        await one.__aexit__()
        await two.agent(agent.id).send_message(request("bread", keys[0].task_id))
        await workers.asleep(keys[0])
        canceled = await two.agent(agent.id).cancel_task(CancelTaskRequest(keys[2].task_id))
        await workers.pass_time(3_600)
        while (await two.agent(agent.id).get_task(GetTaskRequest(keys[1].task_id))).status.state is TaskState.WORKING:
            await workers.pass_time(0.1)
    assert canceled.status.state is TaskState.CANCELED
    assert sorted(taken[3:]) == ["Awake; heard: eggs", "Awake; heard: milk, bread"]


@pytest.mark.parametrize("wrong_by", [-600, 600])
async def test_a_worker_with_a_wrong_clock_wakes_a_task_by_that_clock(wrong_by: float) -> None:
    """Ten minutes early, or late if no other worker is there; every step is taken once."""
    agent, taken = reminder("1 hour")
    async with Workers(agent) as workers:
        right = await workers.join("right")
        task = await right.agent(agent.id).send_message(request("milk"))
        assert isinstance(task, Task)
        key = TaskKey(Owner("", ""), task.id)
        await workers.asleep(key)
        await right.__aexit__()
        wrong = await workers.join("wrong", wrong_by=wrong_by)
        for minutes, steps in ((49, 1), (2, 1 if wrong_by < 0 else 2), (18, 1 if wrong_by < 0 else 2), (2, 2)):
            await workers.pass_time(minutes * 60)
            assert len(taken) == steps
        task = await wrong.agent(agent.id).get_task(GetTaskRequest(task.id))
    assert task.status.state is TaskState.COMPLETED


async def test_a_clock_that_is_set_forward_wakes_what_is_due(store: Store) -> None:
    """The timer does not notice, but claims are made from time to time."""
    clock, (agent, _) = FakeClock(NOW), reminder("3 days")
    with fail_after(5):
        async with running(agent, store=store, clock=clock, limits=Limits(run_seconds=None)) as client:
            task = await client.start("milk")
            await client.asleep(task)
            clock.jump(3 * DAY)
            while (await head_of(client, task)).wake_at is not None:
                await clock.advance(1)
            assert (await client.finished(task)).status.state is TaskState.COMPLETED


async def test_a_snapshot_of_a_task_that_sleeps_does_not_wake_it(store: Store) -> None:
    clock, agent = FakeClock(NOW), Agent("Talker")

    @agent.on_message
    async def talk(turn: Turn) -> AsyncGenerator[str]:
        for number in range(8):
            yield f"{number} "
        await turn.sleep("3 days")
        yield "done"

    with fail_after(5):
        async with running(agent, store=store, clock=clock, limits=Limits(snapshot_events=4)) as client:
            task = await client.start("milk")
            await client.asleep(task)
            key = (await head_of(client, task)).key
            while (stored := await store.tasks.read(key)) is None or stored.snapshot is None:
                await asyncio.sleep(0)
            assert await client.asleep(task) == NOW + timedelta(days=3)
            await clock.advance(3 * DAY)
            assert client.text(await client.finished(task)) == "0 1 2 3 4 5 6 7 done"


async def test_a_blocking_send_waits_for_a_task_that_sleeps_as_long_as_it_may() -> None:
    """Or until its server stops: then it is told which task to come back for."""
    agent, _ = reminder("3 days")
    with fail_after(5):
        async with running(agent) as client:
            sending = asyncio.create_task(client.send("milk"))
            while await client.store.tasks.next_wake(after=NOW) is None:
                await asyncio.sleep(0)
            (head,) = (await client.store.tasks.list(client.caller.owner, TaskFilter())).heads
            await client.stop()
            with pytest.raises(UnavailableError, match="the same message sent again gets the same task") as told:
                await sending
            assert told.value.details == {"taskId": head.key.task_id}
    with fail_after(5):
        async with running(agent, limits=Limits(wait_seconds=1)) as client:
            task = await client.send("milk")
            assert isinstance(task, Task)
            assert (client.text(task), task.status.state) == ("I sleep. ", TaskState.WORKING)


async def test_a_task_that_cannot_be_stored_when_it_falls_asleep_is_begun_again() -> None:
    """When the store takes writes again; and its sender hears of it at once."""

    class Broken(ChangedStore):
        is_broken = True

        def tasks_write(self, write: Write) -> Any:
            if self.is_broken and write.wake_at is not None:
                raised = asyncio.get_running_loop().create_future()
                raised.set_exception(StoreUnavailableError("The disk is full."))
                return raised
            return super().tasks_write(write)

        async def tasks_next_wake(self, *, after: datetime) -> datetime | None:
            if self.is_broken:
                raise StoreUnavailableError("The disk is gone.")
            return await super().tasks_next_wake(after=after)

    clock, (agent, _), broken = FakeClock(NOW), reminder("3 days"), Broken()
    with fail_after(5):
        async with running(agent, store=broken, clock=clock) as client:
            with pytest.raises(UnavailableError):
                await client.send("milk")
            broken.is_broken = False
            while (head := (await broken.tasks.list(client.caller.owner, TaskFilter())).heads[0]).wake_at is None:
                await clock.advance(10)
            await clock.advance(timedelta(days=3).total_seconds())
            task = await client.finished(head.key.task_id)
    assert task.status.state is TaskState.COMPLETED


async def test_a_sleep_waits_for_steps_beside_it_and_a_question_comes_before_it() -> None:
    """So that the step is not taken again, and the caller is asked at once; the sleep ends in its own time."""
    clock, agent, taken, gate = FakeClock(NOW), Agent("Busy"), list[str](), asyncio.Event()

    @agent.on_message
    async def work(turn: Turn) -> str:
        async def pay() -> None:
            await gate.wait()
            taken.append("paid")

        async def ask() -> str:
            await turn.step("pay", pay)
            return (await turn.ask("Really?")).text

        answer, _ = await asyncio.gather(ask(), turn.sleep("3 days"))
        return f"{answer} after {(clock.now() - NOW).days} days"

    with fail_after(5):
        async with running(agent, clock=clock) as client:
            task = await client.start("go")
            await clock.advance(10)
            assert [run.is_closed for run in client.engine.runs.all] == [False]
            gate.set()
            assert (await client.finished(task)).status.state is TaskState.INPUT_REQUIRED
            await clock.advance(DAY)
            await client.start("yes", task=task)
            assert await client.asleep(task) == NOW + timedelta(days=3)
            await clock.advance(2 * DAY)
            assert client.text(await client.finished(task)) == "yes after 3 days"
    assert taken == ["paid"]


async def test_an_agent_that_sleeps_and_draws_survives_crashes() -> None:
    agent = Agent("Reminder")

    @agent.on_message
    async def remind(turn: Turn) -> AsyncGenerator[str]:
        key = turn.uuid()
        yield "I sleep. "
        await turn.sleep("3 days")
        yield "Awake. " if turn.uuid() != key and 0 <= turn.random() < 1 else "?"
        await turn.sleep("100 ms")
        yield "Done."

    assert AgentClient.text(await survives_crashes(agent, "milk")) == "I sleep. Awake. Done."


async def test_runs_that_end_while_tasks_are_looked_up_make_room_for_others() -> None:
    """Between the look at what is due and the note that there is more, all runs end: nothing else would claim it."""
    clock, agent, store = FakeClock(NOW), Agent("Sleeper"), MemoryStore()
    orphaned = store.tasks.orphaned

    async def slowly(*arguments: Any, **options: Any) -> Any:
        found = await orphaned(*arguments, **options)
        for _ in range(100):
            await asyncio.sleep(0)
        return found

    store.tasks.orphaned = slowly  # type: ignore[method-assign]

    @agent.on_message
    async def sleep(turn: Turn) -> None:
        await turn.sleep("1 hour")
        for _ in range(20):
            await asyncio.sleep(0)

    with fail_after(10):
        limits = Limits(runs_at_once=2, lease_seconds=1_000_000)  # so that nothing else looks at that moment
        async with running(agent, store=store, clock=clock, limits=limits) as client:
            tasks = [await client.start("Go") for _ in range(7)]
            for task in tasks:
                await client.asleep(task)
            await clock.advance(3600)
            for task in tasks:
                assert (await client.finished(task)).status.state is TaskState.COMPLETED
