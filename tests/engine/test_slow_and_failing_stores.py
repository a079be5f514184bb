"""Between saying and keeping: stores that take their time, refuse for a while, or are changed by somebody else."""

import asyncio
import logging
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from parley import Agent, Turn
from parley.engine.clock import SystemClock, random_id
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.runs.supervisor import RESTARTING
from parley.protocol.errors import InternalError, TaskFinishedError, TaskNotCancelableError, UnavailableError
from parley.protocol.events import StatusUpdate
from parley.protocol.messages import Message, Role, TextPart, text_of
from parley.protocol.requests import CancelTaskRequest, SendConfiguration, SendMessageRequest, SubscribeToTaskRequest
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import ConflictError, StoreUnavailableError, TaskHead, TaskKey, Write
from parley.testing.clock import FakeClock
from tests.bounded import bounded
from tests.changed_store import ChangedStore
from tests.deadlines import fail_after

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_store")]

NO_WAITING = SendConfiguration(return_immediately=True)


def agent_of(handler: Any, **options: Any) -> Agent:
    agent = Agent("Test", **options)
    agent.on_message(handler)
    return agent


def message(text: str = "go", id: str = "m-1") -> Message:
    return Message(id, Role.USER, (TextPart(text),))


async def echo(turn: Turn) -> str:
    return turn.text


