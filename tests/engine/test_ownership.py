"""Ownership: several workers on one store, of which one at a time holds a task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from random import Random
from types import NoneType
from typing import Any

import pytest
from anyio import create_task_group, lowlevel

from parley import Agent, Recovery, Turn
from parley.cluster.hints import Hint, HintKind, LocalHints
from parley.engine.credentials import CREDENTIALS
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.reading.feed import Feeds
from parley.engine.reading.following import Follower
from parley.engine.webhooks.deliveries import Deliveries
from parley.engine.webhooks.notifications import Notification
from parley.protocol.authorization import GivenCredential, encode_credential
from parley.protocol.errors import InternalError, TaskNotCancelableError, TaskNotFoundError
from parley.protocol.events import StatusUpdate, TaskClaimed, TaskCreated, TaskEvent
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.push import PushConfig
from parley.protocol.requests import (
    CancelTaskRequest,
    CreatePushConfigRequest,
    GetTaskRequest,
    SendConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.stores.interface import NewTask, Owner, StoreUnavailableError, TaskFilter, TaskKey, Write
from parley.stores.memory import MemoryDatabase, MemoryStore
from parley.testing.clock import FakeClock
from tests.deadlines import fail_after

pytestmark = pytest.mark.anyio

KEY = TaskKey(Owner("", "ann"), "t-1")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def events_of_a_life(claims: int) -> list[TaskEvent]:
    working = StatusUpdate(KEY.task_id, "c", TaskStatus(TaskState.WORKING, timestamp=NOW))
    claimed = [event for number in range(claims) for event in (TaskClaimed(KEY.task_id, "c", f"w-{number}"), working)]
    ended = StatusUpdate(KEY.task_id, "c", TaskStatus(TaskState.COMPLETED, timestamp=NOW))
    return [TaskCreated(KEY.task_id, "c", TaskStatus(TaskState.SUBMITTED, timestamp=NOW)), *claimed, ended]


def follower(feeds: Feeds, after: int = 0) -> Follower:
    async def start(follower: Follower) -> None:
        follower.use(KEY, "a")
        follower.begin(after=after)

    return Follower(feeds, start)


@pytest.mark.parametrize("seed", range(20))
async def test_a_reader_sees_every_event_once_whichever_worker_wrote_it(seed: int) -> None:
    """Events of this worker are published; of others there is a hint, perhaps late, or none until the poller looks."""
    chance, log, seen = Random(seed), MemoryStore(), list[list[int]]()
    feeds = Feeds(log, Limits(events_in_memory=2, page_events=3))
    events = events_of_a_life(15)

    async def read() -> None:
        seen.append([seq async for batch in follower(feeds) for seq, _ in batch])

    with fail_after(5):
        async with create_task_group() as readers:
            kept = feeds.use(KEY, "a")
            seq = 0
            while seq < len(events):
                some = tuple(events[seq : seq + chance.randint(1, 3)])
                state = TaskState.COMPLETED if seq + len(some) == len(events) else TaskState.WORKING
                new = NewTask("a", "c", Version.V1_0, NOW) if seq == 0 else None
                await log.tasks.write(Write(KEY, seq, some, state, NOW, new=new))
                match chance.randrange(4):
                    case 0 | 1:
                        kept.publish(seq + 1, some)
                    case 2:
                        kept.note(chance.randint(0, seq + len(some)))
                    case _:
                        await feeds.poll(lambda key: chance.random() < 0.5)
                seq += len(some)
                if seq > 3 and chance.random() < 0.1:
                    readers.start_soon(read)
                await lowlevel.checkpoint()
            readers.start_soon(read)
            await lowlevel.checkpoint()
            while kept.users > 1:  # by readers
                await feeds.poll(lambda key: False)
                await lowlevel.checkpoint()
    whole = [seq for seq, event in enumerate(events, 1) if isinstance(event, StatusUpdate)]
    assert all(one == whole for one in seen)


async def test_a_hint_of_events_that_do_not_exist_ends_no_stream() -> None:
    """Anything on the bus may say anything; and after a failover, the log may be shorter than a hint said."""
    log, events = MemoryStore(), events_of_a_life(1)
    feeds = Feeds(log, Limits())
    await log.tasks.write(
        Write(KEY, 0, tuple(events[:3]), TaskState.WORKING, NOW, new=NewTask("a", "c", Version.V1_0, NOW))
    )
    reader = follower(feeds)
    with fail_after(5):
        assert [seq for seq, _ in await anext(reader)] == [3]
        feed = feeds.get(KEY)
        assert feed is not None
        feed.note(1_000_000)
        waiting = asyncio.create_task(anext(reader))
        while not feed.is_awaited:
            await lowlevel.checkpoint()
        await log.tasks.write(Write(KEY, 3, tuple(events[3:]), TaskState.COMPLETED, NOW))
        feed.publish(4, events[3:])
        assert [seq for seq, _ in await waiting] == [4]


async def test_a_reader_gets_what_was_written_before_it_is_cut_off() -> None:
    """The last run of a worker that stops may end at the very moment at which all readers are cut off."""
    log, events = MemoryStore(), events_of_a_life(1)
    feeds = Feeds(log, Limits())
    await log.tasks.write(
        Write(KEY, 0, tuple(events[:3]), TaskState.WORKING, NOW, new=NewTask("a", "c", Version.V1_0, NOW))
    )
    reader = follower(feeds)
    with fail_after(5):
        assert [seq for seq, _ in await anext(reader)] == [3]
        feed = feeds.get(KEY)
        assert feed is not None
        waiting = asyncio.create_task(anext(reader))
        while not feed.is_awaited:
            await lowlevel.checkpoint()
        await log.tasks.write(Write(KEY, 3, tuple(events[3:]), TaskState.COMPLETED, NOW))
        feed.publish(4, events[3:])
        feeds.fail_all()
        assert [seq for seq, _ in await waiting] == [4]


async def test_a_reader_of_a_task_that_another_worker_deleted_is_told() -> None:
    log = MemoryStore()
    feeds = Feeds(log, Limits())
    await log.tasks.write(
        Write(
            KEY, 0, tuple(events_of_a_life(0)[:1]), TaskState.SUBMITTED, NOW, new=NewTask("a", "c", Version.V1_0, NOW)
        )
    )

    async def read() -> None:
        with pytest.raises(TaskNotFoundError):
            async for _ in follower(feeds, after=1):
                pass

    with fail_after(5):
        async with create_task_group() as readers:
            readers.start_soon(read)
            await lowlevel.checkpoint()
            await log.tasks.delete(KEY)
            await feeds.poll(lambda key: False)


def test_hints_reach_all_listeners_until_they_stop() -> None:
    hints, heard = LocalHints(), list[Hint]()
    news = Hint(HintKind.EVENTS, KEY, 3)
    stop = hints.listen(heard.append)
    hints.publish(news)
    stop()
    hints.publish(news)
    assert heard == [news]


# --- several workers --------------------------------------------------------------------------------------------------


class Gone:
    """A part of a store that a worker cannot reach any more."""

    def __getattr__(self, name: str) -> Any:
        async def refuse(*values: Any, **named: Any) -> None:
            raise StoreUnavailableError("The network is gone")

        return refuse


class Teller:
    """Tells webhooks, for one worker."""

    def __init__(self, worker: str, told: list[tuple[str, int]]) -> None:
        self._worker = worker
        self._told = told

    async def send(self, notification: Notification) -> None:
        self._told.append((self._worker, notification.seq))


class Worker:
    """One engine with its own handle on the database."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.agent = engine.agent("agent")

    def seem_dead(self) -> Callable[[], None]:
        """Let the lease run out, although runs go on, until the returned function is called."""
        store: Any = self.engine.store
        parts = store.leases, store.inbox
        store.leases = store.inbox = Gone()

        def come_back() -> None:
            store.leases, store.inbox = parts

        return come_back

    def send(self, text: str, id: str, task: str | None = None, **options: Any) -> asyncio.Task[Any]:
        message = Message(id, Role.USER, (TextPart(text),), task_id=task)
        configuration = SendConfiguration(**options)
        return asyncio.create_task(self.agent.send_message(SendMessageRequest(message, configuration)))

    async def start(self, text: str, id: str) -> Task:
        task = await self.send(text, id, return_immediately=True)
        assert isinstance(task, Task)
        return task

    async def get(self, task: Task) -> Task:
        return await self.agent.get_task(GetTaskRequest(task.id))

    def cancel(self, task: Task) -> asyncio.Task[Task]:
        return asyncio.create_task(self.agent.cancel_task(CancelTaskRequest(task.id)))

    def follow(self, task: Task) -> asyncio.Task[list[TaskState]]:
        async def states() -> list[TaskState]:
            batches = self.agent.subscribe_to_task(SubscribeToTaskRequest(task.id), after=0)
            return [e.status.state async for batch in batches for _, e in batch if isinstance(e, StatusUpdate)]

        return asyncio.create_task(states())


