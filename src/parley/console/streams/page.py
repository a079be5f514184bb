"""The stream of one page, with its channels.

Each channel is a task that pulls data from its generator and adds frames to those that wait; one task writes them to
the connection. A channel may have a few frames waiting, and the page some more; beyond that, channels wait until the
browser has read. So a page holds a bounded amount of memory, and one that does not read stalls its own channels only.
Long frames count against the budget of long bodies, as those of all streams do.

While there is data, the session and its credentials are checked again every second: what a page may not see any more is
discarded, and its stream ends.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING

import msgspec

from parley.console.api.errors import ConsoleError, as_console_error
from parley.console.backend import ConsoleCaller
from parley.console.sessions import Session
from parley.console.streams.channel import ChannelCall, ChannelOpener
from parley.engine.store_errors import translated
from parley.protocol.jsonvalue import JsonValue
from parley.server.bindings.http import AsgiRequest
from parley.server.bindings.streams import SSE_HEADERS
from parley.wire.sse import HEARTBEAT, encode_frame

if TYPE_CHECKING:
    from parley.console.console import Console

CHUNK_BYTES = 64 * 1024
"""Bytes of frames that are written at once."""

CHANNEL_BYTES = 16 * 1024
"""Bytes of frames of one channel that may wait to be written before the channel waits."""

PAGE_BYTES = 128 * 1024
"""The same for all channels of a page."""

logger = logging.getLogger(__name__)

_encoder = msgspec.json.Encoder()


class _Channel:
    """An open channel."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.waiting_bytes = 0
        self.task: asyncio.Task[None] | None = None


class _Frame:
    """A frame that waits to be written."""

    __slots__ = ("channel", "data", "written")

    def __init__(self, channel: _Channel | None, data: bytes, written: asyncio.Future[None] | None) -> None:
        self.channel = channel
        self.data = data
        self.written = written


