"""HTTP as both HTTP bindings use it: bounded replies, bounded streams, no redirects, and errors of our own.

Foreign exceptions end here. Nothing is kept from one request to the next but connections: no cookies, and no settings
from the environment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import responses
from urllib.parse import urlencode

from msgspec import structs

from parley.client.credentials.challenges import with_challenge
from parley.client.errors import ForbiddenTargetError, TimedOutError, UnreachableError
from parley.client.options import Bounds, Timeouts
from parley.client.transports.transport import CallOptions
from parley.dialects.json_errors import decode_rest_error, http_text
from parley.network.errors import ConnectError, ConnectTimeoutError, NetworkError, ReadTimeoutError
from parley.network.http import HttpNetwork, HttpRequest, HttpResponse
from parley.network.urls import parse_url
from parley.protocol.errors import A2AError, PeerProtocolError, UnavailableError, quoted
from parley.protocol.operations import SUBSCRIBE_TO_TASK, Operation
from parley.wire.sse import Decoder, Frame

EVENT_STREAM = "text/event-stream"
JSON = "application/json"

REDIRECTS = frozenset({301, 302, 303, 307, 308})

GATEWAY_STATUSES = frozenset({502, 503, 504})
"""Sent by gateways while the agent does not answer, with a page for people instead of A2A."""

USER_AGENT = "parley"
NO_COMPRESSION = "identity"
"""Replies must not be compressed: a few bytes can expand to gigabytes, and compressed streams may be delayed."""

ALWAYS_SENT = {"accept-encoding": NO_COMPRESSION, "user-agent": USER_AGENT}


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A whole reply. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpChannel:
    """Sends requests and reads replies."""

    def __init__(self, network: HttpNetwork, *, timeouts: Timeouts | None = None, bounds: Bounds | None = None) -> None:
        """`network` sends the requests: over guarded connections, or to an app in process."""
        self.network = network
        self.timeouts = timeouts or Timeouts()
        self.bounds = bounds or Bounds()

    async def close(self) -> None:
        """Close the connections."""
        await self.network.close()

    async def exchange(
        self, verb: str, url: str, body: bytes, options: CallOptions, *, limit: int | None = None
    ) -> HttpReply:
        """Send a request and read the whole reply, in time and of at most `limit` bytes.

        Raises as `opened` does, and:
            PeerProtocolError: the reply is longer than allowed.
        """
        until = asyncio.get_running_loop().time() + options.timeout
        try:
            response = await self._begin(verb, url, body, options, until)
            try:
                return await self._whole(response, until, limit or self.bounds.reply_bytes)
            finally:
                await response.close()
        except NetworkError as error:
            raise _translated(error, url) from error

    @asynccontextmanager
    async def opened(
        self, verb: str, url: str, body: bytes, options: CallOptions, *, within: float
    ) -> AsyncGenerator[HttpResponse]:
        """A reply whose body is not read yet, if it begins in time.

        Within the block, errors of the connection are translated.

        Raises:
            UnreachableError: there is no connection, or it breaks.
            TimedOutError: nothing comes in time.
            ForbiddenTargetError: the agent redirects.
            PeerProtocolError: the reply is not valid HTTP.
        """
        try:
            response = await self._begin(verb, url, body, options, asyncio.get_running_loop().time() + within)
            try:
                yield response
            finally:
                await response.close()
        except NetworkError as error:
            raise _translated(error, url) from error

    async def _begin(self, verb: str, url: str, body: bytes, options: CallOptions, until: float) -> HttpResponse:
        """The head of a reply. Its whole time is bounded, as headers may come one byte at a time."""
        parsed = parse_url(url)
        if options.query:
            query = urlencode(options.query)
            parsed = structs.replace(parsed, query=f"{parsed.query}&{query}" if parsed.query else query)
        response = await self.network.send(HttpRequest(verb, parsed, {**ALWAYS_SENT, **options.headers}, body), until)
        if response.status in REDIRECTS:
            await response.close()
            raise ForbiddenTargetError(f"The agent at {_origin(url)} redirects; give its real URL")
        if response.headers.get("content-encoding", NO_COMPRESSION).strip().lower() != NO_COMPRESSION:
            await response.close()
            raise PeerProtocolError(f"{_origin(url)} compresses its reply, although the client refuses compression")
        return response

    async def frames(self, response: HttpResponse, *, quiet: float) -> AsyncGenerator[Frame]:
        """The frames of an event stream.

        Raises:
            PeerProtocolError: a frame, or the stream, is longer than allowed.
            TimedOutError: nothing came for too long, or a frame took too long.
            UnreachableError: the stream ended within a frame.
        """
        decoder = Decoder(max_frame_bytes=self.bounds.frame_bytes)
        now = asyncio.get_running_loop().time
        size, begun = 0, None
        while chunk := await response.read(now() + quiet):
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
            elif now() - begun > self.timeouts.reply:  # bytes of one frame are not signs of life
                raise TimedOutError("A frame of the stream took too long")
        if decoder.pending:
            raise UnreachableError("The stream ended in the middle of a frame")

    async def reply_of(self, response: HttpResponse, *, within: float) -> HttpReply:
        """The whole of a reply that has begun. Raises as `exchange` does."""
        until = asyncio.get_running_loop().time() + within
        return await self._whole(response, until, self.bounds.reply_bytes)

    async def _whole(self, response: HttpResponse, until: float, limit: int) -> HttpReply:
        body = bytearray()  # not a list: with pieces of two bytes it would be twenty times as large
        while chunk := await response.read(until):
            if len(body) + len(chunk) > limit:
                raise PeerProtocolError(f"The reply has more than {limit} bytes")
            body += chunk
        return HttpReply(response.status, response.headers, bytes(body))


def with_headers(options: CallOptions, accept: str) -> CallOptions:
    """The options with the headers of both HTTP bindings."""
    headers = {"content-type": JSON, "accept": accept, **options.headers}
    if options.after is not None:
        headers["last-event-id"] = options.after
    return CallOptions(headers, options.query, options.timeout, options.quiet, options.after)


def seconds_to_begin(operation: Operation, options: CallOptions) -> float:
    """Seconds that a stream may take to begin. Some agents send nothing before the first event of a send."""
    return options.quiet if operation is SUBSCRIBE_TO_TASK else options.timeout


def is_stream(response: HttpResponse) -> bool:
    """Whether a reply is an event stream."""
    return response.headers.get("content-type", "").partition(";")[0].strip().lower() == EVENT_STREAM


def http_error(reply: HttpReply) -> A2AError:
    """The error of a reply, from its status and, if that is A2A, its body."""
    is_from_gateway = reply.status in GATEWAY_STATUSES and not reply.body.lstrip().startswith(b"{")
    if is_from_gateway:
        return with_retry_after(UnavailableError(summary_of(reply)), reply.headers)
    error = decode_rest_error(reply.status, reply.body, phrase=_phrase(reply.status))
    return with_retry_after(error, reply.headers)


def not_an_answer(reply: HttpReply, why: PeerProtocolError | None = None) -> PeerProtocolError:
    """The error for a reply that is not A2A; it quotes the reply."""
    return PeerProtocolError(f"Not an A2A answer{_reason(why)}: {summary_of(reply)}")


def not_an_event(frame: Frame, why: PeerProtocolError | None = None) -> PeerProtocolError:
    """The error for a frame that is not A2A; it quotes the frame."""
    return PeerProtocolError(f"Not an A2A event{_reason(why)}: {quoted(frame.data)}")


def _reason(why: PeerProtocolError | None) -> str:
    return f" ({why.message})" if why is not None else ""


def is_about_all(error: PeerProtocolError) -> bool:
    """Whether the whole answer is unreadable, so that a path into it says nothing."""
    return error.path in (None, "$")


def summary_of(reply: HttpReply) -> str:
    """The status of a reply and the beginning of its body."""
    return http_text(reply.status, reply.body, phrase=_phrase(reply.status))


def _phrase(status: int) -> str:
    return responses.get(status, "")


def with_retry_after(error: A2AError, headers: Mapping[str, str]) -> A2AError:
    """The error with the reply's `Retry-After` and the scope that was missing."""
    error = with_challenge(error, headers)
    seconds = headers.get("retry-after", "").strip()
    if seconds.isascii() and seconds.isdigit() and len(seconds) < 10:  # not the other form, a date by the agent's clock
        vars(error)["retry_after"] = int(seconds)
    return error


def retry_after_of(error: Exception) -> float:
    """Seconds that the agent asks to wait before the next attempt."""
    return vars(error).get("retry_after", 0.0)


def _translated(error: NetworkError, url: str) -> UnreachableError:
    origin = _origin(url)
    match error:
        case ConnectTimeoutError():
            return TimedOutError(f"No connection to {origin} in time: {error}", was_sent=False)
        case ConnectError():
            return UnreachableError(f"No connection to {origin}: {error}", was_sent=False)
        case ReadTimeoutError():
            return TimedOutError(f"{origin} did not answer in time")
        case _:
            return UnreachableError(f"The connection to {origin} broke: {error}")


def _origin(url: str) -> str:
    """The part of a URL that may appear in errors: queries may hold keys."""
    return parse_url(url).origin