class Workers:
    """Workers on one database, with one clock; they poll unless there are hints."""

    def __init__(self, handler: Any, *, hints: bool = False, limits: Limits | None = None, **options: Any) -> None:
        self.clock = FakeClock()
        self.agent = Agent("Agent", id="agent", **options)
        self.agent.on_message(handler)
        self._database = MemoryDatabase(now=self.clock.monotonic)
        self._hints = LocalHints() if hints else None
        self._limits = limits
        self._exits = AsyncExitStack()
        self.store = MemoryStore(self._database)
        self.told = list[tuple[str, int]]()
        """Which worker told a webhook of which event."""

    async def __aenter__(self) -> Workers:
        self._exits.enter_context(fail_after(5))
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._exits.aclose()

    async def join(self, name: str) -> Worker:
        store = MemoryStore(self._database)
        deliveries = Deliveries(store, Teller(name, self.told), clock=self.clock, worker=name)
        await self._exits.enter_async_context(deliveries)
        engine = Engine(
            store,
            self.agent,
            deliveries=deliveries,
            clock=self.clock,
            hints=self._hints,
            limits=self._limits,
            drain_seconds=0,
        )
        await self._exits.enter_async_context(engine)
        return Worker(engine)

    async def until(self, is_so: Callable[[], object], *, seconds: float = 0.5) -> None:
        """Let time pass until something is so."""
        while not is_so():
            await self.clock.advance(seconds)

    async def result(self, *tasks: asyncio.Task[Any]) -> Any:
        await self.until(lambda: all(task.done() for task in tasks))
        return tasks[0].result() if len(tasks) == 1 else [task.result() for task in tasks]


