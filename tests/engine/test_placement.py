"""Placement: a message runs where it lands if there is room, otherwise at any worker of the store that has room."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from parley import Agent, Recovery, Turn
from parley.cluster.hints import AnyHint, Hint, HintKind
from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.engine.ownership.waiting import SENDER
from parley.protocol.errors import RateLimitedError
from parley.protocol.events import NoteAdded, TaskClaimed
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task, TaskState
from parley.stores.interface import Owner, TaskHead, TaskKey
from tests.engine.test_ownership import Workers, text_of
from tests.engine.test_ownership_waiters import rounds

pytestmark = pytest.mark.anyio

ONE = Limits(runs_at_once=1)


class Gated:
    """A handler whose runs end when they are let go; they note where they began, and in which order."""

    def __init__(self) -> None:
        self.begun = list[str]()
        self._gates: dict[str, asyncio.Event] = {}

    async def run(self, turn: Turn) -> str:
        self.begun.append(turn.text)
        await self._gates.setdefault(turn.text, asyncio.Event()).wait()
        return f"{turn.text} is done"

    def let_go(self, text: str) -> None:
        self._gates.setdefault(text, asyncio.Event()).set()


async def head_of(workers: Workers, task: Task) -> TaskHead:
    head = await workers.store.tasks.head(TaskKey(Owner("", ""), task.id))
    assert head is not None
    return head


async def holders(workers: Workers, *tasks: Task) -> list[str]:
    return [(await head_of(workers, task)).holder for task in tasks]


@pytest.mark.parametrize("hints", [False, True])
async def test_a_message_without_room_runs_at_another_worker_and_its_sender_gets_the_answer(hints: bool) -> None:
    gated = Gated()
    async with Workers(gated.run, hints=hints, limits=ONE) as workers:
        full, free = await workers.join("full"), await workers.join("free")
        first = await full.start("first", "m-1")
        sending = full.send("second", "m-2")
        streamed = full.agent.send_streaming_message(
            SendMessageRequest(Message("m-2", Role.USER, (TextPart("second"),)))
        )

        async def stream() -> list[Any]:
            return [event async for batch in streamed for _, event in batch]

        reading = asyncio.create_task(stream())
        await workers.until(lambda: len(gated.begun) == 2, seconds=0.1)
        assert [worker.engine.runs.working for worker in (full, free)] == [1, 1]
        gated.let_go("second")
        second, events = await workers.result(sending, reading)
        assert text_of(second) == "second is done"
        assert events[-1].status.state is TaskState.COMPLETED
        assert await holders(workers, first, second) == ["full", ""]
        gated.let_go("first")


async def test_with_hints_waiting_work_begins_elsewhere_at_once() -> None:
    """The worker that prefers the task needs no time; another one waits for a moment, but not until it polls."""
    gated = Gated()
    async with Workers(gated.run, hints=True, limits=ONE) as workers:
        full, _ = await workers.join("full"), await workers.join("free")
        await full.start("first", "m-1")
        await rounds()
        await full.start("second", "m-2")
        at = workers.clock.monotonic()
        await workers.until(lambda: len(gated.begun) == 2, seconds=0.01)
        assert workers.clock.monotonic() - at < Limits().poll_seconds


async def test_messages_wait_in_the_store_in_the_order_in_which_they_came_and_later_ones_behind_them() -> None:
    gated = Gated()
    async with Workers(gated.run, hints=True, limits=ONE) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        for number, worker in enumerate((one, two, one, two, two)):
            await worker.start(f"{number}", f"m-{number}")
            await workers.clock.advance(1)
        assert sorted(gated.begun) == ["0", "1"]
        assert one.engine.runs.waiting == two.engine.runs.waiting == 0
        tasks: Any = one.engine.store.tasks
        orphaned, may_look = tasks.orphaned, asyncio.Event()

        async def slow(*values: Any, **named: Any) -> Any:
            await may_look.wait()
            return await orphaned(*values, **named)

        tasks.orphaned = slow
        gated.let_go("0")
        await one.engine.runs.all[0].wait_for_end()
        assert one.engine.runs.room("agent") == 1
        sending = one.send("5", "m-5", return_immediately=True)  # there is room for a moment, but others came first
        await rounds()
        may_look.set()
        await sending
        await workers.until(lambda: len(gated.begun) == 3, seconds=0.1)
        for number in range(1, 6):
            gated.let_go(f"{number}")
            await workers.until(lambda number=number: len(gated.begun) >= min(6, number + 3), seconds=0.1)
        assert gated.begun[2:] == ["2", "3", "4", "5"]


async def test_waiting_is_no_attempt_and_no_crash(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    gated = Gated()
    limits = Limits(runs_at_once=1, run_attempts=1)
    async with Workers(gated.run, limits=limits, on_restart=Recovery.FAIL) as workers:
        one = await workers.join("one")
        await one.start("first", "m-1")
        task = await one.start("second", "m-2")
        assert (await head_of(workers, task)).attempts == 0
        two = await workers.join("two")
        await workers.until(lambda: len(gated.begun) == 2)
        assert await holders(workers, task) == ["two"]
        assert (await head_of(workers, task)).attempts == 1
        gated.let_go("second")
        assert text_of(await workers.result(two.send("second", "m-2"))) == "second is done"
        gated.let_go("first")
    assert not [record for record in caplog.records if "died" in record.message or record.levelname == "ERROR"]


async def test_waiting_work_survives_all_workers() -> None:
    gated = Gated()
    async with Workers(gated.run, limits=ONE) as workers:
        one = await workers.join("one")
        await one.start("first", "m-1")
        task = await one.start("second", "m-2")
        await one.engine.drain()
        two = await workers.join("two")
        gated.let_go("first")
        gated.let_go("second")
        finished = await workers.result(two.send("second", "m-2"))
        assert (finished.id, text_of(finished)) == (task.id, "second is done")


async def test_answers_without_room_run_at_another_worker() -> None:
    gate = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        if turn.text == "block":
            await gate.wait()
        elif (await turn.ask("And?")).text:
            yield "answered"

    async with Workers(handler, hints=True, limits=ONE) as workers:
        one = await workers.join("one")
        asked = await workers.result(one.send("ask", "m-1"))
        await one.start("block", "m-2")
        answered = one.send("yes", "m-3", asked.id)
        await rounds()
        assert (await head_of(workers, asked)).state is TaskState.WORKING
        assert await holders(workers, asked) == [""]
        await workers.join("two")
        assert text_of(await workers.result(answered)) == "answered"
        gate.set()


async def test_a_message_to_a_waiting_task_is_added_to_it_once_and_a_cancel_ends_it_once() -> None:
    async def handler(turn: Turn) -> str:
        if turn.text == "block":
            await asyncio.Event().wait()
        return ",".join([message.text for message in turn.history])

    async with Workers(handler, limits=ONE) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        blocking = [await worker.start("block", f"b-{number}") for number, worker in enumerate((one, two))]
        listened, canceled = await one.start("listen", "m-1"), await one.start("other", "m-2")
        more = [worker.send("more", "m-3", listened.id) for worker in (one, two, two)]
        ending = [worker.cancel(canceled) for worker in (one, two)]
        await workers.until(lambda: all(task.done() for task in ending))
        states = [task.result().status.state for task in ending if task.exception() is None]
        assert states in ([TaskState.CANCELED], [TaskState.CANCELED] * 2)
        assert await holders(workers, listened, canceled) == ["", ""]
        await workers.result(one.cancel(blocking[0]))
        assert [text_of(each) for each in await workers.result(*more)] == ["listen,more"] * 3


async def test_too_many_waiting_messages_of_all_workers_are_refused() -> None:
    gated = Gated()
    async with Workers(gated.run, limits=Limits(runs_at_once=1, sends_waiting=3)) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        for number, worker in enumerate((one, two, one, one, one)):
            await worker.start(f"{number}", f"m-{number}")
        for worker in (one, two):
            with pytest.raises(RateLimitedError, match="3 messages wait already"):
                await worker.start("one more", "m-9")
        gated.let_go("0")
        await workers.until(lambda: len(gated.begun) == 3)
        await one.start("one more", "m-9")


async def test_what_live_workers_work_on_does_not_count_as_waiting_when_the_store_was_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("parley.engine.ownership.waiting.COUNTED_SECONDS", 0.0)
    gated = Gated()
    async with Workers(gated.run, limits=Limits(runs_at_once=2, sends_waiting=2)) as workers:
        one, two = await workers.join("one"), await workers.join("two")
        at_work = [await one.start("a", "m-1"), await one.start("b", "m-2")]
        at_work += [await two.start("c", "m-3"), await two.start("d", "m-4")]
        await workers.until(lambda: len(gated.begun) == 4)
        back_again = [worker.seem_dead() for worker in (one, two)]
        await workers.clock.advance(3 * Limits().lease_seconds)
        back_again[1]()
        waiting = await two.start("e", "m-5")
        assert waiting.status.state is TaskState.SUBMITTED
        back_again[0]()
        await workers.clock.advance(2 * Limits().lease_seconds)
        assert await holders(workers, *at_work, waiting) == ["one", "one", "two", "two", ""]
        for text in "abcde":
            gated.let_go(text)
        await workers.result(two.follow(waiting))


async def test_a_run_elsewhere_knows_what_its_sender_may_and_wants() -> None:
    known = list[Any]()

    async def handler(turn: Turn) -> Any:
        if turn.text == "block":
            await asyncio.Event().wait()
        known.append((turn.caller, turn.accepts("text/html"), turn.accepts("text/csv")))

    async with Workers(handler, hints=True, limits=ONE) as workers:
        one, _ = await workers.join("one"), await workers.join("two")
        await one.start("block", "m-1")
        caller = Caller("", "", frozenset({"read", "write"}), {"team": "blue"})
        request = SendMessageRequest(
            Message("m-2", Role.USER, (TextPart("go"),)),
            SendConfiguration(accepted_output_modes=("text/html",), return_immediately=True),
        )
        sending = asyncio.create_task(one.agent.send_message(request, caller))
        await workers.result(sending)
        await workers.until(lambda: known)
        assert known == [(caller, True, False)]


async def test_a_message_that_waits_costs_no_note_if_its_sender_is_like_all_others() -> None:
    gated = Gated()
    async with Workers(gated.run, limits=ONE) as workers:
        one = await workers.join("one")
        await one.start("first", "m-1")
        task = await one.start("second", "m-2")
        events = await workers.store.tasks.events(TaskKey(Owner("", ""), task.id), after=0, limit=9)
        assert len(events) == 2
        assert not [event for _, event in events if isinstance(event, NoteAdded) and event.name == SENDER]


async def test_work_is_offered_by_a_hint() -> None:
    gated, heard = Gated(), list[AnyHint]()
    async with Workers(gated.run, hints=True, limits=ONE) as workers:
        one = await workers.join("one")
        assert one.engine.hints is not None
        one.engine.hints.listen(heard.append)
        await one.start("first", "m-1")
        task = await one.start("second", "m-2")
        assert [hint for hint in heard if isinstance(hint, Hint) and hint.kind is HintKind.WORK] == [
            Hint(HintKind.WORK, TaskKey(Owner("", ""), task.id))
        ]


# --- dead workers -----------------------------------------------------------------------------------------------------


async def test_the_runs_of_a_dead_worker_are_spread_over_the_others_within_the_lease_and_two_seconds() -> None:
    begun = list[str]()

    async def handler(turn: Turn) -> None:
        begun.append(turn.text)
        await asyncio.Event().wait()

    async with Workers(handler) as workers:
        dead = await workers.join("dead")
        for number in range(300):
            await dead.start(f"{number}", f"m-{number}")
        others = [await workers.join(name) for name in ("one", "two", "three")]
        await rounds()
        assert len(begun) == 300
        await workers.store.leases.renew("dead", seconds=Limits().lease_seconds)
        dead.seem_dead()
        at = workers.clock.monotonic()
        await workers.until(lambda: len(begun) == 600, seconds=0.1)
        assert workers.clock.monotonic() - at <= Limits().lease_seconds + 2
        numbers = [worker.engine.runs.working for worker in others]
        assert sum(numbers) == 300
        assert min(numbers) > 60


async def test_a_worker_takes_all_runs_of_a_dead_one_if_the_others_have_no_room() -> None:
    gated = Gated()
    async with Workers(gated.run, limits=Limits(runs_at_once=60)) as workers:
        dead, full = await workers.join("dead"), await workers.join("full")
        for number in range(60):
            await dead.start(f"d-{number}", f"d-{number}")
            await full.start(f"f-{number}", f"f-{number}")
        await rounds()
        free = await workers.join("free")
        await workers.store.leases.renew("dead", seconds=Limits().lease_seconds)
        dead.seem_dead()
        at = workers.clock.monotonic()
        await workers.until(lambda: free.engine.runs.working == 60, seconds=0.1)
        assert workers.clock.monotonic() - at <= Limits().lease_seconds + 2
        assert full.engine.runs.working == 60
        for number in range(60):
            gated.let_go(f"d-{number}")
            gated.let_go(f"f-{number}")


async def test_workers_that_look_at_the_same_moment_claim_a_task_once() -> None:
    """Due tasks wake all workers at once; one of them claims each, and the others do not even try."""

    async def handler(turn: Turn) -> str:
        await turn.sleep(3600)
        return "awake"

    async with Workers(handler) as workers:
        names = [f"w{number}" for number in range(5)]
        joined = [await workers.join(name) for name in names]
        tasks = [await joined[0].start(f"{number}", f"m-{number}") for number in range(20)]
        await rounds()
        refused = 0

        for worker in joined:
            write = worker.engine.store.tasks.write

            def counted(each: Any, write: Any = write) -> Any:
                nonlocal refused
                done = write(each)
                refused += done.exception() is not None
                return done

            worker.engine.store.tasks.write = counted  # type: ignore[method-assign]
        await workers.clock.advance(3599)
        await workers.clock.advance(5)
        for task in tasks:
            events = await workers.store.tasks.events(TaskKey(Owner("", ""), task.id), after=0, limit=99)
            assert len([event for _, event in events if isinstance(event, TaskClaimed)]) == 1
            assert (await joined[0].get(task)).status.state is TaskState.COMPLETED
        assert refused == 0


async def test_an_agent_that_only_some_workers_have_is_not_held_up_by_the_others() -> None:
    begun = list[str]()

    async def handler(turn: Turn) -> None:
        begun.append(turn.text)
        await asyncio.Event().wait()

    async with Workers(handler, hints=True, limits=ONE) as workers:
        other = Agent("Other", id="other")
        other.on_message(handler)
        one, two = await workers.join("one"), await workers.join("two")
        two.engine.add(other)
        for _ in range(3):
            await workers.join("without it")
        message = [Message(f"m-{number}", Role.USER, (TextPart(f"{number}"),)) for number in range(2)]
        third = await workers.join("third")
        third.engine.add(other)
        for each in message:
            request = SendMessageRequest(each, SendConfiguration(return_immediately=True))
            await two.engine.agent("other").send_message(request)
        await workers.until(lambda: len(begun) == 2, seconds=0.1)
        assert [worker.engine.runs.working for worker in (one, two, third)] == [0, 1, 1]
