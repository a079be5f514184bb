"""Streams that survive: one that breaks is taken up again where it broke, and no chunk comes twice.

With an agent that declares cursors, from the last number. No other agent says what it will send after a break: some
begin with a snapshot, some repeat what is in it, some leave out what happened meanwhile. So from then on what such an
agent streams is only a hint that there is something new; what it is, a look at the task tells, and the difference to
what was seen is told as events. Where nobody may subscribe, the task is looked at again and again. A stream that ends
before its task, and cannot be taken up again, ends in an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from parley.client.calls import Calls
from parley.client.errors import StreamTruncatedError, TimedOutError, UnreachableError
from parley.client.streams.streamed_task import GrowingTask
from parley.client.transports.transport import Received
from parley.protocol import operations as ops
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    MethodNotFoundError,
    ParleyError,
    PeerProtocolError,
    TaskNotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.extensions import CURSOR
from parley.protocol.lifecycle import ends_stream
from parley.protocol.messages import Message
from parley.protocol.operations import Operation
from parley.protocol.requests import GetTaskRequest, Request, SendMessageRequest, SubscribeToTaskRequest
from parley.protocol.tasks import Task

LOOK_SECONDS = 1.0
"""How often a task is read that cannot be followed: its agent does not stream, or lets nobody subscribe."""

FIRST_LOOK_SECONDS = 0.05
"""After which it is read for the second time; most tasks take little longer. The pauses double from there."""

LONGEST_SILENCE = 5.0
"""Seconds without an event after which a task is read that somebody has subscribed to; from there they double. To a
reader who came at the moment the task ended, some agents (a2a-sdk before 1.0) send heartbeats and nothing else."""

LAST_MOMENT = 1.0
"""Seconds that an agent has to close a stream after its last word, so that the connection can be used again."""

MOST_LATE_EVENTS = 100
"""What careless agents send after the last word is taken, but not without end."""

MOST_CONNECTIONS = 1_000
"""Over which one stream may be spread: 16 hours, if something in between cuts it every minute."""


class Following:
    """One stream, over as many connections as it takes. `seen` is the task as it has grown so far."""

    def __init__(self, calls: Calls, *, tenant: str | None = None) -> None:
        self.seen = GrowingTask()
        self._calls = calls
        self._tenant = tenant
        self._task_id: str | None = None
        self._has_numbers = calls.declares(CURSOR)
        self._cursor: str | None = None
        self._needs_looks = False
        self._waits = False
        self._is_continued = False
        self._is_answer = False
        self._looked_at = 0.0
        self._has_news = False
        self._connections = 1
        self._size = 0
        self._failures = 0
        self._broken_at = 0.0
        self._vain_streams = 0

    @property
    def cursor(self) -> str | None:
        """From where the stream can be taken up again, if the agent says so."""
        return self._cursor

    def begin_with(self, task: Task) -> None:
        """Take a task that was read a moment ago for the first event of a subscription to it."""
        for step in self._first_steps(task):
            self._take(step)

    async def events(
        self, operation: Operation, request: Request, *, after: str | None = None
    ) -> AsyncGenerator[StreamEvent]:
        """Every event once, until the stream's last word; those after a cursor, if one is given.

        Raises:
            StreamTruncatedError: it broke and could not be taken up again.
            UnreachableError: it broke before anything was known of a task.
            A2AError: the agent refuses, or reports that it failed.
            PeerProtocolError: the agent speaks of another task, or not in A2A.
        """
        self._cursor = after
        self._is_answer = isinstance(request, SendMessageRequest) and request.message.task_id is not None
        if isinstance(request, SubscribeToTaskRequest):
            self._task_id = request.task_id
            self._needs_looks = not self._has_numbers
            self._is_continued = after is not None
        source = self._calls.stream(operation, request, after=after)
        if self._needs_looks:
            source = self._attended(source)
        while True:
            problem: ParleyError | None = None
            try:
                async with aclosing(source):
                    async for received in source:
                        for step in await self._steps(received):
                            self._take(step)
                            yield step
                        if self._is_last_word:
                            break
                    for received in await self._late(source):
                        for step in await self._steps(received):
                            self._take(step)
                            yield step
                if self.seen.is_over or (self._is_continued and self.seen.task_id is None):
                    return  # the end, or there is nothing after the cursor
                self._vain_streams += 1
            except (UnreachableError, UnavailableError) as error:
                if self.seen.task_id is None:
                    raise
                if isinstance(error, TimedOutError) and not self._has_numbers:
                    self._vain_streams += 1  # silence is no failure: perhaps the agent thinks, and sends no heartbeats
                problem = error
            except A2AError as error:
                if self._connections == 1:
                    raise
                raise self._truncated(error) from _in_a_sentence(error)
            await self._pause(problem)
            source = self._again()

    async def looks(self, task_id: str | None = None) -> AsyncGenerator[StreamEvent]:
        """What looks at a task find, until nobody is at work on it: for agents that do not stream.

        It begins with the task, unless that was seen already.

        Raises:
            StreamTruncatedError: there was no news for too long, or nobody to ask for it.
        """
        self._task_id = self._task_id or task_id
        while not self.seen.is_over:
            try:
                async with aclosing(self._watch()) as looks:
                    async for received in looks:
                        for step in await self._steps(received):
                            self._take(step)
                            yield step
            except (UnreachableError, UnavailableError) as error:
                if self.seen.task_id is None:
                    raise
                await self._pause(error)

    # --- what is received ---------------------------------------------------------------------------------------------

    async def _steps(self, received: Received) -> list[StreamEvent]:
        """The events that something received stands for: itself, or what a look at the task knows beyond it."""
        event = received.event
        self._size += received.size
        if self._size > self._calls.bounds.stream_bytes:  # over all connections: each may be an endless one's next part
            raise PeerProtocolError(f"The stream has more than {self._calls.bounds.stream_bytes} bytes")
        self._check_subject(event)
        if self._has_numbers and received.cursor is not None:
            if self._was_received(received):
                return []
            self._cursor = received.cursor
        if self.seen.task_id is None and self._task_id is not None and not self._is_continued:
            return self._first_steps(event if isinstance(event, Task) else await self._look())
        if self.seen.task_id is None and self._is_answer and isinstance(event, Task):
            return self._first_steps(event)
        if isinstance(event, Task) and self.seen.task_id is not None:
            return self._news(event)
        if not self._needs_looks or isinstance(event, Message):
            if isinstance(event, StatusUpdate) and ends_stream(event.status.state):
                return [*await self._unstreamed(event), event]
            return [event]
        if isinstance(event, StatusUpdate) and not self.seen.is_over and not _ends(event):
            # A word on how it goes on. If it is an old one, it does no harm while the task is at work.
            return [] if event.status == self.seen.status else [event]
        if isinstance(event, ArtifactUpdate) and self.seen.has(event):
            return []  # probably an old one; if not, the next look finds it
        return self._news(await self._look())

    def _first_steps(self, task: Task) -> list[StreamEvent]:
        """What somebody who subscribes or answers may get first: the task as it stood.

        One that waits is not the end then: what comes next is asked for.
        """
        self._waits = ends_stream(task.status.state)
        return [task]

    def _news(self, snapshot: Task) -> list[StreamEvent]:
        if self.seen.is_ahead_of(snapshot):
            return []
        news = self.seen.difference(snapshot)
        self.seen.learn(snapshot)
        return news

    async def _unstreamed(self, end: StatusUpdate) -> list[StreamEvent]:
        """What an agent has made by its last word and did not stream: some (fasta2a) keep it for who reads the task."""
        has_answer = self.seen.has_answer or end.status.message is not None
        if has_answer or self.seen.is_over or self._has_numbers:
            return []
        with suppress(UnreachableError, A2AError):  # the end is the end, also where nobody knows more
            snapshot = await self._look(end.task_id)
            if snapshot.status.state is end.status.state:
                return [step for step in self._news(snapshot) if isinstance(step, ArtifactUpdate)]
        return []

    def _take(self, step: StreamEvent) -> None:
        self.seen.add(step)
        self._waits = self._waits and self.seen.is_over
        self._has_news = True
        self._failures = self._vain_streams = 0  # only news count: an agent may close each stream after a snapshot

    @property
    def _is_last_word(self) -> bool:
        return self.seen.is_over and (self.seen.has_ended or not self._waits)

    def _check_subject(self, event: StreamEvent) -> None:
        """Refuse what belongs to another task."""
        expected = self.seen.task_id or self._task_id
        subject = event.id if isinstance(event, Task) else event.task_id
        if expected is not None and subject is not None and subject != expected:
            raise PeerProtocolError(f"The stream of task {expected} speaks of another: {subject[:50]}")

    def _was_received(self, received: Received) -> bool:
        """Whether an event came before. A task that had ended is told twice under one number: whole, and its status."""
        number, last = _number(received.cursor), _number(self._cursor)
        if number is None or last is None or number > last:
            return False
        event = received.event
        is_echo = number == last and isinstance(event, StatusUpdate) and event.status == self.seen.status
        return not (is_echo and self.seen.is_untouched)

    async def _late(self, source: AsyncGenerator[Received]) -> list[Received]:
        """What comes after the last word, until the agent closes or has had its time."""
        late: list[Received] = []
        with suppress(TimeoutError, ParleyError):
            async with asyncio.timeout(LAST_MOMENT):
                async for received in source:
                    late.append(received)
                    if len(late) == MOST_LATE_EVENTS:
                        break
        return late

    # --- and again ----------------------------------------------------------------------------------------------------

    async def _again(self) -> AsyncGenerator[Received]:
        """The stream from where it broke, or looks at the task where nobody may subscribe to it."""
        self._connections += 1
        if self._vain_streams <= 1:
            request = SubscribeToTaskRequest(self.seen.task_id or "", tenant=self._tenant)
            self._needs_looks = self._needs_looks or self._cursor is None
            try:
                source = self._calls.stream(ops.SUBSCRIBE_TO_TASK, request, after=self._cursor)
                async with aclosing(self._attended(source) if self._needs_looks else source) as events:
                    async for received in events:
                        yield received
                return
            except (UnsupportedOperationError, MethodNotFoundError, InvalidParamsError, TaskNotFoundError):
                pass  # it has ended meanwhile, or the agent does not let anybody subscribe
        async with aclosing(self._watch()) as looks:
            async for received in looks:
                yield received

    async def _attended(self, source: AsyncGenerator[Received]) -> AsyncGenerator[Received]:
        """What a subscription gives, and the task as it stands whenever that was nothing for a while."""
        silence = LONGEST_SILENCE
        async with aclosing(source):
            while True:
                coming = asyncio.ensure_future(anext(source, None))
                try:
                    while not (await asyncio.wait([coming], timeout=silence))[0]:
                        silence *= 2
                        with suppress(UnreachableError, A2AError):  # the subscription still stands
                            yield Received(await self._look())
                    received = await coming
                finally:
                    coming.cancel()
                    await asyncio.wait([coming])
                if received is None:
                    return
                silence = LONGEST_SILENCE
                yield received

    async def _watch(self) -> AsyncGenerator[Received]:
        """The task as it stands, again and again until it is over or has had no news for too long."""
        self._needs_looks, self._has_numbers, self._cursor = True, False, None
        without_news, pause = 0.0, FIRST_LOOK_SECONDS
        while without_news < self._calls.timeouts.reply:
            task = await self._look()
            self._has_news = False
            yield Received(task)  # and whoever gets it says whether there is news in it
            if self.seen.is_over:
                return
            await self._calls.sleep(pause)
            without_news = 0.0 if self._has_news else without_news + pause
            pause = min(pause * 2, LOOK_SECONDS)
        raise self._truncated()

    async def _look(self, named: str = "") -> Task:
        """The task as it stands now, not more often than makes sense. `named` is its id, if no event was taken yet."""
        now = asyncio.get_running_loop().time
        pause = self._looked_at + self._calls.retries.first_pause - now()
        if pause > 0:
            await self._calls.sleep(pause)
        task_id = self.seen.task_id or self._task_id or named
        task = await self._calls.call(ops.GET_TASK, GetTaskRequest(task_id, tenant=self._tenant))
        self._looked_at = now()
        if not isinstance(task, Task):
            raise PeerProtocolError("The agent has no task where it had one")
        return task

    async def _pause(self, problem: ParleyError | None) -> None:
        now, retries = self._calls.clock(), self._calls.retries
        self._broken_at = now if self._failures == 0 else self._broken_at
        self._failures += 1
        has_lasted = self._failures > retries.attempts and now - self._broken_at >= retries.outage
        if (problem is not None and has_lasted) or self._connections >= MOST_CONNECTIONS:
            raise self._truncated(problem) from _in_a_sentence(problem)
        pause = retries.first_pause * 2.0 ** min(self._failures - 1, 20)
        await self._calls.sleep(min(pause, retries.longest_pause))

    def _truncated(self, problem: ParleyError | None = None) -> StreamTruncatedError:
        text = "The stream ended before its task did, and could not be taken up again"
        because = f": {problem}" if problem is not None else ""
        return StreamTruncatedError(f"{text}{because}", task_id=self.seen.task_id, cursor=self._cursor)


def _in_a_sentence(problem: ParleyError | None) -> ParleyError | None:
    """The same without its history: of the last of many attempts nobody wants to read how each layer saw it."""
    if problem is None:
        return None
    problem.__cause__ = None
    return problem.with_traceback(None)


def _ends(event: StatusUpdate) -> bool:
    return event.final or ends_stream(event.status.state)


def _number(cursor: str | None) -> int | None:
    return int(cursor) if cursor and cursor.isascii() and cursor.isdigit() and len(cursor) < 16 else None
