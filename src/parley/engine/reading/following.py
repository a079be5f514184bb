"""Following a task: every event after a number, once it is durable, in batches that the reader pulls.

Recent events come from the task's feed. A reader that has fallen behind takes pages from the store and catches up. It
sees each event after its cursor once, in order. It ends after the event that ends the stream, or with an error that
cannot be mistaken for the end. A reader that waits holds no event.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from parley.engine.reading.feed import Feed, Feeds, NumberedEvent
from parley.engine.store_errors import translated
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.stores.interface import TaskKey

Numbered: TypeAlias = tuple[int, StreamEvent]
"""A stream event with its number in the task's log: the cursor from which its reader can come back."""
Batch: TypeAlias = list[Numbered]
"""Stream events that were there at the same moment; never none.

A batch belongs to its reader, who empties it, so that nothing on the way to the reader holds what it has read."""
Start: TypeAlias = "Callable[[Follower], Awaitable[None]]"
"""What a follower does before its first batch: it calls `begin` or `finish_with`, or neither if there is no event."""


class Follower:
    """A task's events for one reader: `async for batch in follower: …`, and `aclose` in the end.

    It starts when its reader wants the first batch.
    """

    __slots__ = ("_cursor", "_feed", "_feeds", "_has_ended", "_is_live", "_key", "_opening", "_start", "_until")

    def __init__(self, feeds: Feeds, start: Start) -> None:
        self._feeds = feeds
        self._start: Start | None = start
        self._feed: Feed | None = None
        self._key: TaskKey | None = None
        self._opening: Batch = []
        self._cursor = self._until = 0
        self._is_live = False
        self._has_ended = True

    # --- for those who start it ---------------------------------------------------------------------------------------

    def use(self, key: TaskKey, agent: str) -> None:
        """Keep what is published from now on in memory, whatever becomes of the task's run."""
        if self._feed is None:
            self._key, self._feed = key, self._feeds.use(key, agent)

    def begin(self, *, after: int, until: int = 0, opening: Batch | None = None) -> None:
        """Show the events after a number, until one at or after `until` ends the stream.

        `opening` comes before them, together with those that are there already.
        """
        assert self._feed is not None
        self._cursor, self._until, self._opening = after, until, opening or []
        self._is_live = self._feed.last_seq > 0  # one that has seen nothing does not know what was committed before
        self._has_ended = False

    def finish_with(self, batch: Batch) -> None:
        """Show this batch and nothing else."""
        self._opening = batch

    # --- for the reader -----------------------------------------------------------------------------------------------

    def __aiter__(self) -> Follower:
        return self

    async def __anext__(self) -> Batch:
        """The next batch.

        Raises:
            UnavailableError: the stream was cut; the reader may come back with its cursor.
            TaskNotFoundError: the task was deleted before its reader had read it.
            A2AError: whatever keeps it from starting.
        """
        try:
            with translated:
                if self._start is not None:
                    await self._take_start()(self)  # drop the reference so that the message can be freed
                batch = await self._next()
        except BaseException:
            self.close()
            raise
        if batch:
            return batch
        self.close()
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Follow no longer."""
        self.close()

    def close(self) -> None:
        """Follow no longer."""
        self._start, self._opening, self._has_ended = None, [], True
        if self._feed is not None and self._key is not None:
            self._feeds.release(self._key, self._feed)
            self._feed = None

    def __del__(self) -> None:
        self.close()  # of a reader that just went away

    def _take_start(self) -> Start:
        start, self._start = self._start, None
        assert start is not None
        return start

    async def _next(self) -> Batch:
        """The next events that a stream shows, as soon as there are any; none at its end."""
        shown, self._opening = self._opening, []
        feed = self._feed
        if shown and (feed is None or feed.last_seq <= self._cursor):
            return shown
        while feed is not None and not self._has_ended:
            batch = feed.since(self._cursor) if self._is_live else None
            if batch is None:
                batch = await self._page(feed)
            if batch:
                self._show(batch, shown)
                del batch
                if shown:
                    return shown
            else:
                while feed.last_seq <= self._cursor:
                    await feed.wait()
        return shown

    def _show(self, batch: list[NumberedEvent], shown: list[Any]) -> None:
        """Add the events of a batch that a stream shows, up to the one that ends it."""
        for seq, event in batch:
            self._cursor = seq
            if isinstance(event, ArtifactUpdate):
                shown.append((seq, event))
            elif isinstance(event, StatusUpdate):
                shown.append((seq, event))
                if seq >= self._until and ends_stream(event.status.state):
                    self._has_ended = True
                    break

    async def _page(self, feed: Feed) -> list[NumberedEvent]:
        """The events after the cursor that the store has, as many as fit into a page."""
        assert self._key is not None
        known_seq = feed.last_seq
        batch = await self._feeds.page(self._key, after=self._cursor)
        if not batch and known_seq > self._cursor:
            await self._feeds.verify(self._key, feed, known_seq)
        self._is_live = feed.last_seq > 0 or not batch
        return batch


class LogFollower(Follower):
    """Every event of a task's log for one reader, also those that no stream of A2A shows.

    Its batches are of `TaskEvent`. It ends where a stream ends.
    """

    __slots__ = ()

    def _show(self, batch: list[NumberedEvent], shown: list[Any]) -> None:
        for seq, event in batch:
            self._cursor = seq
            shown.append((seq, event))
            if isinstance(event, StatusUpdate) and seq >= self._until and ends_stream(event.status.state):
                self._has_ended = True
                break
