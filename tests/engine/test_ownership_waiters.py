"""Callers of several workers are never held up: whichever worker wins a task, loses it or goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from parley import Agent, Turn
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.protocol.errors import UnavailableError
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import TaskState
from parley.stores.interface import StoreUnavailableError, Write
from parley.stores.memory import MemoryStore
from tests.engine.test_ownership import Worker, Workers, text_of

pytestmark = pytest.mark.anyio

AT_ONCE = SendConfiguration(return_immediately=True)


class HeldWrites:
    """The writes of a store: they begin, in their order, when they are let go, or are all refused."""

    def __init__(self, store: Any) -> None:
        self._gate, self._error, self._last = asyncio.Event(), None, asyncio.create_task(asyncio.sleep(0))
        self._write, store.tasks.write = store.tasks.write, self.write

    def write(self, write: Write) -> asyncio.Task[None]:
        self._last = asyncio.create_task(self._do(write, self._last))
        return self._last

    async def _do(self, write: Write, before: asyncio.Task[None]) -> None:
        await self._gate.wait()
        await asyncio.wait({before})
        if self._error is not None:
            raise self._error
        await self._write(write)

    def let_go(self, error: Exception | None = None) -> None:
        self._error = error
        self._gate.set()


def seem_dead(worker: Worker) -> Callable[[], None]:
    """Let a worker seem dead; what lets it seem alive again."""
    store: Any = worker.engine.store
    leases, inbox = store.leases, store.inbox
    worker.seem_dead()

    def wake() -> None:
        store.leases, store.inbox = leases, inbox

    return wake


async def rounds(number: int = 30) -> None:
    """Let everything happen that needs no time."""
    for _ in range(number):
        await asyncio.sleep(0)


async def listen(turn: Turn) -> Any:
    """Says all messages once there are two."""
    while len(turn.history) < 2:
        await asyncio.sleep(0)
    return "".join(message.text for message in turn.history)


async def test_a_worker_that_loses_a_claim_hands_the_message_over_to_the_winner() -> None:
    """So it does when it gets the first message again meanwhile."""
    async with Workers(listen) as workers:
        dead = await workers.join("dead")
        task = await dead.start("go", "m-1")
        loser, winner = await workers.join("loser"), await workers.join("winner")
        writes = HeldWrites(loser.engine.store)
        seem_dead(dead)
        await workers.store.leases.release("dead")
        sending = loser.send("more", "m-2", task.id)
        await rounds()
        repeated = loser.send("go", "m-1", return_immediately=True)
        await workers.until(lambda: winner.engine.runs.working)
        writes.let_go()
        assert text_of(await workers.result(sending)) == "gomore"
        assert (await workers.result(repeated)).id == task.id


async def test_a_message_for_a_run_that_is_then_abandoned_goes_to_the_new_holder() -> None:
    go = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        await go.wait()
        yield "."
        yield await listen(turn)

    async with Workers(handler) as workers:
        old, new = await workers.join("old"), await workers.join("new")
        task = await old.start("go", "m-1")
        await rounds()
        writes = HeldWrites(old.engine.store)
        go.set()
        await rounds()
        sending = old.send("more", "m-2", task.id)  # waits behind what is being written
        await rounds()
        wake = seem_dead(old)
        await workers.until(lambda: new.engine.runs.working)
        wake()
        writes.let_go()
        assert text_of(await workers.result(sending)) == ".gomore"


async def test_a_message_that_comes_twice_to_a_worker_that_must_try_again_is_added_once() -> None:
    async def handler(turn: Turn) -> str:
        await turn.ask("And?")
        while len(turn.history) < 3:
            await asyncio.sleep(0)
        await rounds()
        return ",".join(message.text for message in turn.history)

    async with Workers(handler) as workers:
        one, other = await workers.join("one"), await workers.join("other")
        task = await one.start("go", "m-1")
        await rounds()
        writes = HeldWrites(one.engine.store)
        sends = [one.send("yes", "m-2", task.id) for _ in range(3)]
        await rounds()
        await other.send("more", "m-3", task.id, return_immediately=True)
        other.seem_dead()
        await workers.store.leases.release("other")
        writes.let_go()
        assert [text_of(each) for each in await workers.result(*sends)] == ["go,more,yes"] * 3


async def test_a_message_is_acknowledged_when_it_is_durable_and_is_no_repeat_if_it_never_was() -> None:
    """The write of one is refused, and another one waits behind it."""
    begun = asyncio.Event()

    async def handler(turn: Turn) -> Any:
        begun.set()
        await asyncio.Event().wait()

    agent, store = Agent("Agent", id="agent"), MemoryStore()
    agent.on_message(handler)
    async with Engine(store, agent, drain_seconds=0) as engine:

        def send(id: str, task: str | None = None) -> Any:
            message = Message(id, Role.USER, (TextPart(id),), task_id=task)
            return engine.agent("agent").send_message(SendMessageRequest(message, AT_ONCE))

        task = await send("m-1")
        await begun.wait()
        writes = HeldWrites(store)
        sends = [asyncio.create_task(send(id, task.id)) for id in ("m-2", "m-3")]
        await rounds()
        writes.let_go(StoreUnavailableError("The disk is full"))
        for sending in sends:
            with pytest.raises(UnavailableError):
                await sending
        for id in ("m-2", "m-3"):
            with pytest.raises(UnavailableError):
                await send(id, task.id)


@pytest.mark.parametrize("is_paused", [True, False])
async def test_callers_at_a_worker_that_lost_its_task_go_on_although_its_handler_does_nothing(is_paused: bool) -> None:
    """It was paused; or the clock of the store was set, so that it seemed dead and noticed nothing."""
    begun = list[str]()

    async def handler(turn: Turn) -> str:
        begun.append(turn.text)
        if len(begun) == 1:
            await asyncio.Event().wait()
        return "done"

    async with Workers(handler) as workers:
        old, _ = await workers.join("old"), await workers.join("new")
        task = await old.start("go", "m-1")
        sending, reading = old.send("go", "m-1"), old.follow(task)
        await rounds()
        wake = seem_dead(old)
        if not is_paused:
            await workers.store.leases.release("old")
        await workers.until(lambda: len(begun) == 2)
        wake()
        at = workers.clock.monotonic()
        finished, states = await workers.result(sending, reading)
        assert (text_of(finished), states[-1]) == ("done", TaskState.COMPLETED)
        assert old.engine.runs.working == 0
        assert workers.clock.monotonic() - at < Limits().lease_seconds


@pytest.mark.parametrize("is_known", [False, True])
async def test_many_tasks_of_an_agent_without_a_worker_or_without_room_hold_up_no_others(is_known: bool) -> None:
    begun = list[str]()

    async def handler(turn: Turn) -> None:
        begun.append(turn.text)
        await asyncio.Event().wait()

    async with Workers(handler, limits=Limits(runs_at_once=2)) as workers:
        first = await workers.join("first")
        other = Agent("Other", id="other")
        other.on_message(handler)
        first.engine.add(other)
        for number in range(350):
            message = Message(f"o-{number}", Role.USER, (TextPart("other"),))
            await first.engine.agent("other").send_message(SendMessageRequest(message, AT_ONCE))
        await workers.clock.advance(0.1)
        await first.start("mine", "m-1")
        await first.engine.drain()
        begun.clear()
        second = await workers.join("second")
        if is_known:
            second.engine.add(other)
        await rounds()
        assert sorted(begun) == ["mine"] + ["other"] * 2 * is_known


@pytest.mark.parametrize("replies_first", [False, True])
async def test_a_repeat_is_answered_as_before_when_the_agents_program_answers_in_another_way_now(
    replies_first: bool,
) -> None:
    async def handler(turn: Turn) -> str:
        return "done"

    async with Workers(handler, replies_directly=replies_first) as workers:
        worker = await workers.join("one")
        first = await workers.result(worker.send("go", "m-1"))
        other = Agent("Agent", id="agent", replies_directly=not replies_first)
        other.on_message(handler)
        worker.engine.replace(other)
        answers = await workers.result(worker.send("go", "m-1"), worker.send("go", "m-1"))
        assert isinstance(first, Message) is replies_first
        assert answers == [first, first]


@pytest.mark.parametrize("kind", ["cancel", "message"])
async def test_a_request_whose_caller_went_away_reaches_no_later_run(kind: str) -> None:
    gate = asyncio.Event()

    async def handler(turn: Turn) -> str:
        await gate.wait()
        await turn.ask("And?")
        await rounds()
        return ",".join(message.text for message in turn.history)

    async with Workers(handler) as workers:
        holder, other = await workers.join("holder"), await workers.join("other")
        task = await holder.start("go", "m-1")
        asking = other.cancel(task) if kind == "cancel" else other.send("stale", "m-2", task.id)
        await rounds()
        assert len(await workers.store.inbox.items("holder")) == 1
        asking.cancel()
        gate.set()
        await rounds()
        finished = await workers.result(holder.send("yes", "m-3", task.id))
        assert finished.status.state is TaskState.COMPLETED
        assert "stale" not in text_of(finished)