def text_of(task: Task) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts if isinstance(part, TextPart))


async def test_a_worker_that_was_believed_dead_abandons_its_run_and_harms_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its sender and its readers get what the worker that took over has written."""
    begun, gates, steps = list[str](), [asyncio.Event(), asyncio.Event()], list[str]()

    async def handler(turn: Turn) -> Any:
        number = len(begun)
        begun.append(turn.text)
        yield "one "
        try:
            await gates[number].wait()
            await turn.step("pay", lambda: steps.append(f"run {number}"))
        finally:
            ended.append(number)
        yield "two"

    ended = list[int]()
    async with Workers(handler) as workers:
        old, new = await workers.join("old"), await workers.join("new")
        sending = old.send("go", "m-1")
        await workers.until(lambda: begun)
        (head,) = (await workers.store.tasks.list(Owner("", ""), TaskFilter())).heads
        task = await new.get(await old.get(Task(head.key.task_id, "", TaskStatus(TaskState.WORKING))))
        reading = old.follow(task)
        old.seem_dead()
        await workers.until(lambda: len(begun) == 2)
        gates[0].set()  # the old worker wakes up and would take its step
        await workers.until(lambda: ended == [0])
        assert steps == []
        gates[1].set()
        finished, states = await workers.result(sending, reading)
        assert (text_of(finished), steps) == ("one two", ["run 1"])
        assert states == [TaskState.WORKING, TaskState.COMPLETED]
        assert await old.get(task) == await new.get(task) == finished
        head = await workers.store.tasks.head(head.key)
        assert head is not None
        assert head.holder == ""
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_write_to_a_task_that_another_worker_claimed_ends_the_run_and_not_its_readers() -> None:
    """Also if the lease of the former holder is good: what counts is the log."""
    begun, gates = list[str](), [asyncio.Event(), asyncio.Event()]

    async def handler(turn: Turn) -> Any:
        number = len(begun)
        begun.append(turn.text)
        await gates[number].wait()
        yield f"run {number}"

    async with Workers(handler) as workers:
        worker = await workers.join("worker")
        task = await worker.start("go", "m-1")
        waiting, reading = worker.send("go", "m-1"), worker.follow(task)
        await workers.until(lambda: begun)
        head = await workers.store.tasks.head(TaskKey(Owner("", ""), task.id))
        assert head is not None
        claim = TaskClaimed(task.id, task.context_id, "ghost")
        claiming = Write(head.key, head.last_seq, (claim,), head.state, NOW, expected_holder="worker", holder="ghost")
        await workers.store.tasks.write(claiming)
        gates[0].set()
        await workers.until(lambda: len(begun) == 2)
        gates[1].set()
        finished, states = await workers.result(waiting, reading)
        assert (text_of(finished), states[-1]) == ("run 1", TaskState.COMPLETED)


@pytest.mark.parametrize("hints", [False, True])
async def test_two_workers_that_get_one_message_at_once_begin_one_run(hints: bool) -> None:
    begun, gate = list[str](), asyncio.Event()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        await gate.wait()
        return "done"

    async with Workers(handler, hints=hints) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        sends = [worker.send("go", "m-1") for worker in (one, two, one, two)]
        await workers.until(lambda: begun)
        gate.set()
        first, *others = await workers.result(*sends)
        assert others == [first] * 3
        assert (begun, text_of(first)) == (["go"], "done")


@pytest.mark.parametrize("hints", [False, True])
async def test_a_message_and_a_cancel_reach_a_run_at_another_worker(hints: bool) -> None:
    heard, ended = asyncio.Event(), asyncio.Event()

    async def handler(turn: Turn) -> Any:
        try:
            while len(turn.history) < 2:
                await asyncio.sleep(0)
            heard.set()
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Workers(handler, hints=hints) as workers:
        holder, other = await workers.join("holder"), await workers.join("other")
        task = await holder.start("go", "m-1")
        more = [worker.send("more", "m-2", task.id, return_immediately=True) for worker in (other, other, holder)]
        told = await workers.result(*more)
        await heard.wait()
        assert [[message.message_id for message in task.history] for task in told] == [["m-1", "m-2"]] * 3
        canceled = await workers.result(other.cancel(task))
        assert (canceled.status.state, ended.is_set()) == (TaskState.CANCELED, True)
        with pytest.raises(TaskNotCancelableError):
            await workers.result(other.cancel(task))
        head = await workers.store.tasks.head(TaskKey(Owner("", ""), task.id))
        assert head is not None
        assert (head.holder, list(await workers.store.inbox.items("holder"))) == ("", [])


async def test_a_message_that_waits_for_the_holder_while_the_same_one_ends_the_task_is_a_repeat() -> None:
    """A caller that got no answer sends the message again, elsewhere. It must not hear that the task takes no more."""

    async def handler(turn: Turn) -> str:
        while len(turn.history) < 2:
            await asyncio.sleep(0)
        return "".join(message.text for message in turn.history)

    async with Workers(handler) as workers:
        holder, other = await workers.join("holder"), await workers.join("other")
        task = await holder.start("go", "m-1")
        waiting = other.send("more", "m-2", task.id)
        while not await workers.store.inbox.items(holder.engine.lease.worker):
            await asyncio.sleep(0)
        assert text_of(await holder.send("more", "m-2", task.id)) == "gomore"  # before it has looked into its inbox
        assert text_of(await workers.result(waiting)) == "gomore"


async def test_a_credential_that_two_workers_get_at_once_is_kept_once() -> None:
    """The worker without the run forwards its copy of the message, and the holder knows the message already."""
    given, gate = list[str](), asyncio.Event()

    async def handler(turn: Turn) -> str:
        given.append((await turn.require_auth("Your key, please")).credential)
        await gate.wait()
        return "done"

    async with Workers(handler, hints=True) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        task = await one.send("go", "m-1")
        answer = Message(
            "m-2",
            Role.USER,
            (TextPart("here"),),
            task_id=task.id,
            metadata=encode_credential(GivenCredential("secret")),
        )
        put, sends = two.engine.credentials.put, list[asyncio.Task[Any]]()

        async def put_and_pause(key: TaskKey, credential: GivenCredential) -> str:
            kept_as = await put(key, credential)
            sends.append(asyncio.create_task(one.agent.send_message(SendMessageRequest(answer))))
            while not given:
                await lowlevel.checkpoint()
            return kept_as

        two.engine.credentials.put = put_and_pause
        sends.append(asyncio.create_task(two.agent.send_message(SendMessageRequest(answer))))
        await workers.until(lambda: given)
        gate.set()
        first, second = await workers.result(*sends)
        assert (first, given, text_of(first)) == (second, ["secret"], "done")
        assert await workers.store.records.count(CREDENTIALS, "") == 0


async def test_a_message_to_a_task_whose_worker_has_died_is_taken_by_the_one_that_gets_it() -> None:
    begun = list[str]()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        while len(turn.history) < 2:
            await asyncio.sleep(0)
        return "".join(message.text for message in turn.history)

    async with Workers(handler) as workers:
        dead = await workers.join("dead")
        task = await dead.start("go", "m-1")
        await workers.until(lambda: begun)
        dead.seem_dead()
        other = await workers.join("other")
        sending = other.send("more", "m-2", task.id)  # is left for the worker that looks alive
        assert text_of(await workers.result(sending)) == "gomore"
        assert begun == ["go", "go"]


async def test_what_a_worker_leaves_behind_when_it_stops_goes_on_at_once_at_another() -> None:
    begun = list[str]()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        if len(begun) == 1:
            await asyncio.Event().wait()
        return "done"

    async with Workers(handler) as workers:
        first = await workers.join("first")
        task = await first.start("go", "m-1")
        await workers.until(lambda: begun)
        await first.engine.drain()
        head = await workers.store.tasks.head(TaskKey(Owner("", ""), task.id))
        assert head is not None
        assert (head.holder, head.attempts) == ("", 0)
        second = await workers.join("second")
        assert (await workers.result(second.follow(task)))[-1] is TaskState.COMPLETED
        assert workers.clock.monotonic() - FakeClock().monotonic() < Limits().lease_seconds


async def test_a_worker_claims_only_what_it_has_room_to_run() -> None:
    begun, gate = list[str](), asyncio.Event()

    async def handler(turn: Turn) -> None:
        begun.append(turn.text)
        await gate.wait()

    async with Workers(handler, limits=Limits(runs_at_once=2)) as workers:
        first = await workers.join("first")
        tasks = [await first.start(f"{number}", f"m-{number}") for number in range(5)]
        await first.engine.drain()
        heads = [await workers.store.tasks.head(TaskKey(Owner("", ""), task.id)) for task in tasks]
        assert [head.attempts for head in heads if head] == [0] * 5
        await workers.join("second")
        await workers.until(lambda: len(begun) == 4)
        await workers.clock.advance(10)
        heads = [await workers.store.tasks.head(TaskKey(Owner("", ""), task.id)) for task in tasks]
        assert sorted(head.holder for head in heads if head) == [""] * 3 + ["second"] * 2
        gate.set()
        await workers.until(lambda: len(begun) == 7)


async def test_the_work_of_a_worker_that_appears_while_another_one_looks_for_tasks_is_left_to_it() -> None:
    """A read of the store may take seconds, for example while its connection is replaced."""
    begun = list[str]()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        await asyncio.Event().wait()
        return "never"

    async with Workers(handler, on_restart=Recovery.FAIL) as workers:
        old = await workers.join("old")
        tasks: Any = old.engine.store.tasks
        orphaned, looks, may_look = tasks.orphaned, asyncio.Event(), asyncio.Event()

        async def slow(*values: Any, **named: Any) -> Any:
            looks.set()
            await may_look.wait()
            return await orphaned(*values, **named)

        tasks.orphaned = slow
        old.engine.claims.claim_now()
        await looks.wait()
        new = await workers.join("new")
        task = await new.start("go", "m-1")
        await workers.until(lambda: begun)
        may_look.set()
        for _ in range(20):
            await workers.clock.advance(0.5)
        assert (await new.get(task)).status.state is TaskState.WORKING
        head = await workers.store.tasks.head(TaskKey(Owner("", ""), task.id))
        assert head is not None
        assert (head.holder, head.attempts) == ("new", 1)


async def test_a_store_that_is_away_for_longer_than_a_lease_costs_no_worker_its_tasks() -> None:
    """When it is back, all leases have expired, and the first worker that reaches it waits for the others."""
    begun, heard, gate = list[str](), list[str](), asyncio.Event()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        await gate.wait()
        heard.extend([message.text for message in turn.history])
        return "done"

    async with Workers(handler, on_restart=Recovery.FAIL) as workers:
        first, second, third = [await workers.join(name) for name in ("first", "second", "third")]
        tasks = [await worker.start("go", f"m-{number}") for number, worker in enumerate((first, second, third))]
        await workers.until(lambda: len(begun) == 3)
        back_again = [worker.seem_dead() for worker in (first, second, third)]
        await workers.clock.advance(3 * Limits().lease_seconds)
        back_again[0]()
        sending = first.send("more", "m-3", tasks[1].id, return_immediately=True)
        for _ in range(8):
            await workers.clock.advance(0.5)
        assert not sending.done()
        for come_back in back_again[1:]:
            come_back()
        await workers.result(sending)
        await workers.clock.advance(3 * Limits().lease_seconds)
        for task, holder in zip(tasks, ("first", "second", "third"), strict=True):
            head = await workers.store.tasks.head(TaskKey(Owner("", ""), task.id))
            assert head is not None
            assert (head.state, head.holder, head.attempts) == (TaskState.WORKING, holder, 1)
        gate.set()
        finished = await workers.result(*[first.follow(task) for task in tasks])
        assert finished == [[TaskState.WORKING, TaskState.COMPLETED]] * 3
        assert (len(begun), sorted(heard)) == (3, ["go", "go", "go", "more"])


async def test_a_worker_that_does_not_come_back_with_the_store_loses_its_tasks_after_a_lease() -> None:
    begun = list[str]()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        if len(begun) == 1:
            await asyncio.Event().wait()
        return "done"

    async with Workers(handler) as workers:
        dead, other = await workers.join("dead"), await workers.join("other")
        task = await dead.start("go", "m-1")
        await workers.until(lambda: begun)
        dead.seem_dead()
        come_back = other.seem_dead()
        await workers.clock.advance(3 * Limits().lease_seconds)
        come_back()
        back_at = workers.clock.monotonic()
        assert (await workers.result(other.follow(task)))[-1] is TaskState.COMPLETED
        assert workers.clock.monotonic() - back_at <= Limits().lease_seconds * 1.2 + 1


@pytest.mark.parametrize(("away", "back_before"), [(3, 0), (3, 1), (0.75, 0)])
async def test_a_worker_that_starts_when_the_store_is_back_leaves_live_workers_their_tasks(
    away: float, back_before: int
) -> None:
    """It knows of no outage, but finds leases that have expired or soon will: all, or those of workers that come later.

    The time is in leases.
    """
    begun, gate = list[str](), asyncio.Event()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        await gate.wait()
        return "done"

    async with Workers(handler, on_restart=Recovery.FAIL) as workers:
        names = ("first", "second", "third")
        before = [await workers.join(name) for name in names]
        tasks = [await worker.start("go", f"m-{number}") for number, worker in enumerate(before)]
        await workers.until(lambda: len(begun) == 3)
        back_again = [worker.seem_dead() for worker in before]
        await workers.clock.advance(away * Limits().lease_seconds)
        for come_back in back_again[:back_before]:
            come_back()
            await workers.clock.advance(Limits().lease_seconds / 2)
        new = await workers.join("new")
        for come_back in back_again[back_before:]:
            await workers.clock.advance(1)
            come_back()
        sending = new.send("more", "m-4", tasks[2].id, return_immediately=True)
        await workers.result(sending)
        await workers.clock.advance(3 * Limits().lease_seconds)
        for task, holder in zip(tasks, names, strict=True):
            head = await workers.store.tasks.head(TaskKey(Owner("", ""), task.id))
            assert head is not None
            assert (head.state, head.holder, head.attempts) == (TaskState.WORKING, holder, 1)
        gate.set()


async def test_a_store_that_is_away_for_almost_a_lease_costs_no_worker_its_tasks() -> None:
    """The lease of the one that was renewed first expires; that of another does not, and proves nothing."""
    begun, gate = list[str](), asyncio.Event()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        await gate.wait()
        return "done"

    lease = Limits().lease_seconds
    async with Workers(handler, on_restart=Recovery.FAIL) as workers:
        first = await workers.join("first")
        await workers.clock.advance(0)  # it begins to renew its lease
        await workers.clock.advance(lease * 0.15)
        second = await workers.join("second")
        task = await first.start("go", "m-1")
        await workers.until(lambda: begun, seconds=0.01)
        back_again = [worker.seem_dead() for worker in (first, second)]
        await workers.clock.advance(lease * 0.9)
        back_again[1]()
        for _ in range(4):
            await workers.clock.advance(0.5)
        back_again[0]()
        await workers.clock.advance(3 * lease)
        head = await workers.store.tasks.head(TaskKey(Owner("", ""), task.id))
        assert head is not None
        assert (head.state, head.holder) == (TaskState.WORKING, "first")
        gate.set()


@pytest.mark.parametrize(("pause", "most"), [(0.1, 0.9), (0.7, 1.0), (1.5, 1.0), (400.0, 0.0)])
async def test_a_worker_that_starts_alone_takes_over_within_a_lease(pause: float, most: float) -> None:
    """Pauses and times in leases. The lease of the dead worker has to end, and is forgotten after an hour."""
    begun = list[str]()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        if len(begun) == 1:
            await asyncio.Event().wait()
        return "done"

    lease = Limits().lease_seconds
    async with Workers(handler, limits=Limits(run_seconds=None)) as workers:
        dead = await workers.join("dead")
        task = await dead.start("go", "m-1")
        await workers.until(lambda: begun, seconds=0.01)
        dead.seem_dead()
        await workers.clock.advance(pause * lease)
        new = await workers.join("new")
        begun_at = workers.clock.monotonic()
        assert (await workers.result(new.follow(task)))[-1] is TaskState.COMPLETED
        assert workers.clock.monotonic() - begun_at <= most * lease + 1


async def test_a_repeated_message_waits_for_its_direct_reply_when_the_store_was_away() -> None:
    """The worker that is at work on the reply lives, although its lease has expired."""
    asked, gate = list[str](), asyncio.Event()

    async def handler(turn: Turn) -> str:
        asked.append(turn.text)
        await gate.wait()
        return f"answer {len(asked)}"

    async with Workers(handler, replies_directly=True) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        first = one.send("go", "m-1")
        await workers.until(lambda: asked)
        back_again = [worker.seem_dead() for worker in (one, two)]
        await workers.clock.advance(3 * Limits().lease_seconds)
        back_again[1]()
        repeated = two.send("go", "m-1")
        for _ in range(4):
            await workers.clock.advance(0.5)
        back_again[0]()
        await workers.clock.advance(2 * Limits().lease_seconds)
        gate.set()
        answer, same = await workers.result(first, repeated)
        assert (asked, answer.parts, same.parts) == (["go"], (TextPart("answer 1"),), (TextPart("answer 1"),))


async def test_workers_answer_a_message_directly_once_and_another_answers_if_one_fails_or_dies() -> None:
    asked, gates = list[str](), [asyncio.Event() for _ in range(5)]

    async def handler(turn: Turn) -> str:
        asked.append(turn.text)
        await gates[len(asked) - 1].wait()
        if turn.text == "fail" and len(asked) == 2:
            raise ZeroDivisionError
        return f"answer {len(asked)}"

    async with Workers(handler, replies_directly=True) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        sends = [worker.send("go", "m-1") for worker in (one, two, two)]
        await workers.until(lambda: asked)
        await workers.clock.advance(60)
        gates[0].set()
        assert [reply.text for reply in await workers.result(*sends)] == ["answer 1"] * 3
        first, second = one.send("fail", "m-2"), two.send("fail", "m-2")
        await workers.until(lambda: len(asked) == 2)
        gates[1].set()
        gates[2].set()
        await workers.until(lambda: first.done() and second.done())
        assert sorted((type(first.exception()), type(second.exception())), key=str) == [NoneType, InternalError]
        slow = one.send("die", "m-3")
        await workers.until(lambda: len(asked) == 4)
        one.seem_dead()
        again = two.send("die", "m-3")
        gates[4].set()
        assert (await workers.result(again)).text == "answer 5"
        gates[3].set()
        assert (await workers.result(slow)).text == "answer 5"


@pytest.mark.parametrize("hints", [False, True])
async def test_webhooks_are_told_by_the_worker_that_holds_the_task_and_then_by_its_successor(hints: bool) -> None:
    middle, gates, begun = asyncio.Event(), [asyncio.Event(), asyncio.Event()], list[str]()

    async def handler(turn: Turn) -> Any:
        number = len(begun)
        begun.append(turn.text)
        yield "one"
        await middle.wait()
        yield "two"
        await gates[number].wait()
        yield "three"

    async with Workers(handler, hints=hints) as workers:
        old, new = await workers.join("old"), await workers.join("new")
        task = await workers.result(old.send("go", "m-1", return_immediately=True))
        await workers.until(lambda: begun)
        request = CreatePushConfigRequest(task.id, PushConfig("https://hook.example"))
        await workers.result(asyncio.create_task(new.agent.create_push_config(request)))
        middle.set()
        await workers.until(lambda: workers.told)
        old.seem_dead()
        await workers.until(lambda: len(begun) == 2)
        gates[0].set()
        await workers.until(lambda: old.engine.runs.working == 0)
        gates[1].set()
        await workers.until(lambda: len(workers.told) == 3)
        await workers.clock.advance(30)
    assert workers.told == [("old", 5), ("new", 7), ("new", 8)]
