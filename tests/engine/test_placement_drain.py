"""Drain and hand-over: a worker that stops claims nothing, and leaves its tasks to the others without counting it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley import Agent, Recovery, Turn
from parley.engine.limits import Limits
from parley.engine.maintenance import MAINTENANCE_SECONDS, TURN
from parley.protocol.errors import UnavailableError
from parley.protocol.events import TaskClaimed
from parley.protocol.tasks import TaskState
from parley.stores.interface import Owner, StoreUnavailableError, TaskFilter, TaskKey, Write
from tests.engine.test_ownership import Workers, text_of
from tests.engine.test_ownership_waiters import HeldWrites, rounds
from tests.engine.test_placement import ONE, Gated, head_of, holders

pytestmark = pytest.mark.anyio


async def test_runs_that_are_cut_off_go_on_at_once_at_another_worker_and_are_no_attempts() -> None:
    """However often: each worker in turn drains while the task is at work, and one crash alone would fail it."""
    gated = Gated()
    async with Workers(gated.run, hints=True, limits=Limits(run_attempts=1)) as workers:
        worker = await workers.join("w-0")
        task = await worker.start("go", "m-1")
        for number in range(1, 5):
            following = await workers.join(f"w-{number}")
            await rounds()
            at = workers.clock.monotonic()
            await worker.engine.drain()
            await workers.until(lambda number=number: len(gated.begun) == number + 1, seconds=0.01)
            assert workers.clock.monotonic() - at < 0.1
            worker = following
        gated.let_go("go")
        assert text_of(await workers.result(worker.send("go", "m-1"))) == "go is done"
        assert (await worker.get(task)).status.state is TaskState.COMPLETED


async def test_waiting_senders_and_readers_are_told_to_come_back_and_get_the_rest_elsewhere() -> None:
    gated = Gated()
    async with Workers(gated.run, hints=True, limits=ONE) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        task = await one.start("first", "m-1")
        await two.start("second", "m-2")
        waiting = [one.send("first", "m-1"), one.send("third", "m-3"), one.follow(task)]
        await rounds()
        await one.engine.drain()
        await rounds()
        errors = [done.exception() for done in waiting]
        assert all(isinstance(error, UnavailableError) for error in errors)
        assert [str(error).count("the same message sent again gets the same task") for error in errors] == [1, 1, 0]
        with pytest.raises(UnavailableError, match="restarting"):
            await one.start("fourth", "m-4")
        for text in ("first", "second", "third"):
            gated.let_go(text)
        answers = await workers.result(two.send("first", "m-1"), two.send("third", "m-3"))
        assert [text_of(answer) for answer in answers] == ["first is done", "third is done"]


async def test_a_worker_that_drains_claims_nothing() -> None:
    gated = Gated()
    async with Workers(gated.run, hints=True, limits=ONE) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        tasks = [await worker.start(f"{worker.engine.lease.worker}", "m") for worker in (one, two)]
        waiting = await one.start("waits", "m-3")
        one.engine._drain_seconds = 60  # a run has time to end
        draining = asyncio.create_task(one.engine.drain())
        await rounds()
        assert one.engine.is_draining
        gated.let_go("one")
        await workers.clock.advance(30)
        await draining
        assert await holders(workers, *tasks, waiting) == ["", "two", ""]
        gated.let_go("two")
        await workers.until(lambda: gated.begun[-1] == "waits")
        assert await holders(workers, waiting) == ["two"]
        gated.let_go("waits")


async def test_the_lease_is_released_when_all_that_was_written_is_settled() -> None:
    """Otherwise the others would claim a task before its last events, which then would be lost."""

    async def handler(turn: Turn) -> Any:
        yield "word"
        await asyncio.Event().wait()

    async with Workers(handler, limits=Limits(run_attempts=1)) as workers:
        one = await workers.join("one")
        writes = HeldWrites(one.engine.store)
        sending = one.send("go", "m-1", return_immediately=True)
        await rounds()
        draining = asyncio.create_task(one.engine.drain())
        await rounds()
        assert "one" in await workers.store.leases.live()
        writes.let_go()
        await draining
        assert "one" not in await workers.store.leases.live()
        with pytest.raises(UnavailableError, match="try again"):
            await sending
        (head,) = (await workers.store.tasks.list(Owner("", ""), TaskFilter())).heads
        assert (head.holder, head.attempts) == ("", 0)


async def test_a_task_that_must_not_run_again_is_failed_by_the_worker_that_takes_over() -> None:
    gated = Gated()
    async with Workers(gated.run, hints=True, on_restart=Recovery.FAIL, limits=ONE) as workers:
        one = await workers.join("one")
        begun, waiting = await one.start("begun", "m-1"), await one.start("waiting", "m-2")
        await rounds()
        await one.engine.drain()
        two = await workers.join("two")
        gated.let_go("waiting")
        await workers.until(lambda: gated.begun == ["begun", "waiting"])
        await workers.result(two.send("waiting", "m-2"))
        assert (await two.get(begun)).status.state is TaskState.FAILED
        assert (await two.get(waiting)).status.state is TaskState.COMPLETED


async def test_a_worker_hears_at_its_next_renewal_that_it_is_to_drain_and_reports_what_it_does() -> None:
    gated = Gated()
    async with Workers(gated.run, limits=ONE) as workers:
        one = await workers.join("one")
        one.engine.replica = {"name": "first", "version": "1"}
        await one.start("go", "m-1")
        await workers.clock.advance(2)
        assert not one.engine.drain_asked.is_set()
        assert await workers.store.leases.ask_to_drain("one")
        await workers.clock.advance(2)
        assert one.engine.drain_asked.is_set()
        (worker,) = await workers.store.leases.workers()
        expected = {"name": "first", "version": "1", "state": "ready", "runs": 1, "waiting": 0, "webhooks": 0}
        assert worker.report == expected


async def test_a_renewal_that_is_under_way_does_not_undo_the_release() -> None:
    gated = Gated()
    async with Workers(gated.run) as workers:
        one = await workers.join("one")
        leases: Any = one.engine.store.leases
        renew, gate = leases.renew, asyncio.Event()

        async def slow(*values: Any, **named: Any) -> bool:
            await gate.wait()
            return await renew(*values, **named)

        leases.renew = slow
        await workers.clock.advance(3)
        draining = asyncio.create_task(one.engine.drain())
        await rounds()
        gate.set()
        await draining
        await rounds()
        assert await workers.store.leases.live() == frozenset()


async def test_old_things_are_deleted_by_one_worker_a_minute_and_by_another_one_when_it_is_gone() -> None:
    gated = Gated()
    async with Workers(gated.run, limits=Limits(lease_seconds=600, poll_seconds=30)) as workers:
        joined = [await workers.join(f"w-{number}") for number in range(3)]
        deleted = list[str]()
        for worker in joined:
            sends: Any = worker.engine.store.sends
            delete_before = sends.delete_before

            async def noted(moment: Any, name: str = worker.engine.lease.worker, delete: Any = delete_before) -> None:
                deleted.append(name)
                await delete(moment)

            sends.delete_before = noted
        for _ in range(30):
            await workers.clock.advance(MAINTENANCE_SECONDS)
        record = await workers.store.records.get(TURN)
        assert record is not None
        assert 28 <= record.revision <= 30
        assert 15 < len(deleted) <= 20  # not in the first ten minutes
        gone = next(worker for worker in joined if worker.engine.lease.worker == deleted[-1])
        await gone.engine.drain()
        deleted.clear()
        for _ in range(10):
            await workers.clock.advance(MAINTENANCE_SECONDS)
        assert 8 <= len(deleted) <= 10
        assert gone.engine.lease.worker not in deleted


# --- zombies ----------------------------------------------------------------------------------------------------------


async def test_a_worker_that_wakes_up_after_its_lease_neither_answers_nor_tells_what_it_has_lost() -> None:
    """Its inbox shows only what is for tasks that it holds, and its webhooks are those of the other worker."""
    gated = Gated()
    async with Workers(gated.run) as workers:
        old, new = await workers.join("old"), await workers.join("new")
        task = await old.start("go", "m-1")
        await rounds()
        epoch = old.engine.lease.epoch
        store: Any = old.engine.store
        leases, inbox, tasks = store.leases, store.inbox, store.tasks

        class Paused:
            def __getattr__(self, name: str) -> Any:
                async def refuse(*values: Any, **named: Any) -> None:
                    raise StoreUnavailableError("The process is paused")

                return refuse

        store.leases = store.inbox = store.tasks = Paused()
        await workers.until(lambda: len(gated.begun) == 2)
        canceling = new.cancel(task)
        store.leases, store.inbox, store.tasks = leases, inbox, tasks
        canceled = await workers.result(canceling)
        assert canceled.status.state is TaskState.CANCELED
        await workers.until(lambda: old.engine.lease.epoch not in (None, epoch))
        await workers.until(lambda: old.engine.runs.working == 0)
        events = await workers.store.tasks.events(TaskKey(Owner("", ""), task.id), after=0, limit=99)
        claims = [event.worker for _, event in events if isinstance(event, TaskClaimed)]
        assert claims == ["new"]
        assert (await old.get(task)) == canceled


async def test_a_refused_hand_over_leaves_the_task_to_the_end_of_the_lease() -> None:
    """The store is gone while a worker drains: the others take over as after a crash."""
    gated = Gated()
    async with Workers(gated.run) as workers:
        one = await workers.join("one")
        task = await one.start("go", "m-1")
        await rounds()
        store: Any = one.engine.store
        write = store.tasks.write

        def refused(each: Write) -> asyncio.Future[None]:
            done = asyncio.get_running_loop().create_future()
            done.set_exception(StoreUnavailableError("The disk is full"))
            return done

        store.tasks.write = refused
        await one.engine.drain()
        store.tasks.write = write
        head = await head_of(workers, task)
        assert (head.holder, head.attempts) == ("one", 1)
        two = await workers.join("two")
        gated.let_go("go")
        assert text_of(await workers.result(two.send("go", "m-1"))) == "go is done"


async def test_a_run_that_waits_in_memory_goes_on_elsewhere_although_its_program_must_not_run_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has not begun. Programs that order their runs themselves let them wait in the memory of their worker."""
    monkeypatch.setattr(Agent, "waits_for_turn", True)
    gated = Gated()
    async with Workers(gated.run, hints=True, limits=ONE, on_restart=Recovery.FAIL) as workers:
        one = await workers.join("one")
        await one.start("first", "m-1")
        second = await one.start("second", "m-2")
        assert one.engine.runs.waiting == 1
        two = await workers.join("two")
        await one.engine.drain()
        for text in ("first", "second"):
            gated.let_go(text)
        assert text_of(await workers.result(two.send("second", "m-2"))) == "second is done"
        assert (await two.get(second)).status.state is TaskState.COMPLETED
