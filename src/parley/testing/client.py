"""An agent under test, in process: no server, no ports, and a restart is one line.

    async with running(agent) as client:
        task = await client.send("100 USD in EUR")
        assert client.text(task) == "100 USD is 92.00 EUR."

`client.crash()` acts like the end of the process: nothing more is written. `client.crash_when(…)` does so after a
chosen event, and `client.restart()` is the next process on the same store.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import cast

from msgspec import structs

from parley.contents import Content, parts_of
from parley.engine.caller import ANONYMOUS_CALLER, Caller
from parley.engine.clock import Clock
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.engine.observer import Observer
from parley.engine.operations import AgentOperations
from parley.engine.program import FileSource, Program
from parley.engine.reading.following import Numbered
from parley.engine.webhooks.deliveries import Deliveries, Sender
from parley.protocol.errors import LocalProtocolError
from parley.protocol.events import StreamEvent, TaskEvent
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Role, text_of
from parley.protocol.requests import (
    CancelTaskRequest,
    GetTaskRequest,
    SendConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
)
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.stores.interface import Store, TaskKey, Write
from parley.stores.memory import MemoryStore
from parley.testing.clock import FakeClock
from parley.testing.crashing_store import CrashingStore, Decide


@dataclass(eq=False)
class AgentClient:
    """A caller of an agent under test, which it runs."""

    program: Program
    store: Store
    clock: Clock
    limits: Limits
    caller: Caller
    observer: Observer | None = None
    sender: Sender | None = None
    others: Sequence[Program] = ()
    """More agents on the same engine, to which the agent may delegate."""
    files: FileSource | None = None

    def __post_init__(self) -> None:
        self._ids = count(1)
        self._messages = count(1)
        self.deliveries: Deliveries | None = None
        self._engine: Engine | None = None
        self._crashing_store: CrashingStore | None = None

    @property
    def engine(self) -> Engine:
        """The engine that runs the agent.

        Raises:
            LocalProtocolError: it has crashed, or was not started.
        """
        if self._engine is None:
            raise LocalProtocolError("The agent is not running; restart it")
        return self._engine

    @property
    def agent(self) -> AgentOperations:
        """The operations on the agent's tasks. Raises as `engine` does."""
        return self.engine.agent(self.program.id)

    # --- calls --------------------------------------------------------------------------------------------------------

    def message(
        self, *contents: Content, task: Task | str | None = None, metadata: JsonObject | None = None
    ) -> Message:
        """A message to the agent, for a task if one is given."""
        task_id = task.id if isinstance(task, Task) else task
        number = next(self._messages)
        return Message(f"message-{number}", Role.USER, parts_of(contents), None, task_id, metadata or {})

    async def send(
        self, *contents: Content, task: Task | str | None = None, metadata: JsonObject | None = None
    ) -> Task:
        """Send text, data or files, and wait for the task to end or to ask something.

        Raises:
            LocalProtocolError: the agent replied with a message, which `exchange` returns.
        """
        answer = await self.exchange(*contents, task=task, metadata=metadata)
        if not isinstance(answer, Task):
            raise LocalProtocolError("The agent replied with a message and has no task; use `client.exchange(…)`")
        return answer

    async def exchange(
        self, *contents: Content, task: Task | str | None = None, metadata: JsonObject | None = None
    ) -> Task | Message:
        """Send text, data or files, and wait for the task or the message that the agent replies with."""
        request = SendMessageRequest(self.message(*contents, task=task, metadata=metadata))
        return await self.agent.send_message(request, self.caller)

    async def start(self, *contents: Content, task: Task | str | None = None) -> Task:
        """Send text, data or files, and return at once."""
        configuration = SendConfiguration(return_immediately=True)
        request = SendMessageRequest(self.message(*contents, task=task), configuration)
        started = await self.agent.send_message(request, self.caller)
        assert isinstance(started, Task)
        return started

    async def stream(self, *contents: Content, task: Task | str | None = None) -> AsyncIterator[StreamEvent]:
        """Send text, data or files, and get every event: the task, then its updates."""
        request = SendMessageRequest(self.message(*contents, task=task))
        async for batch in self.agent.send_streaming_message(request, self.caller):
            for _, event in batch:
                yield event

    async def get(self, task: Task | str) -> Task:
        """Read a task."""
        return await self.agent.get_task(GetTaskRequest(_id(task)), self.caller)

    async def cancel(self, task: Task | str) -> Task:
        """Cancel a task."""
        return await self.agent.cancel_task(CancelTaskRequest(_id(task)), self.caller)

    async def follow(self, task: Task | str, *, after: int | None = None) -> AsyncIterator[Numbered]:
        """The task's events with their numbers, from a snapshot or from a cursor."""
        request = SubscribeToTaskRequest(_id(task))
        async for batch in self.agent.subscribe_to_task(request, self.caller, after=after):
            for numbered in batch:
                yield numbered

    async def finished(self, task: Task | str) -> Task:
        """The task when it has ended or waits for its caller."""
        async for _ in self.follow(task, after=0):
            pass
        return await self.get(task)

    async def asleep(self, task: Task | str) -> datetime | None:
        """When the task is to wake, after its run has ended; None if it does not sleep.

        `await client.asleep(task)`, then `await clock.advance(…)`, then `await client.finished(task)`.
        """
        key = TaskKey(self.caller.owner, _id(task))
        if run := self.engine.runs.find(key):
            await run.wait_for_end()
        head = await self.store.tasks.head(key)
        return head.wake_at if head is not None else None

    @staticmethod
    def text(task: Task) -> str:
        """All text in the artifacts of a task."""
        parts = [part for artifact in task.artifacts for part in artifact.parts]
        return text_of(parts)

    # --- restarts and crashes -----------------------------------------------------------------------------------------

    async def restart(self) -> None:
        """Start the agent: for the first time, or again on the same store after a crash."""
        await self.store.open()
        self._crashing_store = CrashingStore(self.store)
        if self.sender is not None:
            self.deliveries = Deliveries(self.store, self.sender, clock=self.clock, observer=self.observer)
            await self.deliveries.start()
        engine = Engine(
            cast("Store", self._crashing_store),
            self.program,
            *self.others,
            limits=self.limits,
            clock=self.clock,
            new_id=self._new_id,
            drain_seconds=0,
            observer=self.observer,
            deliveries=self.deliveries,
            files=self.files,
        )
        self._engine = await engine.__aenter__()

    async def crash(self) -> None:
        """Act like the end of the process: the store gets no more writes, from now on."""
        if self._engine is not None and self._crashing_store is not None:
            engine, self._engine = self._engine, None
            self._crashing_store.has_crashed = True
            await engine.__aexit__()
            await self._stop_deliveries()
            await self.store.close()

    async def crash_when(self, matches: Callable[[TaskEvent], bool]) -> None:
        """Crash right after the first matching event is written, before the engine learns of it.

        `await client.crash_when(lambda event: isinstance(event, StepRecorded))`
        """
        await self.crash_at(
            lambda write: "after" if isinstance(write, Write) and any(map(matches, write.events)) else None
        )

    async def crash_at(self, decide: Decide) -> None:
        """Crash right before or after the first write for which `decide` says so."""
        if self._crashing_store is not None:
            self._crashing_store.decide = decide
            await self._crashing_store.crashed.wait()
        await self.crash()

    async def stop(self) -> None:
        """Stop the agent in good order."""
        if self._engine is not None:
            engine, self._engine = self._engine, None
            await engine.__aexit__()
            await self._stop_deliveries()
            await self.store.close()

    async def _stop_deliveries(self) -> None:
        if self.deliveries is not None:
            await self.deliveries.stop(grace=0)

    def _new_id(self) -> str:
        return f"id-{next(self._ids)}"

    def as_caller(
        self,
        *,
        name: str | None = None,
        tenant: str | None = None,
        scopes: frozenset[str] | None = None,
        claims: JsonObject | None = None,
        version: Version | None = None,
    ) -> AgentClient:
        """The same agent, with a caller that differs in these members."""
        members = {"name": name, "tenant": tenant, "scopes": scopes, "claims": claims, "version": version}
        other = copy(self)
        other.caller = structs.replace(
            self.caller, **{key: value for key, value in members.items() if value is not None}
        )
        other._messages = count(1_000_000)  # pyright: ignore[reportPrivateUsage]
        return other


@asynccontextmanager
async def running(
    program: Program,
    *,
    store: Store | None = None,
    clock: Clock | None = None,
    limits: Limits | None = None,
    caller: Caller = ANONYMOUS_CALLER,
    observer: Observer | None = None,
    sender: Sender | None = None,
    others: Sequence[Program] = (),
    files: FileSource | None = None,
) -> AsyncGenerator[AgentClient]:
    """Runs an agent in this process, with scripted time unless a clock is given.

    `sender` calls its webhooks; `others` are more agents on the same engine, to which it may delegate; `files` fetches
    files that messages name by URL.
    """
    client = AgentClient(
        program,
        store or MemoryStore(),
        clock or FakeClock(),
        limits or Limits(),
        caller,
        observer,
        sender,
        others,
        files,
    )
    await client.restart()
    try:
        yield client
    finally:
        await client.stop()


def _id(task: Task | str) -> str:
    return task.id if isinstance(task, Task) else task
