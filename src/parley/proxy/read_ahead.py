"""Streams that are read ahead of their readers, as far as there is room; then the agent has to wait.

So a slow reader costs a bounded amount of memory, and the streams of a proxy that is being stopped can be ended with an
error that says so, whatever the agent is doing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from copy import copy

from parley.engine.following import Batch, Numbered
from parley.engine.sizes import size_of_event

MOST_EVENTS = 256
"""Of one stream that wait for their reader."""

MOST_BYTES = 1024 * 1024
"""Of one stream that wait for their reader. One event may be larger; the next one waits then."""

MOST_UNREAD = 1_000
"""Streams that are read to their end although nobody listens."""


class ReadAhead:
    """All streams of a proxy."""

    def __init__(self) -> None:
        self._waiting: set[_Waiting] = set()
        self._unread: set[asyncio.Task[None]] = set()

    async def batches(self, events: AsyncGenerator[Numbered], *, to_the_end: bool = False) -> AsyncGenerator[Batch]:
        """The events in batches. With `to_the_end` they are read even if nobody wants them any more."""
        waiting = _Waiting()
        self._waiting.add(waiting)
        reading = asyncio.create_task(_read(events, waiting))
        try:
            while batch := await waiting.take():
                yield batch
        finally:
            self._waiting.discard(waiting)
            if to_the_end and not waiting.has_ended and len(self._unread) < MOST_UNREAD:
                waiting.forget()
                self._unread.add(reading)
                reading.add_done_callback(self._unread.discard)
            else:
                await _end(reading)

    def cut(self, error: Exception) -> None:
        """End all streams with an error."""
        for waiting in self._waiting:
            waiting.cut(copy(error))  # one each: its traceback holds what its reader holds

    async def close(self) -> None:
        """Stop reading what nobody listens to."""
        for reading in tuple(self._unread):
            await _end(reading)


class _Waiting:
    """The events of one stream that wait for its reader."""

    def __init__(self) -> None:
        self.has_ended = False
        self._error: Exception | None = None
        self._is_forgotten = False
        self._events: list[Numbered] = []
        self._bytes = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, numbered: Numbered) -> None:
        """Add an event as soon as there is room for it."""
        size = size_of_event(numbered[1])
        while self._events and (len(self._events) >= MOST_EVENTS or self._bytes + size > MOST_BYTES):
            self._room.clear()
            await self._room.wait()
        if self._is_forgotten or self.has_ended:
            return
        self._events.append(numbered)
        self._bytes += size
        self._news.set()

    async def take(self) -> Batch:
        """All that waits, as soon as there is something; nothing at the stream's end. Raises what ended it."""
        await self._news.wait()
        batch, self._events, self._bytes = self._events, [], 0
        if self.has_ended and not batch and self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        if not self.has_ended:
            self._news.clear()
        self._room.set()
        return batch

    def end(self, error: Exception | None = None) -> None:
        """Let the reader have what waits, and then the end."""
        if not self.has_ended:
            self.has_ended, self._error = True, error
            self._news.set()

    def cut(self, error: Exception) -> None:
        """Let the reader have the end at once."""
        self.forget()
        self.end(error)

    def forget(self) -> None:
        """Keep nothing more."""
        self._is_forgotten = True
        self._events, self._bytes = [], 0
        self._room.set()


async def _read(events: AsyncGenerator[Numbered], waiting: _Waiting) -> None:
    try:
        async with aclosing(events):
            async for numbered in events:
                await waiting.put(numbered)
                del numbered  # it may be long until the next
        waiting.end()
    except Exception as error:  # it goes on where the reader is
        waiting.end(error)


async def _end(reading: asyncio.Task[None]) -> None:
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
