"""HTTP as both HTTP bindings use it: bounded replies, bounded streams, no redirects, and errors of our own.

Foreign exceptions end here. Nothing is kept from one request to the next but connections: no cookies, and no settings
from the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from parley.client.errors import ForbiddenTargetError, TimedOutError, UnreachableError
from parley.client.options import Bounds, Timeouts
from parley.client.transport import Sent
from parley.protocol.errors import A2AError, PeerProtocolError
from parley.wire.sse import Decoder, Frame

EVENT_STREAM = "text/event-stream"

USER_AGENT = "parley"
NO_COMPRESSION = "identity"
"""What is asked for and taken: a few compressed bytes can spell gigabytes, and a compressed stream may be held back."""


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole reply; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpChannel:
    """Sends requests and reads replies."""

    def __init__(
        self,
        *,
        timeouts: Timeouts | None = None,
        bounds: Bounds | None = None,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        """`transport` is what opens connections: a guarded one, or an app in process."""
        self.timeouts = timeouts or Timeouts()
        self.bounds = bounds or Bounds()
        # The library's transport without its client, which keeps cookies, logs URLs with their queries, and takes time.
        self._transport = transport or httpx2.AsyncHTTPTransport(trust_env=False)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def exchange(self, verb: str, url: str, body: bytes, sent: Sent) -> HttpReply:
        """Send a request and read the whole reply. Raises as `opened` does."""
        async with self.opened(verb, url, body, sent, quiet=sent.timeout) as response:
            return await self.reply_of(response, within=sent.timeout)

    @asynccontextmanager
    async def opened(
        self, verb: str, url: str, body: bytes, sent: Sent, *, quiet: float
    ) -> AsyncGenerator[httpx2.Response]:
        """A reply whose body is still to be read; within the block, what happens to the connection is translated.

        Raises:
            UnreachableError: there is no connection, or it breaks.
            TimedOutError: nothing comes for too long.
            ForbiddenTargetError: the agent points elsewhere.
            PeerProtocolError: what comes is no HTTP.
        """
        try:
            response = await self._begin(verb, url, body, sent, quiet)
            try:
                yield response
            finally:
                await response.aclose()
        except (httpx2.ConnectTimeout, httpx2.PoolTimeout) as error:
            raise TimedOutError(f"No connection to {_origin(url)} in time", was_sent=False) from error
        except httpx2.TimeoutException as error:
            raise TimedOutError(f"{_origin(url)} was silent for too long") from error
        except httpx2.ConnectError as error:
            raise UnreachableError(f"No connection to {_origin(url)}: {error}", was_sent=False) from error
        except httpx2.RemoteProtocolError as error:
            raise UnreachableError(f"The connection to {_origin(url)} broke: {error}") from error
        except httpx2.TransportError as error:
            raise UnreachableError(f"The connection to {_origin(url)} broke: {type(error).__name__}") from error
        except (httpx2.InvalidURL, httpx2.DecodingError) as error:
            raise PeerProtocolError(f"{_origin(url)} sends what cannot be read: {error}") from error

    async def _begin(self, verb: str, url: str, body: bytes, sent: Sent, quiet: float) -> httpx2.Response:
        """The head of a reply. The time for it is bounded as a whole: headers may come a byte at a time."""
        connect = self.timeouts.connect
        patience = {"connect": connect, "pool": connect, "read": quiet, "write": quiet}
        target = httpx2.URL(url)
        request = httpx2.Request(
            verb,
            target.copy_merge_params(dict(sent.query)) if sent.query else target,
            content=body,
            headers={"accept-encoding": NO_COMPRESSION, "user-agent": USER_AGENT, **sent.headers},
            extensions={"timeout": patience},
        )
        try:
            async with asyncio.timeout(connect + quiet):
                response = await self._transport.handle_async_request(request)
        except TimeoutError as error:
            raise TimedOutError(f"{_origin(url)} did not begin to answer in time") from error
        if response.is_redirect and response.status_code != 304:
            await response.aclose()
            raise ForbiddenTargetError(f"The agent at {_origin(url)} redirects; give its real URL")
        if response.headers.get("content-encoding", NO_COMPRESSION).strip().lower() != NO_COMPRESSION:
            await response.aclose()
            raise PeerProtocolError(f"{_origin(url)} compresses its reply, which was not asked for")
        return response

    async def frames(self, response: httpx2.Response) -> AsyncGenerator[Frame]:
        """The frames of an event stream.

        Raises:
            PeerProtocolError: a frame, or the stream, is longer than allowed.
            UnreachableError: the stream ended within a frame.
        """
        decoder = Decoder(max_frame_bytes=self.bounds.frame_bytes)
        now = asyncio.get_running_loop().time
        size, begun = 0, None
        async for chunk in response.aiter_raw():
            size += len(chunk)
            if size > self.bounds.stream_bytes:
                raise PeerProtocolError(f"The stream has more than {self.bounds.stream_bytes} bytes")
            frames = decoder.feed(chunk)
            for frame in frames:
                yield frame
            if not decoder.pending:
                begun = None
            elif begun is None or frames:
                begun = now()
            elif now() - begun > self.timeouts.reply:  # each byte of it would be a sign of life
                raise TimedOutError("A frame of the stream took too long")
        if decoder.pending:
            raise UnreachableError("The stream ended in the middle of a frame")

    async def reply_of(self, response: httpx2.Response, *, within: float) -> HttpReply:
        """The whole of a reply, if it comes in time.

        Raises:
            PeerProtocolError: it is longer than allowed.
            TimedOutError: it takes too long.
        """
        try:
            async with asyncio.timeout(within):
                return await self._read(response, self.bounds.reply_bytes)
        except TimeoutError as error:
            raise TimedOutError("The reply took too long") from error

    async def _read(self, response: httpx2.Response, limit: int) -> HttpReply:
        chunks: list[bytes] = []
        size = 0
        async for chunk in response.aiter_raw():
            size += len(chunk)
            if size > limit:
                raise PeerProtocolError(f"The reply has more than {limit} bytes")
            chunks.append(chunk)
        headers = {name.lower(): value for name, value in response.headers.items()}
        return HttpReply(response.status_code, headers, b"".join(chunks))


def is_stream(response: httpx2.Response) -> bool:
    """Whether a reply is an event stream."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == EVENT_STREAM


def with_retry_after(error: A2AError, headers: Mapping[str, str]) -> A2AError:
    """The error with what the reply says of when to come back."""
    seconds = headers.get("retry-after", "").strip()
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 10:  # the other form is a date, of the agent's clock
        vars(error)["retry_after"] = int(seconds)
    return error


def retry_after_of(error: Exception) -> float:
    """How many seconds the agent asks to wait before the next attempt."""
    return vars(error).get("retry_after", 0.0)


def _origin(url: str) -> str:
    """The part of a URL that may stand in an error: queries may hold keys."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        return "What is no URL"
    return f"{parsed.scheme}://{parsed.netloc.decode()}"
