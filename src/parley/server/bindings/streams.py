"""Streams over HTTP: server-sent events, with the number of each event as its id.

A stream pulls events from the engine and writes them in chunks, so a slow reader delays no other. It ends after its
last event or with an error frame. One `StreamMonitor` sends the heartbeats of all streams, and ends streams whose
reader has stalled or which had no event for too long.

A stream holds only what its reader has not read yet: an event is released when it is encoded, its frame when it is
written. Long frames count against the budget of long bodies. Nothing here may be in a reference cycle, not even
through the traceback of an error: the garbage collector runs rarely, and memory would fill up before it does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing

from parley.engine.reading.large import is_large, run_beside_loop
from parley.protocol.errors import UnavailableError
from parley.protocol.events import StreamEvent
from parley.server.bindings.body_budget import BodyBudget
from parley.server.bindings.failures import Header
from parley.server.bindings.http import AsgiRequest
from parley.server.bindings.waiting import WaitingCallers
from parley.server.call_stream import CallStream, FlaggedEvents
from parley.server.limits import ServerLimits
from parley.wire.sse import HEARTBEAT

logger = logging.getLogger(__name__)

Encode = Callable[[int, StreamEvent, bool], bytes]
"""Encodes an event as frames, given its number and whether the stream ends with it."""
Fail = Callable[[BaseException, int], bytes]
"""Encodes the error frame of a stream that was cut off, given the error and the last event's number."""

CHUNK_BYTES = 64 * 1024
"""Bytes of frames that are encoded and written at once. A slow reader holds about this much memory."""

FIRST_EVENT_SECONDS = 1.0
"""How long the reply waits for the first event before it sends its headers. Errors usually come sooner."""

EVENT_STREAM = b"text/event-stream; charset=utf-8"
SSE_HEADERS: tuple[Header, ...] = (
    (b"content-type", EVENT_STREAM),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # otherwise nginx buffers the frames
)


class SseStream:
    """One stream of server-sent events to one reader.

    The reply starts with the first event, or without one if that takes long. An error before that is raised instead of
    being sent as a frame.
    """

    def __init__(
        self,
        request: AsgiRequest,
        events: CallStream,
        encode: Encode,
        fail: Fail,
        headers: Callable[[], Sequence[Header]],
        budget: BodyBudget,
    ) -> None:
        self._request = request
        self._events = events
        self._encode = encode
        self._fail = fail
        self._headers = headers
        self._budget = budget
        self._loop = asyncio.get_running_loop()
        self._sender: asyncio.Task[None] | None = None
        self._write_lock = asyncio.Lock()
        self._has_started = self._has_ended = self._is_idle = False
        self._last_seq = 0
        self.last_news = self.last_write = self._loop.time()
        self.writing_since: float | None = None

    async def run(self, monitor: StreamMonitor) -> None:
        """Send the stream until it ends, is cut off, or the client disconnects.

        Raises: any error that ended it before its reply started.
        """
        error = await self._run(monitor)
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame

    async def _run(self, monitor: StreamMonitor) -> BaseException | None:
        """Send the stream, and return the error that ended it before its reply started."""
        sender = self._sender = self._loop.create_task(self._send_all())
        disconnect = self._loop.create_task(self._request.wait_for_disconnect())
        either = {sender, disconnect}
        monitor.add(self)
        try:
            done, _ = await asyncio.wait(either, timeout=FIRST_EVENT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                if not self._has_started:
                    await self.send_heartbeat()
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            monitor.remove(self)
            self._sender = None  # the traceback of its error refers to this stream
            disconnect.cancel()
            sender.cancel()
            await asyncio.wait(either)
        error = None if sender.cancelled() else sender.exception()
        return None if self._has_started else error

    async def _send_all(self) -> None:
        try:
            async with aclosing(self._events):
                async for flagged in self._events:
                    self.last_news = self._loop.time()
                    while flagged:
                        seq, data = await self._encode_some(flagged)
                        await self._write(data)
                        del data
                        self._last_seq = seq  # only now: the reader has not got what was not written
        except asyncio.CancelledError:
            if not self._is_idle:
                raise
            error = UnavailableError("The stream was idle; subscribe again from the last event")
            await self._write(self._fail(error, self._last_seq))
        except Exception as error:  # here a request ends
            if not self._has_started:
                raise
            await self._write(self._fail(error, self._last_seq))
        await self._write(b"", is_last=True)

    async def _encode_some(self, flagged: FlaggedEvents) -> tuple[int, bytes]:
        """Pop events from a batch, about a chunk of them, and return the last one's number and their frames."""
        if is_large(flagged[0][1]):
            return flagged[0][0], await run_beside_loop(self._encode, *flagged.popleft())
        frames: list[bytes] = []
        size = 0
        while True:
            seq, event, ends = flagged.popleft()
            frames.append(self._encode(seq, event, ends))
            size += len(frames[-1])
            if not flagged or size >= CHUNK_BYTES or is_large(flagged[0][1]):
                return seq, b"".join(frames)

    async def _write(self, data: bytes, *, is_last: bool = False) -> None:
        async with self._write_lock:  # an event and a heartbeat may come at the same time
            if self._has_ended:
                return
            with self._budget.reserved(self._request.address, len(data)):
                for start in range(0, len(data) or 1, CHUNK_BYTES):
                    self.writing_since = self._loop.time()
                    if not self._has_started:
                        self._has_started = True
                        await self._request.start_reply(200, [*SSE_HEADERS, *self._headers()])
                    self._has_ended = is_last
                    chunk = data if len(data) <= CHUNK_BYTES else data[start : start + CHUNK_BYTES]
                    await self._request.send_chunk(chunk, is_last=is_last)
                    self.writing_since = None
            self.last_write = self._loop.time()

    # --- for the pulse ------------------------------------------------------------------------------------------------

    async def send_heartbeat(self) -> None:
        """Send a heartbeat, so that proxies keep the connection open."""
        if self.writing_since is None:
            await self._write(HEARTBEAT)

    def cut(self, *, is_idle: bool) -> None:
        """End the stream: an idle one with an error frame, one whose reader has stalled without."""
        self._is_idle = is_idle
        if self._sender is not None:
            self._sender.cancel()


class StreamMonitor:
    """Checks all streams and waiting callers of an app from one task, so that none needs a timer of its own."""

    def __init__(self, limits: ServerLimits) -> None:
        self.waiting_callers = WaitingCallers()
        self._limits = limits
        self._streams: set[SseStream] = set()
        self._heartbeats: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._streams)

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop the task."""
        if self._task is not None:
            self._task.cancel()

    def add(self, stream: SseStream) -> None:
        """Check this stream from now on."""
        self._streams.add(stream)

    def remove(self, stream: SseStream) -> None:
        """Stop checking this stream."""
        self._streams.discard(stream)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._limits.heartbeat_seconds / 3)
            self.waiting_callers.check()
            for stream in tuple(self._streams):
                self._check(stream, loop)

    def _check(self, stream: SseStream, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        idle_seconds = self._limits.idle_stream_seconds
        if stream.writing_since is not None:
            if now - stream.writing_since > self._limits.stalled_seconds:
                logger.info("A stream was cut: its reader took nothing for %g seconds", self._limits.stalled_seconds)
                stream.cut(is_idle=False)
        elif idle_seconds is not None and now - stream.last_news > idle_seconds:
            stream.cut(is_idle=True)
        elif now - stream.last_write >= self._limits.heartbeat_seconds * 2 / 3:
            heartbeat = loop.create_task(stream.send_heartbeat())
            self._heartbeats.add(heartbeat)
            heartbeat.add_done_callback(self._heartbeats.discard)