class SlowLog(ChangedStore):
    """A store that keeps everything at once and says so only when it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[tuple[Write, asyncio.Future[None]]] = []
        self.is_holding = False

    def tasks_write(self, write: Write) -> Any:
        if not self.is_holding:
            return super().tasks_write(write)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.held.append((write, future))
        return future

    def let_go(self) -> None:
        self.is_holding = False
        for write, future in self.held:
            try:
                self.tasks._write(write)
            except ConflictError as conflict:
                future.set_exception(conflict)
            else:
                future.set_result(None)
        self.held.clear()


async def until(is_so: Any) -> None:
    while not is_so():
        await asyncio.sleep(0)


async def test_a_cancel_that_comes_after_the_last_word_is_too_late_although_that_is_not_kept_yet() -> None:
    gate = asyncio.Event()

    async def handler(turn: Turn) -> str:
        await gate.wait()
        return "done"

    store = SlowLog()
    async with bounded(agent_of(handler), store=store) as client:
        task = await client.start("go")
        store.is_holding = True
        gate.set()
        await until(lambda: store.held)
        canceling = asyncio.create_task(client.cancel(task))
        another = asyncio.create_task(client.send("more", task=task))
        await asyncio.sleep(0)
        store.let_go()
        with pytest.raises(TaskNotCancelableError):
            await canceling
        with pytest.raises(Exception, match="has ended"):
            await another
        assert (await client.get(task)).status.state is TaskState.COMPLETED


async def test_a_message_to_a_task_that_ends_while_it_is_looked_up_is_told_of_the_end() -> None:
    looked, answer, finish = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class SlowHeads(ChangedStore):
        async def tasks_head(self, key: TaskKey) -> TaskHead | None:
            found = await super().tasks_head(key)
            looked.set()
            await answer.wait()
            return found

    async def handler(turn: Turn) -> str:
        await finish.wait()
        return "done"

    async with bounded(agent_of(handler), store=SlowHeads()) as client:
        task = await client.start("go")
        sending = asyncio.create_task(client.send("more", task=task))
        await looked.wait()
        finish.set()
        await until(lambda: client.engine.runs.working == 0)
        answer.set()
        with pytest.raises(TaskFinishedError):
            await sending


async def test_a_task_that_is_canceled_in_the_queue_never_runs_although_its_turn_comes_meanwhile() -> None:
    begun: list[str] = []
    gate = asyncio.Event()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        await gate.wait()
        return "done"

    store = SlowLog()
    async with bounded(agent_of(handler), store=store, limits=Limits(runs_at_once=1)) as client:
        first = await client.start("first")
        queued = await client.start("queued")
        store.is_holding = True
        canceling = asyncio.create_task(client.cancel(queued))
        await until(lambda: store.held)  # the cancel is being written
        gate.set()
        for _ in range(10):
            await asyncio.sleep(0)  # and so is the end of the first run, unless this store takes one write at a time
        store.let_go()
        assert (await canceling).status.state is TaskState.CANCELED
        assert (await client.finished(first)).status.state is TaskState.COMPLETED
        await client.send("third")
    assert begun == ["first", "third"]


async def test_nobody_sees_a_task_before_it_is_kept() -> None:
    store = SlowLog()
    store.is_holding = True
    async with bounded(agent_of(echo), store=store) as client:
        sender = asyncio.create_task(client.send("go"))
        await until(lambda: store.held)
        for _ in range(5):
            await asyncio.sleep(0)
        assert not sender.done()
        assert client.engine.runs.working == 1
        assert len(store.held) == 1  # created, worked on and completed in one write
        store.let_go()
        assert client.text(await sender) == "go"
        assert client.engine.runs.working == 0


async def test_what_a_step_returned_is_kept_before_its_handler_goes_on() -> None:
    store, paid = SlowLog(), asyncio.Event()
    seen: list[int] = []

    async def handler(turn: Turn) -> None:
        async def pay() -> None:
            store.is_holding = True
            paid.set()

        await turn.step("pay", pay)
        seen.append(len(store.held))

    async with bounded(agent_of(handler), store=store) as client:
        sending = asyncio.create_task(client.send("go"))
        await paid.wait()
        await until(lambda: store.held)
        for _ in range(20):
            await asyncio.sleep(0)
        assert seen == []
        store.let_go()
        assert (await sending).status.state is TaskState.COMPLETED
    assert seen == [0]


async def test_draining_waits_for_what_is_still_being_written() -> None:
    store = SlowLog()
    store.is_holding = True
    with fail_after(5):
        async with Engine(store, agent_of(echo)) as engine:
            sender = asyncio.create_task(engine.agent("test").send_message(SendMessageRequest(message())))
            await until(lambda: store.held)
            draining = asyncio.create_task(engine.drain())
            for _ in range(5):
                await asyncio.sleep(0)
            assert not draining.done()
            store.let_go()
            await draining
            task = await sender
            assert isinstance(task, Task)
            assert task.status.state is TaskState.COMPLETED


async def test_a_clean_stop_while_a_task_is_created_names_no_task_to_its_sender_and_counts_no_attempt() -> None:
    async def hang(turn: Turn) -> None:
        await asyncio.Event().wait()

    store = SlowLog()
    store.is_holding = True
    with fail_after(5):
        async with Engine(store, agent_of(hang), drain_seconds=0) as engine:
            sender = asyncio.create_task(engine.agent("test").send_message(SendMessageRequest(message())))
            await until(lambda: store.held)
            draining = asyncio.create_task(engine.drain())
            with pytest.raises(UnavailableError) as cut:
                await sender
            for _ in range(5):
                await asyncio.sleep(0)
            store.let_go()
            await draining
    assert (cut.value.message, cut.value.details) == (RESTARTING, {})
    (head,) = await store.tasks.orphaned(frozenset(), limit=9)
    assert head.attempts == 0


async def test_a_repeated_stream_joins_a_task_at_work() -> None:
    gate = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        yield "1"
        await gate.wait()
        yield "2"

    async with bounded(agent_of(handler)) as client:
        request = SendMessageRequest(message())
        task: Any = await client.agent.send_message(SendMessageRequest(message(), NO_WAITING))
        while client.text(await client.get(task.id)) != "1":
            await asyncio.sleep(0)
        again = client.agent.send_streaming_message(request)
        ((seq, seen),) = await anext(again)
        assert (seq, client.text(seen)) == (4, "1")  # pyright: ignore[reportArgumentType]
        gate.set()
        assert [seq for batch in [batch async for batch in again] for seq, _ in batch] == [5, 6]


async def test_a_task_that_changes_while_it_is_canceled_is_looked_at_again() -> None:
    async def handler(turn: Turn) -> str:
        return (await turn.ask("?")).text

    class Contested(ChangedStore):
        conflicts = 0

        def tasks_write(self, write: Write) -> Any:
            if write.state is TaskState.CANCELED and not self.conflicts:
                self.conflicts += 1
                refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                refused.set_exception(ConflictError())
                return refused
            return super().tasks_write(write)

    store = Contested()
    async with bounded(agent_of(handler), store=store) as client:
        task = await client.send("go")
        canceled = await client.agent.cancel_task(CancelTaskRequest(task.id))
        assert (canceled.status.state, store.conflicts) == (TaskState.CANCELED, 1)


async def test_an_answer_that_comes_while_a_cancel_is_being_written_is_refused_and_begins_nothing() -> None:
    runs: list[str] = []

    async def handler(turn: Turn) -> None:
        runs.append(turn.text)
        await turn.ask("?")

    store = SlowLog()
    async with bounded(agent_of(handler), store=store) as client:
        asked = await client.send("go")
        store.is_holding = True
        canceling = asyncio.create_task(client.cancel(asked))
        await until(lambda: store.held)
        answering = asyncio.create_task(client.send("yes", task=asked))
        for _ in range(20):
            await asyncio.sleep(0)
        store.let_go()
        with pytest.raises(TaskFinishedError):
            await answering
        assert (await canceling).status.state is TaskState.CANCELED
        assert client.engine.runs.working == 0
    assert runs == ["go"]


async def test_readers_of_a_waiting_task_hear_of_its_cancel_also_if_the_caller_of_it_has_gone() -> None:
    async def handler(turn: Turn) -> None:
        await turn.ask("?")

    store = SlowLog()
    async with bounded(agent_of(handler), store=store) as client:
        asked = await client.send("go")
        reader = client.follow(asked)
        await anext(reader)
        reading = asyncio.ensure_future(anext(reader))
        for _ in range(20):
            await asyncio.sleep(0)
        store.is_holding = True
        canceling = asyncio.create_task(client.cancel(asked))
        await until(lambda: store.held)
        canceling.cancel()
        await asyncio.wait({canceling})
        store.let_go()
        _, heard = await reading
        assert isinstance(heard, StatusUpdate)
        assert heard.status.state is TaskState.CANCELED


class BrokenLog(ChangedStore):
    """A store that refuses everything while it is broken."""

    is_broken = False

    def tasks_write(self, write: Write) -> Any:
        if self.is_broken:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(StoreUnavailableError("the disk is full"))
            return refused
        return super().tasks_write(write)

    async def sends_delete_before(self, moment: datetime) -> None:
        if self.is_broken:
            raise StoreUnavailableError("the disk is full")
        await super().sends_delete_before(moment)


async def test_a_task_that_cannot_be_claimed_now_is_begun_again_when_the_store_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = asyncio.Event()

    async def hang(turn: Turn) -> None:
        begun.set()
        await asyncio.Event().wait()

    store, clock = BrokenLog(), FakeClock()
    async with bounded(agent_of(hang), store=store, clock=clock) as client:
        task = await client.start("go")
        await begun.wait()
        await client.crash()
        begun.clear()
        store.is_broken = True
        with caplog.at_level(logging.WARNING):
            await client.restart()
            while "could not be deleted" not in caplog.text:
                await clock.advance(60)  # maintenance comes round, too, and cannot work either
        assert "the store refuses: the disk is full" in caplog.text
        store.is_broken = False
        while not begun.is_set():
            await clock.advance(1)
        assert (await client.get(task)).status.state is TaskState.WORKING


async def test_a_run_that_cannot_be_stored_begins_again_when_the_store_is_back() -> None:
    """It is recovered as after a crash: a full disk fails no task of an agent that can begin again."""
    begun, gate = asyncio.Event(), asyncio.Event()

    async def handler(turn: Turn) -> Any:
        yield "kept, "
        begun.set()
        await gate.wait()
        yield "lost and said again"

    store, clock = BrokenLog(), FakeClock()
    async with bounded(agent_of(handler), store=store, clock=clock) as client:
        task = await client.start("go")
        await begun.wait()
        store.is_broken = True
        gate.set()
        await until(lambda: client.engine.runs.working == 0)
        await clock.advance(60)  # it is looked for, and cannot be begun
        store.is_broken = False
        while (found := await client.get(task)).status.state is not TaskState.COMPLETED:
            await clock.advance(1)
        assert text_of(found.artifacts[0].parts) == "kept, lost and said again"


async def test_a_reader_that_comes_after_a_refused_write_hears_of_the_end() -> None:
    """Also if another one, that was cut off by the refusal, has not gone yet."""
    begun, follows, gate = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handler(turn: Turn) -> Any:
        begun.set()
        await follows.wait()
        await turn.status("kept")
        await gate.wait()
        yield "lost"

    store, clock = BrokenLog(), FakeClock()
    async with bounded(agent_of(handler, on_restart="fail"), store=store, clock=clock) as client:
        task = await client.start("go")
        await begun.wait()
        cut_off = client.agent.subscribe_to_task(SubscribeToTaskRequest(task.id), client.caller)
        await anext(cut_off)
        follows.set()
        while "kept" not in str(await anext(cut_off)):
            pass
        store.is_broken = True
        gate.set()
        await until(lambda: client.engine.runs.working == 0)

        async def read() -> list[TaskState]:
            return [e.status.state async for _, e in client.follow(task, after=0) if isinstance(e, StatusUpdate)]

        reading = asyncio.create_task(read())
        for _ in range(20):
            await asyncio.sleep(0)
        await cut_off.aclose()
        store.is_broken = False
        while not reading.done():
            await clock.advance(60)
        assert (await reading)[-1] is TaskState.FAILED


async def test_a_snapshot_that_cannot_be_written_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does a task that was deleted before its snapshot."""

    async def handler(turn: Turn) -> Any:
        for number in range(10):
            yield str(number)

    class Snapless(ChangedStore):
        def tasks_write(self, write: Write) -> Any:
            if write.snapshot is not None:
                refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                refused.set_exception(StoreUnavailableError("the disk is full"))
                return refused
            return super().tasks_write(write)

        is_forgetful = False

        async def tasks_read(self, key: TaskKey) -> Any:
            return None if self.is_forgetful else await super().tasks_read(key)

    store = Snapless()
    async with bounded(agent_of(handler), store=store, limits=Limits(snapshot_events=4)) as client:
        with caplog.at_level(logging.WARNING):
            task = await client.send("go")
            await until_async(lambda: "no snapshot written" in caplog.text)
        assert client.text(task) == "0123456789"
        store.is_forgetful = True
        assert client.text(await client.send("go")) == "0123456789"
        await asyncio.sleep(0)


