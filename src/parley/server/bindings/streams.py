"""Streams over HTTP: server-sent events, with the number of each event as its id.

A stream pulls from the engine and writes what is there, a piece at a time, so a slow reader delays no other. It ends
after the event that ends it, or with an error frame that cannot be mistaken for the end. One `Pulse` for all streams
keeps proxies awake, and ends those that are not read or that have had no news for too long.

A reader costs what it has not read yet: an event is let go when it is encoded, and its frame when it is written. Long
frames take room that all long bodies share. Nothing here may be in a reference cycle, not even by way of an error's
traceback: the collector comes so rarely that what a reader has left behind would fill the memory first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias

from parley.engine.large import is_large, run_beside_loop
from parley.engine.views import Batch
from parley.protocol.errors import UnavailableError
from parley.protocol.events import StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.server.bindings.body_budget import BodyRoom
from parley.server.bindings.failures import Header
from parley.server.bindings.http import HttpRequest
from parley.server.bindings.waiting import Waits
from parley.server.limits import ServerLimits
from parley.wire.sse import HEARTBEAT

logger = logging.getLogger(__name__)

Batches = AsyncGenerator[Batch]
Marked: TypeAlias = deque[tuple[int, StreamEvent, bool]]
"""Events with their numbers, and whether the stream ends there. Its reader takes them out one by one."""
Encode = Callable[[int, StreamEvent, bool], bytes]
"""The frames of an event, given its number and whether the stream ends with it."""
Fail = Callable[[BaseException, int], bytes]
"""The frame that says why a stream was cut, and after which event."""

PIECE = 64 * 1024
"""Bytes of frames that are encoded and written at once. Slow readers hold about so much each."""

PATIENCE_SECONDS = 1.0
"""How long the first event may take before the reply begins without it. What is refused is refused sooner."""

EVENT_STREAM = b"text/event-stream; charset=utf-8"
SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", EVENT_STREAM),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would collect the frames otherwise
)


async def with_endings(batches: Batches) -> AsyncGenerator[Marked]:
    """The batches of a stream, each event with whether the stream ends there.

    An event that may end a stream does not when more follows, as in a replay of what is past. Looking ahead costs no
    time: what follows such an event was committed long ago. Batches are emptied as they are taken.
    """
    async with aclosing(batches):
        batch = await anext(batches, None)
        while batch is not None:
            marked = _marked(batch)
            following: Batch | None = None
            ends = False
            if may_end_stream(marked[-1][1]):
                following = await anext(batches, None)
                ends = following is None
            if ends:
                marked.append((*marked.pop()[:2], True))
            yield marked
            batch = following if following is not None or ends else await anext(batches, None)


def _marked(batch: Batch) -> Marked:
    marked = deque([(seq, event, False) for seq, event in batch])
    batch.clear()  # all who have handed it on forget its events with this
    return marked


def may_end_stream(event: StreamEvent) -> bool:
    """Whether a stream may end with this event: a status in which nobody works."""
    return isinstance(event, StatusUpdate) and ends_stream(event.status.state)


class SseStream:
    """One stream on its way to one reader.

    Its reply begins with the first event, or without one when that takes long. What fails before is not for a frame.
    """

    def __init__(
        self,
        request: HttpRequest,
        batches: Batches,
        encode: Encode,
        fail: Fail,
        headers: Callable[[], Sequence[Header]],
        room: BodyRoom,
    ) -> None:
        self._request = request
        self._batches = batches
        self._encode = encode
        self._fail = fail
        self._headers = headers
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._pump: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._has_begun = self._has_ended = self._is_idle = False
        self._last_seq = 0
        self.last_news = self.last_write = self._loop.time()
        self.writing_since: float | None = None

    async def run(self, pulse: Pulse) -> None:
        """Send the stream until it ends, is cut, or its reader goes away.

        Raises: whatever ended it before its reply had begun.
        """
        error = await self._run(pulse)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback has this frame

    async def _run(self, pulse: Pulse) -> BaseException | None:
        """Send the stream, and give what ended it before its reply had begun."""
        pump = self._pump = self._loop.create_task(self._send_all())
        gone = self._loop.create_task(self._request.until_gone())
        either = {pump, gone}
        pulse.join(self)
        try:
            done, _ = await asyncio.wait(either, timeout=PATIENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                if not self._has_begun:
                    await self.beat()
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pulse.leave(self)
            self._pump = None  # its error has a traceback, whose frames have this stream
            gone.cancel()
            pump.cancel()
            await asyncio.wait(either)
        error = None if pump.cancelled() else pump.exception()
        return None if self._has_begun else error

    async def _send_all(self) -> None:
        try:
            async with aclosing(with_endings(self._batches)) as batches:
                async for marked in batches:
                    self.last_news = self._loop.time()
                    while marked:
                        seq, data = await self._encode_some(marked)
                        await self._write(data)
                        del data
                        self._last_seq = seq  # what was not written is not what its reader has got
        except asyncio.CancelledError:
            if not self._is_idle:
                raise
            error = UnavailableError("The stream was idle; subscribe again from the last event")
            await self._write(self._fail(error, self._last_seq))
        except Exception as error:  # here a request ends
            if not self._has_begun:
                raise
            await self._write(self._fail(error, self._last_seq))
        await self._write(b"", is_last=True)

    async def _encode_some(self, marked: Marked) -> tuple[int, bytes]:
        """Take events out of a batch, about a piece of them, and give the last one's number and their frames."""
        if is_large(marked[0][1]):
            return marked[0][0], await run_beside_loop(self._encode, *marked.popleft())
        frames: list[bytes] = []
        size = 0
        while True:
            seq, event, ends = marked.popleft()
            frames.append(self._encode(seq, event, ends))
            size += len(frames[-1])
            if not marked or size >= PIECE or is_large(marked[0][1]):
                return seq, b"".join(frames)

    async def _write(self, data: bytes, *, is_last: bool = False) -> None:
        async with self._turn:  # an event and a heartbeat may come at once
            if self._has_ended:
                return
            with self._room.holding(self._request.address, len(data)):
                for start in range(0, len(data) or 1, PIECE):
                    self.writing_since = self._loop.time()
                    if not self._has_begun:
                        self._has_begun = True
                        await self._request.start_reply(200, [*SSE_HEADERS, *self._headers()])
                    self._has_ended = is_last
                    piece = data if len(data) <= PIECE else data[start : start + PIECE]
                    await self._request.send_piece(piece, is_last=is_last)
                    self.writing_since = None
            self.last_write = self._loop.time()

    # --- for the pulse ------------------------------------------------------------------------------------------------

    async def beat(self) -> None:
        """Tell the connection's proxies that the stream is alive."""
        if self.writing_since is None:
            await self._write(HEARTBEAT)

    def cut(self, *, is_idle: bool) -> None:
        """End the stream: an idle one with an error frame; one whose reader has stalled gets nothing more."""
        self._is_idle = is_idle
        if self._pump is not None:
            self._pump.cancel()


