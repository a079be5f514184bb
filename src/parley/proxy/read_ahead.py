"""Reads streams of the agent ahead of their readers, up to a limit; then the agent has to wait.

So a slow reader costs a bounded amount of memory, and a proxy that shuts down can end its streams with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from copy import copy

from parley.engine.reading.following import Batch, Numbered
from parley.engine.reading.sizes import size_of_event

MAX_EVENTS = 256
"""Events of one stream that wait for the reader."""

MAX_BYTES = 1024 * 1024
"""Bytes of one stream that wait for the reader. One event may be larger; then the next one waits."""

MAX_ABANDONED = 1_000
"""Streams that are read to the end after their readers have left."""


class ReadAheadStreams:
    """All streams of a proxy."""

    def __init__(self) -> None:
        self._open: set[_EventBuffer] = set()
        self._abandoned: set[asyncio.Task[None]] = set()

    async def batches(self, events: AsyncGenerator[Numbered], *, to_the_end: bool = False) -> AsyncGenerator[Batch]:
        """The events in batches. With `to_the_end` all are read, even if the reader leaves."""
        buffer = _EventBuffer()
        self._open.add(buffer)
        reading = asyncio.create_task(_read(events, buffer))
        try:
            while batch := await buffer.take():
                yield batch
        finally:
            self._open.discard(buffer)
            if to_the_end and not buffer.has_ended and len(self._abandoned) < MAX_ABANDONED:
                buffer.discard()
                self._abandoned.add(reading)
                reading.add_done_callback(self._abandoned.discard)
            else:
                await _cancel(reading)

    def fail(self, error: Exception) -> None:
        """End all streams with an error, at once."""
        for buffer in self._open:
            buffer.discard()
            buffer.end(copy(error))  # a copy, because its traceback refers to the frames of one reader

    async def close(self) -> None:
        """Stop reading streams whose readers have left."""
        for reading in tuple(self._abandoned):
            await _cancel(reading)


class _EventBuffer:
    """The events of one stream that wait for its reader."""

    def __init__(self) -> None:
        self.has_ended = False
        self._error: Exception | None = None
        self._is_discarded = False
        self._events: list[Numbered] = []
        self._bytes = 0
        self._news = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, numbered: Numbered) -> None:
        """Add an event, once there is room."""
        size = size_of_event(numbered[1])
        while self._events and (len(self._events) >= MAX_EVENTS or self._bytes + size > MAX_BYTES):
            self._room.clear()
            await self._room.wait()
        if self._is_discarded or self.has_ended:
            return
        self._events.append(numbered)
        self._bytes += size
        self._news.set()

    async def take(self) -> Batch:
        """All events, once there are any; none at the end of the stream. Raises the error that ended it."""
        await self._news.wait()
        batch, self._events, self._bytes = self._events, [], 0
        if self.has_ended and not batch and self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame
        if not self.has_ended:
            self._news.clear()
        self._room.set()
        return batch

    def end(self, error: Exception | None = None) -> None:
        """End the stream after the events in the buffer."""
        if not self.has_ended:
            self.has_ended, self._error = True, error
            self._news.set()

    def discard(self) -> None:
        """Drop all events, also later ones."""
        self._is_discarded = True
        self._events, self._bytes = [], 0
        self._room.set()


async def _read(events: AsyncGenerator[Numbered], buffer: _EventBuffer) -> None:
    try:
        async with aclosing(events):
            async for numbered in events:
                await buffer.put(numbered)
                del numbered  # the next one may take a long time
        buffer.end()
    except Exception as error:  # raised by `take`
        buffer.end(error)


async def _cancel(reading: asyncio.Task[None]) -> None:
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
