"""Live events: how readers of a task learn of what was committed, without the writer ever waiting for them.

A reader pulls. Recent events come from memory; a reader that has fallen behind takes pages from the store and catches
up. It sees each event after its cursor once, in order, and only after it is durable. It ends after the event that ends
the stream, or with an error that cannot be mistaken for the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Sequence

from parley.engine.limits import Limits
from parley.protocol.errors import ParleyError, UnavailableError
from parley.protocol.events import StatusUpdate, TaskEvent
from parley.protocol.lifecycle import ends_stream, fold
from parley.protocol.tasks import Task
from parley.stores.interface import TaskKey, TaskLog


class Feed:
    """The recent events of one task, and those who wait for the next."""

    def __init__(self, limits: Limits) -> None:
        self.users = 0
        self.last_seq = 0
        self._recent: deque[tuple[int, TaskEvent]] = deque(maxlen=limits.events_in_memory)
        self._waiting: list[asyncio.Future[None]] = []
        self._failure: ParleyError | None = None

    def publish(self, first_seq: int, events: Sequence[TaskEvent]) -> None:
        """Show events that were just committed."""
        self._recent.extend(enumerate(events, start=first_seq))
        self.last_seq = first_seq + len(events) - 1
        self._wake()

    def fail(self, error: ParleyError) -> None:
        """Cut all readers off with an error."""
        self._failure = error
        self._wake()

    def since(self, cursor: int) -> list[tuple[int, TaskEvent]] | None:
        """The events after a number, or None if memory does not reach back so far."""
        if self.last_seq <= cursor:
            return []
        if not self._recent or self._recent[0][0] > cursor + 1:
            return None
        missing = self.last_seq - cursor
        if missing == 1:
            return [self._recent[-1]]
        return list(self._recent)[-missing:]

    def whole_task(self) -> Task | None:
        """The task, if memory reaches back to its beginning."""
        if not self._recent or self._recent[0][0] != 1:
            return None
        return fold(None, [event for _, event in self._recent])

    async def wait(self) -> None:
        """Return when something was published.

        Raises:
            UnavailableError: the task cannot be followed any longer; its reader may come back with its cursor.
        """
        if self._failure is not None:
            raise self._failure
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            await future
        finally:
            if not self._is_woken(future):
                self._waiting.remove(future)
        if self._failure is not None:
            raise self._failure

    def _is_woken(self, future: asyncio.Future[None]) -> bool:
        return future.done() and not future.cancelled()

    @property
    def has_failed(self) -> bool:
        """Whether its readers were cut off; whoever comes now needs another one."""
        return self._failure is not None

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


class Feeds:
    """The feeds of all tasks that have a run or a reader. A task that has neither costs nothing here."""

    def __init__(self, log: TaskLog, limits: Limits) -> None:
        self._log = log
        self._limits = limits
        self._feeds: dict[TaskKey, Feed] = {}

    def use(self, key: TaskKey) -> Feed:
        """The feed of a task; whoever uses it calls `release` in the end."""
        feed = self._feeds.get(key)
        if feed is None or feed.has_failed:
            feed = self._feeds[key] = Feed(self._limits)
        feed.users += 1
        return feed

    def release(self, key: TaskKey, feed: Feed) -> None:
        """Say that a user of the feed is gone."""
        feed.users -= 1
        if feed.users == 0 and self._feeds.get(key) is feed:
            del self._feeds[key]

    def get(self, key: TaskKey) -> Feed | None:
        """The feed of a task, if somebody uses it."""
        return self._feeds.get(key)

    def fail_all(self) -> None:
        """Cut all readers off because the engine stops; their cursors stay good."""
        for feed in list(self._feeds.values()):
            feed.fail(UnavailableError("The agent is restarting; subscribe again from the last event"))

    async def follow(self, key: TaskKey, *, after: int, until: int = 0) -> AsyncGenerator[tuple[int, TaskEvent]]:
        """Every event after a number, as it is committed, up to the first at or after `until` that ends a stream.

        Raises:
            UnavailableError: the stream was cut; the reader may come back with its cursor.
        """
        feed = self.use(key)
        try:
            cursor = after
            # A feed that has seen nothing yet does not know what was committed before.
            batch = feed.since(cursor) if feed.last_seq else None
            while True:
                if batch is None:
                    batch = await self._log.events(key, after=cursor, limit=self._limits.page_events)
                for seq, event in batch:
                    yield seq, event
                    cursor = seq
                    if seq >= until and isinstance(event, StatusUpdate) and ends_stream(event.status.state):
                        return
                if len(batch) == self._limits.page_events:
                    batch = None
                    continue
                while (batch := feed.since(cursor)) == []:
                    await feed.wait()
        finally:
            self.release(key, feed)
