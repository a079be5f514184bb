"""The reply to one request: parsed as it comes, read when somebody asks for it, in bounded memory.

It knows nothing of sockets. Each reply has a parser of its own, so that nothing of one can become part of the next.
Where a reply ends decides what follows it; what leaves that open is refused. RFC 9112 sections 6 and 9.8.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import httptools

from parley.network.errors import BrokenConnectionError, SilentConnectionError

MOST_OVERHEAD = 64 * 1024
"""Bytes that may come without a byte of a body: heads, chunk headers, trailers. Servers' own limits are lower."""

MOST_HEADERS = 256
"""Of one reply, with those of its trailers. Apache takes 100 from a client."""

MOST_UNREAD = 256 * 1024
"""Bytes of a body that wait for their reader; then the server waits."""


class Source(Protocol):
    """Where a reply comes from."""

    def pause(self) -> None:
        """Let the server wait."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...

    def release(self, *, is_done: bool) -> None:
        """Nobody waits for the reply any more. If it `is_done`, another request can follow."""
        ...


class UnfitError(Exception):
    """What came is no reply to one request. The text is the reason."""


class Reply:
    """The reply to one request."""

    def __init__(self, source: Source) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._source: Source | None = source
        self._parser = httptools.HttpResponseParser(self)
        self._overhead = 0
        self._header_count = 0
        self._is_whole = False
        self._ends_with_connection = False
        self._keeps_alive = False
        self._failure: BrokenConnectionError | None = None
        self._pieces: list[bytes] = []
        self._unread = 0
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None

    # --- for who reads ------------------------------------------------------------------------------------------------

    async def begun(self, until: float) -> None:
        """Wait for the head."""
        while not self.status:
            await self._news(until)

    async def read(self, until: float) -> bytes:
        """The next piece of the body; nothing at its end."""
        while not self._pieces:
            if self._is_whole:
                return b""
            await self._news(until)
        pieces, self._pieces, self._unread = self._pieces, [], 0
        if self._is_paused and self._source is not None:
            self._is_paused = False
            self._source.resume()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def close(self) -> None:
        """Let the connection go."""
        self.let_go()

    def let_go(self) -> None:
        """Wait for nothing more. Another request can follow only if this reply was received whole and read."""
        source, self._source = self._source, None
        if source is None:
            return
        is_done = self._is_whole and not self._pieces and self._keeps_alive
        self._fail("it was closed here")
        del self._parser  # which knows this reply: both would wait for the garbage collector
        source.release(is_done=is_done)

    async def _news(self, until: float) -> None:
        """Wait until something has happened. Raises if nothing more will, or not in time."""
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        if loop.time() >= until:  # looked at here, because a server that never stops is always faster than a timer
            raise SilentConnectionError("nothing came for too long")
        self._waiter = loop.create_future()
        timer = loop.call_at(until, self._wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # --- for the connection -------------------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow."""
        return self._is_whole or self._failure is not None

    def feed(self, data: bytes) -> bool:
        """Take what came; whether it was part of this reply and nothing else."""
        self._overhead += len(data)
        is_fit = True
        try:
            self._parser.feed_data(data)
            if self._overhead > MOST_OVERHEAD:
                raise UnfitError("its headers are too long")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnfitError) as error:
            is_fit = False
            self._fail(f"what came is no HTTP: {_reason(error)}")
        self._wake()
        return is_fit

    def end(self, *, by_server: bool) -> None:
        """The connection has ended. If it was the server that ended it, that is how a reply of unknown length ends."""
        if by_server and self._ends_with_connection:
            self._is_whole = True
            self._wake()
        else:
            self._fail(f"it ended {'in the middle of its reply' if self.status else 'without a reply'}")

    def _fail(self, reason: str) -> None:
        """End it with an error, which comes after what was received; unless it has ended before."""
        if not self.is_over:
            self._failure = BrokenConnectionError(reason)
            self._wake()

    # --- for the parser -----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a reply, or of one that only says that it will come."""
        if self.status:
            raise UnfitError("more came than one reply")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        self._header_count += 1
        if self._header_count > MOST_HEADERS:
            raise UnfitError("it has too many headers")
        if not self.status:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            before = self.headers.get(key)
            self.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """The end of a head: of the reply's own, or of one that only says that it will come."""
        status = self._parser.get_status_code()
        if status < 100:
            raise UnfitError("its status is none")
        if status < 200:
            self.headers.clear()
            return
        coding = self.headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise UnfitError("its transfer coding is unknown")
        self.status, self._overhead = status, 0
        self._ends_with_connection = coding is None and "content-length" not in self.headers
        # A server that has failed may close without having said so, as uvicorn does.
        self._keeps_alive = self._parser.should_keep_alive() and status < 500

    def on_body(self, body: bytes) -> None:
        """A piece of the body. No more for a while, if nobody reads."""
        if not self.status:
            raise UnfitError("a body came before its reply")
        self._overhead = 0
        self._pieces.append(body)
        self._unread += len(body)
        if self._unread > MOST_UNREAD and not self._is_paused and self._source is not None:
            self._is_paused = True
            self._source.pause()

    def on_message_complete(self) -> None:
        """The last byte of a reply, or of one that only says that it will come."""
        self._is_whole = self.status > 0


def _reason(error: Exception) -> str:
    if isinstance(error, httptools.HttpParserUpgrade):
        return "it switches protocols"
    return str(error.__context__ if isinstance(error.__context__, UnfitError) else error)