async def until_async(is_so: Any) -> None:
    while not is_so():
        await asyncio.sleep(0)


# --- direct replies ---------------------------------------------------------------------------------------------------


async def test_the_same_message_sent_twice_at_once_is_answered_once() -> None:
    asked: list[str] = []
    gate = asyncio.Event()

    async def handler(turn: Turn) -> str:
        asked.append(turn.text)
        await gate.wait()
        return "yes"

    limits = Limits(run_seconds=None)
    async with bounded(agent_of(handler, replies_directly=True), limits=limits) as client:
        request = SendMessageRequest(message())
        sends = [asyncio.create_task(client.agent.send_message(request)) for _ in range(4)]
        await until(lambda: asked)
        sends.pop().cancel()
        gate.set()
        first, *others = await asyncio.gather(*sends)
        assert others == [first, first]
        assert asked == ["go"]


@pytest.mark.embedded  # in a shared store the second one looks from time to time, and time stands still here
async def test_a_message_whose_answer_failed_may_be_tried_again_by_those_who_wait() -> None:
    asked: list[str] = []
    gate = asyncio.Event()

    async def handler(turn: Turn) -> Message:
        asked.append(turn.text)
        await gate.wait()
        if len(asked) == 1:
            raise ZeroDivisionError
        return Message("", Role.AGENT, (TextPart("whole"),))

    async with bounded(agent_of(handler, replies_directly=True)) as client:
        request = SendMessageRequest(message())
        sends = [asyncio.create_task(client.agent.send_message(request)) for _ in range(2)]
        await until(lambda: asked)
        gate.set()
        failed, reply = await asyncio.gather(*sends, return_exceptions=True)
        assert isinstance(failed, InternalError)
        assert isinstance(reply, Message)
        assert (reply.text, asked) == ("whole", ["go", "go"])