class Page:
    """One open page. `run` sends its stream until the page goes or the server ends it."""

    def __init__(
        self, console: Console, request: AsgiRequest, session: Session, caller: ConsoleCaller, max_channels: int
    ) -> None:
        self.id = f"p-{secrets.token_urlsafe(16)}"
        self.session = session
        self.caller = caller
        self._console = console
        self._settings = console.settings
        self._request = request
        self._max_channels = max_channels
        self._channels: dict[str, _Channel] = {}
        self._closed: set[str] = set()
        self._frames: deque[_Frame] = deque()
        self.waiting_bytes = 0
        """The size of the frames that wait to be written."""
        self._wake = asyncio.Event()
        self._is_ending = False
        self._checked_at = asyncio.get_running_loop().time()

    def belongs_to(self, session: Session, caller: ConsoleCaller) -> bool:
        """Whether a request to open a channel comes from the page's own session, or from the same program."""
        return self.session.id == session.id and self.caller.identity.name == caller.identity.name

    # --- channels -----------------------------------------------------------------------------------------------------

    def open(self, channel_id: str, opener: ChannelOpener | None, parameters: Mapping[str, JsonValue]) -> None:
        """Open a channel. What is wrong with it comes as a frame.

        Raises:
            ConsoleError: the page has an open channel of this name.
        """
        if self._is_ending or channel_id in self._closed:
            return
        if channel_id in self._channels:
            raise ConsoleError("conflict", f"The channel {channel_id} is open", path="$.channel")
        error: ConsoleError | None = None
        if opener is None:
            error = ConsoleError("unsupported", "This server has no channels of this kind", path="$.kind")
        elif len(self._channels) >= self._max_channels:
            error = ConsoleError("too_large", f"A page may have {self._max_channels} open channels")
        if error is not None or opener is None:
            assert error is not None
            self._add(None, _error_frame(channel_id, error))
            return
        call = ChannelCall(self._console, self.session, self.caller, parameters, self._request)
        channel = self._channels[channel_id] = _Channel(channel_id)
        channel.task = asyncio.get_running_loop().create_task(self._pump(channel, opener, call))

    def close(self, channel_id: str) -> None:
        """Close a channel, if it is open."""
        channel = self._channels.pop(channel_id, None)
        if channel is not None and channel.task is not None:
            channel.task.cancel()
        elif len(self._closed) < 1_000:  # the request to open it may come later, by way of another process
            self._closed.add(channel_id)

    async def _pump(self, channel: _Channel, opener: ChannelOpener, call: ChannelCall) -> None:
        """Pull the data of a channel, and end it with a frame that says how."""
        last: bytes
        try:
            with translated:
                async with aclosing(opener(call)) as items:
                    async for data in items:
                        await self._put(channel, _encoder.encode({"channel": channel.id, "data": data}))
            last = _encoder.encode({"channel": channel.id, "end": True})
        except asyncio.CancelledError:
            raise
        except Exception as error:  # here a channel ends
            last = _error_frame(channel.id, as_console_error(error))
        self._channels.pop(channel.id, None)
        self._add(channel, last)

    async def _put(self, channel: _Channel, data: bytes) -> None:
        """Add a frame, and wait until there is room for the next one."""
        with self._console.backend.app.shared.bodies.reserved(self._request.address, len(data)):
            written = asyncio.get_running_loop().create_future()
            self._add(channel, data, written)
            if channel.waiting_bytes > CHANNEL_BYTES or self.waiting_bytes > PAGE_BYTES:
                await written

    def _add(self, channel: _Channel | None, data: bytes, written: asyncio.Future[None] | None = None) -> None:
        self._frames.append(_Frame(channel, encode_frame(data), written))
        self.waiting_bytes += len(self._frames[-1].data)
        if channel is not None:
            channel.waiting_bytes += len(self._frames[-1].data)
        self._wake.set()

    # --- the stream ---------------------------------------------------------------------------------------------------

    def end(self, error: ConsoleError, *, is_discarding: bool = False) -> None:
        """End the stream: all channels are closed with this error. Frames that wait are sent, or discarded."""
        if self._is_ending:
            return
        self._is_ending = True
        names = dict.fromkeys(self._channels)
        if is_discarding:  # also those that have ended, of which the page does not know yet
            names |= dict.fromkeys([frame.channel.id for frame in self._frames if frame.channel is not None])
            self._discard()
        for name in names:
            self.close(name)
            self._add(None, _error_frame(name, error))
        self._wake.set()

    async def run(self) -> None:
        """Send the stream."""
        loop = asyncio.get_running_loop()
        writer = loop.create_task(self._write_all())
        disconnect = loop.create_task(self._request.wait_for_disconnect())
        try:
            await asyncio.wait({writer, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_ending = True
            tasks = [channel.task for channel in self._channels.values() if channel.task is not None]
            for task in (writer, disconnect, *tasks):
                task.cancel()
            self._channels.clear()
            self._discard()
            await asyncio.gather(writer, disconnect, *tasks, return_exceptions=True)
        if not writer.cancelled() and (error := writer.exception()) is not None:
            raise error

    async def _write_all(self) -> None:
        await self._request.start_reply(200, SSE_HEADERS)
        await self._write(encode_frame(_encoder.encode({"page": self.id})))
        while True:
            if not self._frames and not await self._has_news():
                continue
            if self._is_ending and not self._frames:
                break
            await self._check_session()
            frames = self._take()
            try:
                await self._write(b"".join([frame.data for frame in frames]))
            except TimeoutError:
                logger.info(
                    "The stream of a page was cut: it took nothing for %g seconds", self._settings.stalled_seconds
                )
                return
            self._written(frames)
        await self._request.send_chunk(b"", is_last=True)

    async def _has_news(self) -> bool:
        """Wait for frames or the end. After some silence, send a comment and return False."""
        if self._is_ending:
            return True
        self._wake.clear()
        try:
            async with asyncio.timeout(self._settings.heartbeat_seconds):
                await self._wake.wait()
        except TimeoutError:
            await self._check_session()
            await self._write(HEARTBEAT)
            return False
        return True

    async def _check_session(self) -> None:
        """End the stream if its session has ended, or if its credentials are not valid any more."""
        now = asyncio.get_running_loop().time()
        if self._is_ending or now - self._checked_at < self._settings.recheck_seconds:
            return
        try:
            session, caller = await self._console.identify(self._request.repeated())
            if self.session.is_stored and not session.is_stored:
                raise ConsoleError("unauthenticated", "The session has ended")
            if caller != self.caller:
                raise ConsoleError("unavailable", "The session has changed; connect again")
            self._checked_at = asyncio.get_running_loop().time()
        except Exception as error:  # here a stream ends
            self.end(as_console_error(error), is_discarding=True)

    def _take(self) -> list[_Frame]:
        """About a chunk of the frames that wait."""
        taken, size = list[_Frame](), 0
        while self._frames and (not taken or size + len(self._frames[0].data) <= CHUNK_BYTES):
            taken.append(self._frames.popleft())
            size += len(taken[-1].data)
        return taken

    async def _write(self, data: bytes) -> None:
        for start in range(0, len(data), CHUNK_BYTES):
            async with asyncio.timeout(self._settings.stalled_seconds):
                await self._request.send_chunk(data[start : start + CHUNK_BYTES])

    def _written(self, frames: list[_Frame]) -> None:
        for frame in frames:
            self.waiting_bytes -= len(frame.data)
            if frame.channel is not None:
                frame.channel.waiting_bytes -= len(frame.data)
            if frame.written is not None and not frame.written.done():
                frame.written.set_result(None)

    def _discard(self) -> None:
        frames = list(self._frames)
        self._frames.clear()
        self._written(frames)


def _error_frame(channel_id: str, error: ConsoleError) -> bytes:
    return _encoder.encode({"channel": channel_id, "error": error.as_json(), "is_final": error.is_final})
