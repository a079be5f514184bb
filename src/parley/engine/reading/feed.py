"""Live events: readers of a task get what was committed, and the writer never waits for them.

Readers pull (see `following`). What is kept in memory for them is bounded in number and in bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from typing import TypeAlias

from msgspec import Struct

from parley.engine.limits import Limits
from parley.engine.reading.sizes import size_of_event
from parley.protocol.errors import ParleyError, TaskNotFoundError, UnavailableError
from parley.protocol.events import TaskEvent
from parley.protocol.lifecycle import fold
from parley.protocol.tasks import Task
from parley.stores.interface import Store, TaskKey

NumberedEvent: TypeAlias = tuple[int, TaskEvent]
"""An event with its number in the task's log."""


class Feed(Struct, eq=False):
    """The recent events of one task, and the readers that wait for the next."""

    limits: Limits
    agent: str
    failure: ParleyError | None = None
    """Why its readers were cut off; a new reader needs another feed."""
    users: int = 0
    last_seq: int = 0
    on_publish: Callable[[], None] | None = None
    """Called after everything published, for the deliveries of a task with webhooks."""
    _first_seq: int = 1
    _events: list[TaskEvent] = []
    _sizes: list[int] = []
    _bytes: int = 0
    _waiting: list[asyncio.Future[None]] = []

    def publish(self, first_seq: int, events: Sequence[TaskEvent]) -> None:
        """Show events that were just committed."""
        recent = self._events
        if first_seq != self.last_seq + 1:  # another worker wrote as well
            self.note(first_seq - 1)
            first_seq, events = self.last_seq + 1, events[self.last_seq + 1 - first_seq :]
        recent.extend(events)
        self.last_seq = first_seq + len(events) - 1
        sizes = [size_of_event(event) for event in events]
        self._sizes += sizes
        self._bytes += sum(sizes)
        # Twice what is to be kept, and so seldom that it costs nothing per event.
        if len(recent) > 2 * self.limits.events_in_memory or self._bytes > 2 * self.limits.bytes_in_memory:
            self._forget()
        if self._waiting:
            self._wake()
        if self.on_publish is not None:
            self.on_publish()

    def note(self, seq: int) -> None:
        """Note that another worker has written events up to a number. Readers get them from the store."""
        if seq > self.last_seq:
            self.correct(seq)
            self._wake()

    def correct(self, seq: int) -> None:
        """Set the number of the task's last event, also to a lower one: a hint may be wrong. Memory is emptied."""
        self._events.clear()
        self._sizes.clear()
        self._bytes = 0
        self.last_seq = seq
        self._first_seq = seq + 1

    @property
    def is_awaited(self) -> bool:
        """Whether a reader waits for events."""
        return bool(self._waiting)

    def _forget(self) -> None:
        """Keep the newest events, as many as there is room for."""
        self._bytes = kept = 0
        for size in reversed(self._sizes[-self.limits.events_in_memory :]):
            if self._bytes + size > self.limits.bytes_in_memory:
                break
            self._bytes += size
            kept += 1
        self._first_seq = self.last_seq + 1 - kept
        forgotten = len(self._events) - kept
        del self._events[:forgotten], self._sizes[:forgotten]

    def fail(self, error: ParleyError) -> None:
        """Cut all readers off with an error."""
        self.failure = error
        self._wake()

    def since(self, cursor: int) -> list[NumberedEvent] | None:
        """The events after a number, or None if memory does not reach back so far."""
        if self.last_seq <= cursor:
            return []
        start = cursor + 1 - self._first_seq
        if start < 0:
            return None
        return list(enumerate(self._events[start:], cursor + 1))

    def whole_task(self) -> Task | None:
        """The task, if memory reaches back to its beginning."""
        if not self._events or self._first_seq != 1:
            return None
        return fold(None, self._events)

    async def wait(self) -> None:
        """Return when something was published, or the readers were cut off.

        What was published before that is still to be read: the next wait raises.

        Raises:
            UnavailableError: the task cannot be followed any longer; its reader may come back with its cursor.
        """
        self._check()
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        except BaseException:
            if future in self._waiting:  # a reader that goes away, not one that was woken
                self._waiting.remove(future)
            raise

    def _check(self) -> None:
        if self.failure is not None:
            raise copy(self.failure)  # a copy per reader: the traceback refers to the reader's objects

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Feeds:
    """The feeds of all tasks that have a run or a reader. A task that has neither costs nothing here."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self._store = store
        self._limits = limits
        self._feeds: dict[TaskKey, Feed] = {}
        self._failure: ParleyError | None = None
        self._polls = 0

    def use(self, key: TaskKey, agent: str) -> Feed:
        """The feed of a task of an agent; its user calls `release` in the end."""
        feed = self._feeds.get(key)
        if feed is None or feed.failure is not None:
            feed = self._feeds[key] = Feed(self._limits, agent, self._failure)
        feed.users += 1
        return feed

    def release(self, key: TaskKey, feed: Feed) -> None:
        """Stop using a feed."""
        feed.users -= 1
        if feed.users == 0 and self._feeds.get(key) is feed:
            del self._feeds[key]

    def get(self, key: TaskKey) -> Feed | None:
        """The feed of a task, if it is in use."""
        return self._feeds.get(key)

    async def poll(self, is_written_here: Callable[[TaskKey], bool], *, parts: int = 1) -> None:
        """Look for new events of the tasks that have waiting readers and are written by other workers.

        With several `parts`, each call looks at one part of the tasks, and the next call at the next part.
        """
        self._polls += 1
        for key, feed in tuple(self._feeds.items()):
            if feed.is_awaited and not is_written_here(key) and hash(key) % parts == self._polls % parts:
                await self.look(key)

    async def look(self, key: TaskKey) -> None:
        """Look for new events of a task that another worker writes, if it has readers here."""
        head, feed = await self._store.tasks.head(key), self._feeds.get(key)
        if feed is None:
            return
        if head is None:
            self.forget(key)
        else:
            feed.note(head.last_seq)

    def forget(self, key: TaskKey) -> None:
        """End the streams of a task that was deleted, once they have shown what is in memory."""
        feed = self._feeds.get(key)
        if feed is not None:
            feed.fail(TaskNotFoundError.for_task(key.task_id))

    async def verify(self, key: TaskKey, feed: Feed, seq: int) -> None:
        """Find out why a task does not have the event that its feed knows of, and correct the feed.

        Raises:
            TaskNotFoundError: the task was deleted before its reader had read it.
        """
        head = await self._store.tasks.head(key)
        if head is None:
            raise TaskNotFoundError.for_task(key.task_id)
        if head.last_seq < seq == feed.last_seq:
            feed.correct(head.last_seq)

    def fail_all(self) -> None:
        """Cut all readers off because the engine stops, also those still to come; their cursors stay good."""
        self._failure = UnavailableError("The agent is restarting; subscribe again from the last event")
        for feed in list(self._feeds.values()):
            feed.fail(self._failure)

    async def page(self, key: TaskKey, *, after: int) -> list[NumberedEvent]:
        """Events after a number from the store, as many as a reader gets at once."""
        limits = self._limits
        return list(
            await self._store.tasks.events(key, after=after, limit=limits.page_events, size=limits.page_characters)
        )
