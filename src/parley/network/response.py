"""The response to one request: parsed as it arrives, read on demand, in bounded memory.

It does not know sockets. Each response has its own parser, so that bytes of one can never become part of the next. A
response whose end is ambiguous is rejected. RFC 9112 sections 6 and 9.8.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import httptools

from parley.network.errors import BrokenConnectionError, ReadTimeoutError

MAX_OVERHEAD_BYTES = 64 * 1024
"""Bytes that may arrive without a byte of the body: heads, chunk headers, trailers. Servers' own limits are lower."""

MAX_HEADERS = 256
"""Of one response, including trailers. Apache accepts 100 from a client."""

MAX_UNREAD_BYTES = 256 * 1024
"""Bytes of a body that may wait for the reader; beyond that, reading from the server pauses."""


class ResponseSource(Protocol):
    """The connection that a response arrives on."""

    def pause(self) -> None:
        """Stop reading."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def release(self, *, is_done: bool) -> None:
        """The reader has finished with the response. Another request may follow if it `is_done`."""
        ...


class InvalidResponseError(Exception):
    """The bytes are not a response to one request. The text is the reason."""


class IncomingResponse:
    """The response to one request."""

    def __init__(self, source: ResponseSource) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._source: ResponseSource | None = source
        self._parser = httptools.HttpResponseParser(self)
        self._overhead = 0
        self._header_count = 0
        self._is_complete = False
        self._ends_with_connection = False
        self._keeps_alive = False
        self._failure: BrokenConnectionError | None = None
        self._chunks: list[bytes] = []
        self._unread = 0
        self._is_paused = False
        self._waiter: asyncio.Future[None] | None = None

    # --- for the reader -----------------------------------------------------------------------------------------------

    async def wait_for_head(self, deadline: float) -> None:
        """Wait for the status and the headers."""
        while not self.status:
            await self._wait(deadline)

    async def read(self, deadline: float) -> bytes:
        """The next chunk of the body; empty at its end."""
        while not self._chunks:
            if self._is_complete:
                return b""
            await self._wait(deadline)
        chunks, self._chunks, self._unread = self._chunks, [], 0
        if self._is_paused and self._source is not None:
            self._is_paused = False
            self._source.resume()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def close(self) -> None:
        """Give the connection back."""
        self.release()

    def detach(self) -> bool:
        """Leave the connection to another protocol after a response to CONNECT. True if nothing followed its head."""
        self._source = None
        del self._parser
        return not self._chunks

    def release(self) -> None:
        """Stop waiting. Another request can follow only if this response was received completely and read."""
        source, self._source = self._source, None
        if source is None:
            return
        is_done = self._is_complete and not self._chunks and self._keeps_alive
        self._fail("it was closed by the caller")
        del self._parser  # it refers back to this response: the cycle would wait for the garbage collector
        source.release(is_done=is_done)

    async def _wait(self, deadline: float) -> None:
        """Wait until something happens. Raises if nothing more can, or nothing does in time."""
        if self._failure is not None:
            raise self._failure
        loop = asyncio.get_running_loop()
        if loop.time() >= deadline:  # checked here, because a server that never pauses is always faster than a timer
            raise ReadTimeoutError("the server sent nothing in time")
        self._waiter = loop.create_future()
        timer = loop.call_at(deadline, self._wake)
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
    def is_finished(self) -> bool:
        """Whether no more bytes can follow."""
        return self._is_complete or self._failure is not None

    def feed(self, data: bytes) -> bool:
        """Parse bytes. Return True if all of them were part of this response."""
        self._overhead += len(data)
        is_valid = True
        try:
            self._parser.feed_data(data)
            if self._overhead > MAX_OVERHEAD_BYTES:
                raise InvalidResponseError("its headers are too long")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, InvalidResponseError) as error:
            is_valid = False
            self._fail(f"the response is not valid HTTP: {_reason(error)}")
        self._wake()
        return is_valid

    def end(self, *, by_server: bool) -> None:
        """The connection has ended. If the server ended it, a response of unknown length is complete."""
        if by_server and self._ends_with_connection:
            self._is_complete = True
            self._wake()
        else:
            self._fail(f"it ended {'in the middle of the response' if self.status else 'without a response'}")

    def _fail(self, reason: str) -> None:
        """Finish with an error, raised after the received chunks are read; unless it has finished before."""
        if not self.is_finished:
            self._failure = BrokenConnectionError(reason)
            self._wake()

    # --- for the parser -----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """The first byte of a response, final or informational (1xx)."""
        if self.status:
            raise InvalidResponseError("there is more than one response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or a trailer, which is dropped."""
        self._header_count += 1
        if self._header_count > MAX_HEADERS:
            raise InvalidResponseError("it has too many headers")
        if not self.status:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1").strip()
            before = self.headers.get(key)
            self.headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        """The end of the headers, final or informational."""
        status = self._parser.get_status_code()
        if status < 100:
            raise InvalidResponseError("its status is invalid")
        if status < 200:
            self.headers.clear()
            return
        coding = self.headers.get("transfer-encoding")
        if coding is not None and coding.lower() != "chunked":
            raise InvalidResponseError("its transfer coding is unknown")
        self.status, self._overhead = status, 0
        self._ends_with_connection = coding is None and "content-length" not in self.headers
        # A server that failed may close without announcing it, as uvicorn does.
        self._keeps_alive = self._parser.should_keep_alive() and status < 500

    def on_body(self, body: bytes) -> None:
        """A chunk of the body. Reading pauses when too much waits for the reader."""
        if not self.status:
            raise InvalidResponseError("there is a body before the response")
        self._overhead = 0
        self._chunks.append(body)
        self._unread += len(body)
        if self._unread > MAX_UNREAD_BYTES and not self._is_paused and self._source is not None:
            self._is_paused = True
            self._source.pause()

    def on_message_complete(self) -> None:
        """The last byte of a response, final or informational."""
        self._is_complete = self.status > 0


def _reason(error: Exception) -> str:
    if isinstance(error, httptools.HttpParserUpgrade):
        return "it switches protocols"
    return str(error.__context__ if isinstance(error.__context__, InvalidResponseError) else error)
