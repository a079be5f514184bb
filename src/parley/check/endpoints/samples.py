"""Answers that several cases examine. Each is requested once; every case that uses it shows its exchange."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar, cast

from parley.check.findings import RecordedExchange, Unanswered, Undecided
from parley.client.errors import ClientError, UnreachableError
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.errors import A2AError, ParleyError, PeerProtocolError, RateLimitedError, UnavailableError
from parley.protocol.events import StreamEvent
from parley.protocol.lifecycle import ends_stream, is_interrupted, is_terminal
from parley.protocol.messages import Message
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

if TYPE_CHECKING:
    from parley.check.endpoints.probe import Probe

T = TypeVar("T")

ATTEMPTS = 5
"""Attempts to get an answer while the network fails or the server is busy."""
FIRST_POLL_PAUSE, MAX_POLL_PAUSE = 0.05, 2.0
"""Seconds between two polls of a running task: an echo is quick, and a slow model need not be polled often."""


def _unanswered(error: ParleyError) -> Unanswered:
    result = Unanswered(f"a plain message is answered with {type(error).__name__}: {error}")
    result.__cause__ = error
    return result


class Samples:
    """The samples of one endpoint."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._failures = 0
        self._taken: dict[str, tuple[Any, list[RecordedExchange]]] = {}
        self.kept: str | None = None
        """The id of a task that further cases need."""

    async def _once(self, name: str, take: Callable[[], Awaitable[T]]) -> T:
        recorder = self._probe.recorder
        if name in self._taken:
            outcome, exchanges = cast(tuple[T | Undecided, list[RecordedExchange]], self._taken[name])
            recorder.exchanges.extend(exchanges)
        else:
            begun = len(recorder.exchanges)
            try:
                outcome = await take()
            except Undecided as error:
                outcome = error
            except (RateLimitedError, UnavailableError, UnreachableError) as error:
                self._failures += 1
                if self._failures < ATTEMPTS:
                    raise  # the next case tries again
                outcome = _unanswered(error)
            except (A2AError, PeerProtocolError, ClientError) as error:
                outcome = _unanswered(error)
            self._taken[name] = (outcome, recorder.exchanges[begun:])
        if isinstance(outcome, Undecided):
            raise type(outcome)(outcome.message) from outcome.__cause__
        return outcome

    # --- the answer to a plain message --------------------------------------------------------------------------------

    async def answer(self) -> Task | Message:
        """The answer to a plain message. Raises Undecided if there is none."""
        return await self._once("answer", self._take)

    async def _take(self) -> Task | Message:
        """Send a message, and poll the task until it ends, asks a question, or takes too long."""
        probe = self._probe
        sample: Task | Message = await probe.call(ops.SEND_MESSAGE, probe.request())
        if isinstance(sample, Task):
            self.kept = sample.id
            sample = await self.settled(sample)
        return sample

    async def settled(self, task: Task) -> Task:
        """The task after it has ended or asked a question, or still running after the time for an answer."""
        probe = self._probe
        begun = len(probe.recorder.exchanges)
        try:
            async with asyncio.timeout(probe.options.timeout):
                pause = FIRST_POLL_PAUSE
                while not ends_stream(task.status.state):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, MAX_POLL_PAUSE)
                    task = await probe.call(ops.GET_TASK, r.GetTaskRequest(task.id))
                    del probe.recorder.exchanges[begun:-1]  # the last poll is enough
        except TimeoutError:
            pass  # it is reported as a running task
        probe.track(task)
        return task

    @property
    def is_unreadable(self) -> bool:
        """Whether a plain message was answered, but not in valid A2A."""
        outcome, _ = self._taken.get("answer", (None, []))
        return isinstance(outcome, Undecided) and isinstance(outcome.__cause__, PeerProtocolError)

    async def events(self) -> list[StreamEvent]:
        """The events of a plain message. Raises Undecided if there are none."""
        return await self._once("events", self._stream)

    async def _stream(self) -> list[StreamEvent]:
        probe = self._probe
        request = probe.request(return_immediately=False)
        seen: list[StreamEvent] = []
        async with aclosing(probe.events(ops.SEND_STREAMING_MESSAGE, request)) as events:
            async for event in events:
                probe.track(event)
                seen.append(event)
        return seen

    # --- tasks in a certain state -------------------------------------------------------------------------------------

    async def task(self) -> Task:
        """A task. Raises Undecided if the agent answers with messages."""
        sample = await self.answer()
        if isinstance(sample, Message):
            raise Undecided("the agent answers with a message and creates no task")
        return sample

    async def finished(self) -> Task:
        """A task in a terminal state, which it reached by itself or because it was cancelled."""
        task = await self.task()
        if is_terminal(task.status.state):
            return task
        return await self._once("finished", self._finish)

    async def _finish(self) -> Task:
        probe = self._probe
        started = await probe.call(ops.SEND_MESSAGE, probe.request())
        if not isinstance(started, Task):
            raise Undecided("this time the agent answers with a message")
        if ends_stream((await self.task()).status.state):  # cancelling a running task can race with its question
            started = await self.settled(started)
        if is_terminal(started.status.state):
            return started
        ended: Task = await probe.call(ops.CANCEL_TASK, r.CancelTaskRequest(started.id))
        if not is_terminal(ended.status.state):
            raise Undecided(f"no task has ended: one that was cancelled is {ended.status.state}")
        probe.track(ended)
        return ended

    async def quick(self) -> Task:
        """A task that ended or asked a question within the time for an answer, so that a case can wait for it."""
        task = await self.task()
        if not ends_stream(task.status.state):
            seconds = self._probe.options.timeout
            raise Undecided(f"the agent is slow: the task is still {task.status.state} after {seconds:g} seconds")
        return task

    async def interrupted(self) -> Task:
        """A task that waits for its caller."""
        task = await self.task()
        if not is_interrupted(task.status.state):
            raise Undecided(f"the agent asked no question (the task is {task.status.state})")
        return task

    async def running(self) -> Task:
        """A new task that is still running."""
        probe = self._probe
        await self.task()
        if probe.version is Version.V0_1:
            raise Undecided("0.1 has no way to start a task without waiting for it")
        task = await self.another()
        if is_terminal(task.status.state) or is_interrupted(task.status.state):
            raise Undecided("the agent is so quick that its task was not seen running")
        return task

    async def another(self) -> Task:
        """A new task. Raises Undecided if there is none this time."""
        probe = self._probe
        try:
            task = await probe.call(ops.SEND_MESSAGE, probe.request())
        except A2AError as error:
            raise Undecided(f"another message is answered with {type(error).__name__}: {error}") from error
        if not isinstance(task, Task):
            raise Undecided("another message is not answered with a task")
        return task
