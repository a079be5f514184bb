"""The channel `a2a`: a streaming operation of A2A, called as the browser would call it, over the stream of the page.

The request goes through the whole app in this process, with the headers of the page's stream: its cookie and CSRF
token, or the credentials of a program. So it is authenticated, limited and recorded like any other. Frames are passed
on unchanged with their ids. The app waits with the next chunk until the page has taken the frames of this one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import aclosing
from typing import Any

import msgspec
from msgspec import Raw, Struct

from parley.console.api.errors import ConsoleError, code_of_status
from parley.console.streams.channel import ChannelCall
from parley.protocol.jsonvalue import JsonObject
from parley.server.app import App
from parley.server.bindings.failures import Header
from parley.server.contracts import CONSOLE_PATH
from parley.wire.sse import Decoder

logger = logging.getLogger(__name__)

METHODS = ("SendStreamingMessage", "SubscribeToTask")
REMOTE_PATH = f"{CONSOLE_PATH}/remote/"

MAX_REPLY_BYTES = 32 * 1024 * 1024
"""A reply that is not a stream: a message with files, or an error."""

CLOSE_SECONDS = 5.0
"""How long the app has to end a request whose page is gone."""

OWN_HEADERS = frozenset(
    [b"accept", b"accept-encoding", b"content-length", b"content-type", b"last-event-id", b"transfer-encoding"]
)
"""Headers of the page's stream that are about that request, and not about who sends it."""


class A2aParameters(Struct, frozen=True):
    """What the page asks for."""

    url: str
    request: JsonObject
    after: int | None = None


class A2aFrame(Struct, frozen=True):
    """An event of the operation, or its reply."""

    id: int | None
    response: Raw


async def open_a2a(call: ChannelCall) -> AsyncGenerator[object]:
    """The events of a streaming operation, or the one reply that is not a stream."""
    wanted = call.read(A2aParameters)
    path = _checked_path(wanted)
    body = msgspec.json.encode(wanted.request)
    exchange = _ChannelExchange(call.backend.app, call, path, _headers(call, wanted, body), body)
    try:
        async with aclosing(exchange.frames()) as frames:
            async for frame in frames:
                yield frame
    finally:
        await exchange.close()


def _checked_path(wanted: A2aParameters) -> str:
    path = wanted.url
    is_path = path.startswith("/") and not path.startswith("//") and path.isascii() and path.isprintable()
    is_own_api = path.startswith(CONSOLE_PATH) and not path.startswith(REMOTE_PATH)
    if not is_path or is_own_api or any(one in path for one in "?# \\"):
        raise ConsoleError("bad_request", "It must be the path of an agent, as `GET /agents` shows it", path="$.url")
    if wanted.request.get("method") not in METHODS:
        raise ConsoleError("bad_request", f"It must be one of {', '.join(METHODS)}", path="$.request.method")
    return path


def _headers(call: ChannelCall, wanted: A2aParameters, body: bytes) -> list[Header]:
    kept = [header for header in call.request.raw_headers if header[0].lower() not in OWN_HEADERS]
    about: list[Header] = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"accept", b"text/event-stream, application/json"),
    ]
    if not any(name.lower() == b"a2a-version" for name, _ in kept):
        about.append((b"a2a-version", b"1.0"))
    if wanted.after is not None:
        about.append((b"last-event-id", b"%d" % wanted.after))
    return [*kept, *about]


class _ChannelExchange:
    """One request to the app and its reply, chunk by chunk."""

    def __init__(self, app: App, call: ChannelCall, path: str, headers: list[Header], body: bytes) -> None:
        self._unread: bytes | None = body
        self._closed = asyncio.Event()
        self._chunks: asyncio.Queue[MutableMapping[str, Any] | None] = asyncio.Queue(1)
        self._taken = asyncio.Event()
        scope = call.request.scope_of_call(path, headers)
        self._task = asyncio.get_running_loop().create_task(self._run(app, scope))

    async def _run(self, app: App, scope: MutableMapping[str, Any]) -> None:
        try:
            await app(scope, self._receive, self._send)
        finally:
            await self._chunks.put(None)

    async def _receive(self) -> MutableMapping[str, Any]:
        if self._unread is not None:
            body, self._unread = self._unread, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        if self._closed.is_set():
            return
        self._taken.clear()
        await self._chunks.put(message)
        await self._taken.wait()

    async def frames(self) -> AsyncGenerator[A2aFrame]:
        """The events, or the one reply."""
        start = await self._next()
        if start is None:
            raise ConsoleError("internal", "The agent has not answered")
        headers = {name.lower(): value for name, value in start.get("headers", ())}
        if headers.get(b"content-type", b"").startswith(b"text/event-stream"):
            decoder = Decoder(max_frame_bytes=MAX_REPLY_BYTES)
            is_whole = False
            while (message := await self._next()) is not None:
                is_whole = not message.get("more_body", False)
                for frame in decoder.feed(message.get("body", b"")):
                    yield A2aFrame(int(frame.id) if frame.id.isdigit() else None, Raw(frame.data))
            if not is_whole:  # the server cut it off, because the page has taken nothing for long
                raise ConsoleError("unavailable", "The stream was cut off; go on after the last event")
            return
        body = bytearray()
        while (message := await self._next()) is not None:
            body += message.get("body", b"")
            if len(body) > MAX_REPLY_BYTES:
                raise ConsoleError("too_large", "The reply of the agent is too long")
        yield A2aFrame(None, Raw(_reply(bytes(body), int(start["status"]))))

    async def _next(self) -> MutableMapping[str, Any] | None:
        """The next part of the reply; None at its end. The app goes on when this is called again."""
        self._taken.set()
        return await self._chunks.get()

    async def close(self) -> None:
        """End the request, whatever it waits for."""
        self._closed.set()
        self._taken.set()
        while not self._chunks.empty():
            self._chunks.get_nowait()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_SECONDS)
        if not done:
            self._task.cancel()
            await asyncio.wait({self._task})
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            logger.error("A request of a page failed", exc_info=error)


def _reply(body: bytes, status: int) -> bytes:
    """A reply that is a JSON-RPC response. Raises ConsoleError for any other, by its status."""
    try:
        value = msgspec.json.decode(body, type=JsonObject)
    except (msgspec.DecodeError, msgspec.ValidationError):
        value = {}
    if "jsonrpc" in value:
        return body
    raise ConsoleError(code_of_status(status), _message_in(value) or f"The agent has answered with the status {status}")


def _message_in(value: JsonObject) -> str:
    """The message in an error of REST (`{"error": {"message": …}}`), or of a host (`{"error": "…"}`)."""
    error = value.get("error")
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""