async def test_a_direct_reply_ends_with_a_message_and_cannot_be_empty() -> None:
    async def handler(turn: Turn) -> Any:
        if turn.text == "silence":
            return
        yield "before"
        yield Message("", Role.AGENT, (TextPart("the last word"),))
        yield "after"

    async with bounded(agent_of(handler, replies_directly=True)) as client:
        reply = await client.exchange("go")
        assert isinstance(reply, Message)
        assert reply.text == "the last word"
        with pytest.raises(InternalError):
            await client.send("silence")


# --- time and ids -----------------------------------------------------------------------------------------------------


async def test_runs_that_take_too_long_end_in_the_order_in_which_they_began() -> None:
    ended: list[str] = []

    async def handler(turn: Turn) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(turn.text)

    clock = FakeClock()
    async with bounded(agent_of(handler), clock=clock, limits=Limits(run_seconds=10)) as client:
        first = await client.start("first")
        await clock.advance(4)
        second = await client.start("second")
        await clock.advance(7)
        failed = await client.finished(first)
        assert (failed.status.state, ended) == (TaskState.FAILED, ["first"])
        assert failed.status.message is not None
        assert failed.status.message.text == "The agent took longer than 10 seconds."
        await clock.advance(4)
        assert (await client.finished(second)).status.state is TaskState.FAILED
        third = await client.start("third")
        await clock.advance(11)
        assert (await client.finished(third)).status.state is TaskState.FAILED
        assert ended == ["first", "second", "third"]


def test_ids_are_uuids_that_grow_with_time() -> None:
    ids = [random_id() for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert {(UUID(id).version, UUID(id).variant, str(UUID(id)) == id) for id in ids} == {
        (7, "specified in RFC 4122", True)
    }
    assert [id[:13] for id in ids] == sorted(id[:13] for id in ids)


async def test_the_clock_on_the_wall_shows_milliseconds() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0)
    assert clock.monotonic() >= before
    assert clock.now().microsecond % 1000 == 0
    assert clock.now().utcoffset() == clock.steady().utcoffset() == timedelta(0)
    assert abs(clock.now() - clock.steady()) < timedelta(seconds=1)