class Pulse:
    """Looks after all streams and waiting callers of an app from one task, so that none has a timer of its own."""

    def __init__(self, limits: ServerLimits) -> None:
        self.waits = Waits()
        self._limits = limits
        self._streams: set[SseStream] = set()
        self._beats: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def start(self) -> None:
        """Begin to look after streams."""
        self._task = asyncio.get_running_loop().create_task(self._tick())

    def stop(self) -> None:
        """Look after them no longer."""
        if self._task is not None:
            self._task.cancel()

    def join(self, stream: SseStream) -> None:
        """Look after this stream."""
        self._streams.add(stream)

    def leave(self, stream: SseStream) -> None:
        """Leave this stream alone."""
        self._streams.discard(stream)

    async def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._limits.heartbeat_seconds / 3)
            self.waits.look()
            for stream in tuple(self._streams):
                self._look_after(stream, loop)

    def _look_after(self, stream: SseStream, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        idle_seconds = self._limits.idle_stream_seconds
        if stream.writing_since is not None:
            if now - stream.writing_since > self._limits.stalled_seconds:
                logger.info("A stream was cut: its reader took nothing for %g seconds", self._limits.stalled_seconds)
                stream.cut(is_idle=False)
        elif idle_seconds is not None and now - stream.last_news > idle_seconds:
            stream.cut(is_idle=True)
        elif now - stream.last_write >= self._limits.heartbeat_seconds * 2 / 3:
            beat = loop.create_task(stream.beat())
            self._beats.add(beat)
            beat.add_done_callback(self._beats.discard)
