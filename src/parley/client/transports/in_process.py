"""An ASGI application called in process, as if it were on the network; replies stream as they are sent.

For tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote

from parley.network.errors import BrokenConnectionError, ReadTimeoutError
from parley.network.http import HttpRequest

Message: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

T = TypeVar("T")

DISCONNECT_SECONDS = 5.0
"""Time for an application to react to a disconnect; then it is canceled."""


class InProcess:
    """Sends requests to an ASGI application."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def send(self, request: HttpRequest, deadline: float) -> _Exchange:
        """The reply once it has begun. An exception of the application before that is raised."""
        exchange = _Exchange(self._app, _scope(request), request.body)
        try:
            await exchange.begun(deadline)
        except BaseException:
            await exchange.close()
            raise
        return exchange

    async def close(self) -> None:
        """Nothing is open between two requests."""


class _Exchange:
    """One request and its reply. The queue holds one chunk, so that an application waits for its reader."""

    def __init__(self, app: AsgiApp, scope: Message, body: bytes) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self._body: bytes | None = body
        self._closed = asyncio.Event()
        self._head: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._is_read = False
        self._failure: Exception | None = None
        self._task = asyncio.create_task(self._run(app, scope))

    async def begun(self, deadline: float) -> None:
        """Wait for the status and the headers."""
        await _in_time(self._head, deadline)

    async def read(self, deadline: float) -> bytes:
        """The next chunk of the body; empty at its end."""
        if self._is_read:
            return b""
        if self._closed.is_set():
            raise BrokenConnectionError("it was closed by the caller")
        chunk = await _in_time(self._chunks.get(), deadline)
        if chunk is not None:
            return chunk
        self._is_read = True
        if self._failure is not None:  # as if the server had dropped the connection
            raise BrokenConnectionError("the application failed in the middle of its reply") from self._failure
        return b""

    async def close(self) -> None:
        """Disconnect, and wait until the application has reacted."""
        self._closed.set()
        if not self._chunks.empty():
            self._chunks.get_nowait()  # a waiting `send` continues, and notices the disconnect
        try:
            await asyncio.wait([self._task], timeout=DISCONNECT_SECONDS)
        finally:
            self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self, app: AsgiApp, scope: Message) -> None:
        try:
            await app(scope, self._receive, self._send)
            if not self._head.done():
                raise RuntimeError("The application sent no reply")
        except Exception as error:  # a request ends here
            if not self._head.done():
                self._head.set_exception(error)
            elif not self._closed.is_set():
                self._failure = error
        finally:
            if not self._closed.is_set():
                await self._chunks.put(None)

    async def _receive(self) -> Message:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if self._closed.is_set():
            raise OSError("The client has disconnected")
        if message["type"] == "http.response.start":
            self.status = message["status"]
            for name, value in message.get("headers", ()):
                key, text = name.decode("latin-1").lower(), value.decode("latin-1")
                self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
            self._head.set_result(None)
        elif message.get("body"):
            await self._chunks.put(bytes(message["body"]))


async def _in_time(awaitable: Awaitable[T], deadline: float) -> T:
    try:
        async with asyncio.timeout_at(deadline):
            return await awaitable
    except TimeoutError as error:
        raise ReadTimeoutError("the application sent nothing in time") from error


def _scope(request: HttpRequest) -> Message:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower().encode(), value.encode()) for name, value in request.all_headers()],
        "scheme": url.scheme,
        "path": unquote(url.path or "/"),
        "raw_path": (url.path or "/").encode(),
        "query_string": url.query.encode(),
        "server": (url.host, url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }
