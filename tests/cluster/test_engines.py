"""Engines with carriers: what one writes reaches readers at another, also after hints were lost, in few reads."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from parley.agents.agent import Agent
from parley.agents.turn import Turn
from parley.cluster.carrier import ConnectedHints
from parley.cluster.hints import AnyHint, Hints, LocalHints, LookHint, SentHint
from parley.cluster.nats import NatsTransport
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.protocol.events import ArtifactUpdate
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest, SubscribeToTaskRequest
from parley.protocol.tasks import Task
from parley.server.app import App
from parley.stores.memory import MemoryDatabase, MemoryStore
from tests.deadlines import fail_after
from tests.services.nats import Nats

pytestmark = pytest.mark.anyio

NEVER = Limits(poll_seconds=3600)


class LostHints(LocalHints):
    """Hints that get lost, until the listeners are told to look."""

    def publish(self, hint: SentHint) -> None:
        pass

    def tell_to_look(self) -> None:
        self._listeners.tell(LookHint())


@asynccontextmanager
async def two_engines(agent: Agent, a: Hints, b: Hints) -> AsyncGenerator[tuple[Engine, Engine]]:
    database = MemoryDatabase()
    async with AsyncExitStack() as stack:
        engines = [
            await stack.enter_async_context(
                Engine(MemoryStore(database), agent, hints=hints, limits=NEVER, drain_seconds=0)
            )
            for hints in (a, b)
        ]
        stack.enter_context(fail_after(30))
        yield engines[0], engines[1]


async def begin(engine: Engine) -> Task:
    message = Message("m-1", Role.USER, (TextPart("go"),))
    configuration = SendConfiguration(return_immediately=True)
    task = await engine.agent("counter").send_message(SendMessageRequest(message, configuration=configuration))
    assert isinstance(task, Task)
    return task


def counter(gate: asyncio.Event, numbers: int) -> Agent:
    agent = Agent("Counter", id="counter")

    @agent.on_message
    async def count(_turn: Turn) -> Any:
        yield "0 "
        await gate.wait()
        for number in range(1, numbers):
            yield f"{number} "
            await asyncio.sleep(0)

    return agent


async def text_at(engine: Engine, task: Task, has_begun: asyncio.Event) -> str:
    text = ""
    async for batch in engine.agent("counter").subscribe_to_task(SubscribeToTaskRequest(task.id), after=0):
        for _, event in batch:
            if isinstance(event, ArtifactUpdate):
                text += "".join(part.text for part in event.artifact.parts if isinstance(part, TextPart))
        has_begun.set()
    return text


async def looking_until(is_so: Callable[[], bool], hints: LostHints) -> None:
    while not is_so():
        hints.tell_to_look()
        await asyncio.sleep(0.01)


async def test_an_engine_that_is_told_to_look_finds_what_lost_hints_were_about() -> None:
    gate, has_begun, hints = asyncio.Event(), asyncio.Event(), LostHints()
    async with two_engines(counter(gate, 3), hints, hints) as (a, b):
        task = await begin(a)
        reading = asyncio.create_task(text_at(b, task, has_begun))
        await looking_until(has_begun.is_set, hints)
        gate.set()
        await looking_until(reading.done, hints)
        assert reading.result() == "0 1 2 "


async def test_a_reader_at_another_engine_sees_everything_in_far_fewer_reads_than_events(nats_server: Nats) -> None:
    gate, has_begun, reads = asyncio.Event(), asyncio.Event(), list[int]()
    url, numbers = f"{nats_server.url}/engines", 2000
    async with ConnectedHints(NatsTransport(url)) as over_a, ConnectedHints(NatsTransport(url)) as over_b:
        heard = list[AnyHint]()
        over_b.listen(heard.append)
        async with two_engines(counter(gate, numbers), over_a, over_b) as (a, b):
            page = b.feeds.page

            async def counted(*arguments: Any, **options: Any) -> Any:
                reads.append(1)
                return await page(*arguments, **options)

            b.feeds.page = counted
            task = await begin(a)
            reading = asyncio.create_task(text_at(b, task, has_begun))
            await has_begun.wait()
            gate.set()
            assert await reading == "".join(f"{number} " for number in range(numbers))
    assert len(reads) <= 2 * len(heard) + 10  # a page may be full, and the last one empty
    assert len(heard) < numbers / 2


async def test_an_app_opens_its_carrier_before_its_engine_and_closes_it_afterwards() -> None:
    happened = list[str]()

    class Recording(LocalHints):
        async def __aenter__(self) -> Recording:
            happened.append("opened")
            return self

        async def __aexit__(self, *_: object) -> None:
            happened.append("closed")

        def listen(self, listener: Any) -> Any:
            happened.append("listens")
            stop = super().listen(listener)
            return lambda: (happened.append("stopped"), stop())

    async with App(counter(asyncio.Event(), 1), hints=Recording()).running():
        assert happened == ["opened", "listens"]
    assert happened == ["opened", "listens", "stopped", "closed"]
