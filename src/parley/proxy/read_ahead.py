"""Buffers streams for their readers, up to a limit; then the agent has to wait.

A slow reader costs a bounded amount of memory. When a proxy stops, its streams can be ended with an error at once,
whatever the agent is doing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from copy import copy

from parley.engine.reading.following import Batch, Numbered
from parley.engine.reading.sizes import size_of_event

MAX_EVENTS = 256
"""Events of one stream in the buffer."""

MAX_BYTES = 1024 * 1024
"""Bytes of one stream in the buffer. A single event may be larger; the next one waits then."""

MAX_UNREAD = 1_000
"""Streams that are read to their end without a reader."""


class ReadAhead:
    """All streams of a proxy."""

    def __init__(self) -> None:
        self._waiting: set[_Waiting] = set()
        self._unread: set[asyncio.Task[None]] = set()

    async def batches(self, events: AsyncGenerator[Numbered], *, to_the_end: bool = False) -> AsyncGenerator[Batch]:
        """The events in batches. With `to_the_end` the stream is read to its end even without a reader."""
        waiting = _Waiting()
        self._waiting.add(waiting)
        reading = asyncio.create_task(_read(events, waiting))
        try:
            while batch := await waiting.take():
                yield batch
        finally:
            self._waiting.discard(waiting)
            if to_the_end and not waiting.has_ended and len(self._unread) < MAX_UNREAD:
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
        """Stop reading streams that have no reader."""
        for reading in tuple(self._unread):
            await _end(reading)


class _Waiting:
    """The buffer of one stream."""

    def __init__(self) -> None:
        self.has_ended = False
        self._error: Exception | None = None
        self._is_forgotten = False
        self._events: list[Numbered] = []
        self._bytes = 0
        self._new_events = asyncio.Event()
        self._room = asyncio.Event()

    async def put(self, numbered: Numbered) -> None:
        """Add an event as soon as there is room for it."""
        size = size_of_event(numbered[1])
        while self._events and (len(self._events) >= MAX_EVENTS or self._bytes + size > MAX_BYTES):
            self._room.clear()
            await self._room.wait()
        if self._is_forgotten or self.has_ended:
            return
        self._events.append(numbered)
        self._bytes += size
        self._new_events.set()

    async def take(self) -> Batch:
        """All events in the buffer, as soon as there is one; empty at the end. Raises the error that ended it."""
        await self._new_events.wait()
        batch, self._events, self._bytes = self._events, [], 0
        if self.has_ended and not batch and self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error  # its traceback has this frame
        if not self.has_ended:
            self._new_events.clear()
        self._room.set()
        return batch

    def end(self, error: Exception | None = None) -> None:
        """End the stream after the events in the buffer."""
        if not self.has_ended:
            self.has_ended, self._error = True, error
            self._new_events.set()

    def cut(self, error: Exception) -> None:
        """End the stream at once."""
        self.forget()
        self.end(error)

    def forget(self) -> None:
        """Drop all events, also later ones."""
        self._is_forgotten = True
        self._events, self._bytes = [], 0
        self._room.set()


async def _read(events: AsyncGenerator[Numbered], waiting: _Waiting) -> None:
    try:
        async with aclosing(events):
            async for numbered in events:
                await waiting.put(numbered)
                del numbered  # do not keep it until the next arrives
        waiting.end()
    except Exception as error:  # raised again in the reader
        waiting.end(error)


async def _end(reading: asyncio.Task[None]) -> None:
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
