"""Troubles of one worker among several: a task that cannot be read, errors nobody expected, a store that is away."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import msgspec
import pytest

from parley import Turn
from parley.cluster.hints import Hint, HintKind
from parley.engine.limits import Limits
from parley.protocol.tasks import TaskState
from parley.stores.interface import Owner, StoreUnavailableError, TaskKey
from tests.engine.test_ownership import Workers, text_of
from tests.engine.test_ownership_waiters import rounds
from tests.engine.test_placement import Gated, head_of

pytestmark = pytest.mark.anyio


async def test_a_task_that_cannot_be_read_does_not_keep_a_worker_from_claiming_others() -> None:
    """As when another release has written to it."""
    gated = Gated()
    async with Workers(gated.run) as workers:
        old = await workers.join("old")
        tasks = [await old.start(text, f"m-{text}") for text in ("odd", "first", "second")]
        await workers.until(lambda: len(gated.begun) == 3)
        old.seem_dead()
        new = await workers.join("new")
        log: Any = new.engine.store.tasks
        read, odd = log.events, TaskKey(Owner("", ""), tasks[0].id)

        async def events(key: TaskKey, **named: Any) -> Any:
            if key == odd:
                raise msgspec.ValidationError("Invalid value 'unheard-of' - at `$[0].type`")
            return await read(key, **named)

        log.events = events
        await workers.until(lambda: len(gated.begun) == 5)
        assert sorted(gated.begun[3:]) == ["first", "second"]
        log.events = read
        await workers.until(lambda: len(gated.begun) == 6)
        assert gated.begun[5] == "odd"


@pytest.mark.parametrize(("part", "method"), [("leases", "renew"), ("tasks", "orphaned"), ("inbox", "items")])
async def test_an_unexpected_error_does_not_end_the_background_work_of_a_worker(part: str, method: str) -> None:
    """A worker that renewed its lease no more would lose every task that it begins."""
    gated = Gated()
    async with Workers(gated.run) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        store: Any = one.engine.store
        works = getattr(getattr(store, part), method)
        failures = list[str]()

        async def fail(*values: Any, **named: Any) -> Any:
            failures.append(method)
            raise RuntimeError("unable to perform operation on a closed transport")

        setattr(getattr(store, part), method, fail)
        await workers.until(lambda: failures)
        setattr(getattr(store, part), method, works)
        await workers.clock.advance(2 * Limits().lease_seconds)
        assert await workers.store.leases.live() == {"one", "two"}
        task = await one.start("go", "m-1")
        await workers.until(lambda: gated.begun)
        canceling = two.cancel(task)  # by way of the inbox
        assert (await workers.result(canceling)).status.state is TaskState.CANCELED
        task = await two.start("more", "m-2")
        two.seem_dead()
        await workers.until(lambda: len(gated.begun) == 3)
        assert (await head_of(workers, task)).holder == "one"


async def test_a_store_that_is_away_for_longer_than_a_lease_fails_no_task_before_a_step() -> None:
    """The worker cannot know whether it holds the task, so it takes no step; the run begins again later."""
    gate, steps, begun = asyncio.Event(), list[str](), list[str]()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        await gate.wait()
        await turn.step("pay", lambda: steps.append("paid"))
        return "done"

    async with Workers(handler) as workers:
        worker = await workers.join("worker")
        task = await worker.start("go", "m-1")
        await workers.until(lambda: begun)
        store: Any = worker.engine.store
        parts = store.leases, store.tasks.head

        async def away(*values: Any, **named: Any) -> Any:
            raise StoreUnavailableError("The database cannot be reached")

        worker.seem_dead()
        store.inbox = workers.store.inbox
        store.tasks.head = away
        await workers.clock.advance(2 * Limits().lease_seconds)
        gate.set()
        await rounds()
        assert steps == []
        store.leases, store.tasks.head = parts
        await workers.until(lambda: steps)
        assert (await workers.result(asyncio.create_task(_ended(worker, task)))) is TaskState.COMPLETED
        assert (steps, begun) == (["paid"], ["go", "go"])


async def _ended(worker: Any, task: Any) -> TaskState:
    while (state := (await worker.get(task)).status.state) in (TaskState.SUBMITTED, TaskState.WORKING):
        await asyncio.sleep(0)
    return state


async def test_a_cancel_that_comes_too_late_is_no_error_of_the_event_loop_when_its_caller_has_gone() -> None:
    """Another worker has claimed the task between the look and the write, and nobody waits for the outcome."""
    gated, unhandled = Gated(), list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with Workers(gated.run, limits=Limits(runs_at_once=1)) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        for worker, text in ((one, "first"), (two, "second"), (one, "third")):
            task = await worker.start(text, f"m-{text}")
        log: Any = one.engine.store.tasks
        write, may_write, writes = log.write, asyncio.Event(), list[Any]()

        async def late(write_: Any) -> None:
            writes.append(write_)
            await may_write.wait()
            await write(write_)

        log.write = late
        canceling = one.cancel(task)
        await workers.until(lambda: writes)
        canceling.cancel()
        gated.let_go("second")
        await workers.until(lambda: "third" in gated.begun)
        may_write.set()
        await rounds()
        gc.collect()
        await rounds()
        log.write = write
        gated.let_go("first")
        gated.let_go("third")
    assert unhandled == []


async def test_a_repeat_that_comes_while_the_same_message_ends_its_task_is_not_refused() -> None:
    """A caller without an answer asks another worker, which finds no such message, and then a task that has ended."""

    async def handler(turn: Turn) -> str:
        while len(turn.history) < 2:
            await asyncio.sleep(0)
        return "".join(message.text for message in turn.history)

    async with Workers(handler) as workers:
        holder, other = await workers.join("holder"), await workers.join("other")
        task = await holder.start("go", "m-1")
        log: Any = other.engine.store.tasks
        head = log.head

        async def late(key: TaskKey) -> Any:
            log.head = head
            await holder.send("more", "m-2", task.id)  # between the look for the message and that for the task
            return await head(key)

        log.head = late
        assert text_of(await workers.result(other.send("more", "m-2", task.id))) == "gomore"
        assert len((await holder.get(task)).history) == 2


async def test_many_hints_about_the_inbox_cost_few_reads_of_it() -> None:
    """Each read returns all that waits, so one for each hint would cost the square of their number."""
    gated = Gated()
    async with Workers(gated.run, hints=True) as workers:
        holder = await workers.join("holder")
        task = await holder.start("go", "m-1")
        inbox: Any = holder.engine.store.inbox
        items, reads = inbox.items, list[str]()

        async def slow(worker: str) -> Any:
            reads.append(worker)
            await asyncio.sleep(0)
            return await items(worker)

        inbox.items = slow
        assert holder.engine.hints is not None
        for _ in range(100):
            holder.engine.hints.publish(Hint(HintKind.INBOX, TaskKey(Owner("", ""), task.id)))
        await rounds()
        assert 1 <= len(reads) <= 3
        gated.let_go("go")
