"""An ASGI application called in process, as if it were on the network; replies stream as they are sent.

For tests. The HTTP library has a transport of this kind, but it keeps a whole reply until its end, so that a stream
would show nothing before it is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import httpx2

Message: TypeAlias = MutableMapping[str, Any]
AsgiApp: TypeAlias = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


PATIENCE = 5.0
"""Seconds for an application to notice that its caller has gone; then it is canceled."""


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Hands requests to an ASGI application."""

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """The application's reply, as soon as it has begun. What the application raises before that is raised."""
        exchange = _Exchange(self._app, _scope(request), await request.aread())
        try:
            status, headers = await exchange.head()
        except BaseException:
            await exchange.aclose()
            raise
        return httpx2.Response(status, headers=headers, stream=exchange, request=request)


class _Exchange(httpx2.AsyncByteStream):
    """One request and its reply. The queue holds one chunk: an application is no faster than its reader."""

    def __init__(self, app: AsgiApp, scope: Message, body: bytes) -> None:
        self._body: bytes | None = body
        self._closed = asyncio.Event()
        self._head: asyncio.Future[tuple[int, list[tuple[bytes, bytes]]]] = asyncio.get_running_loop().create_future()
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue(1)
        self._failure: Exception | None = None
        self._task = asyncio.create_task(self._run(app, scope))

    async def head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        """The status and the headers, as soon as they are there."""
        return await self._head

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self._chunks.get()) is not None:
            yield chunk
        if self._failure is not None:  # the server would drop the connection
            raise httpx2.ReadError("The application failed in the middle of its reply") from self._failure

    async def aclose(self) -> None:
        """Tell the application that nobody reads any more, and wait until it has noticed."""
        self._closed.set()
        if not self._chunks.empty():
            self._chunks.get_nowait()  # whoever waits to send goes on, and finds that nobody reads
        await asyncio.wait([self._task], timeout=PATIENCE)
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _run(self, app: AsgiApp, scope: Message) -> None:
        try:
            await app(scope, self._receive, self._send)
            if not self._head.done():
                raise RuntimeError("The application sent no reply")
        except Exception as error:  # here a request ends
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
            raise OSError("The client has gone")
        if message["type"] == "http.response.start":
            self._head.set_result((message["status"], list(message.get("headers", ()))))
        elif message.get("body"):
            await self._chunks.put(bytes(message["body"]))


def _scope(request: httpx2.Request) -> Message:
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": request.url.raw_path.partition(b"?")[0],
        "query_string": request.url.query,
        "server": (request.url.host, request.url.port),
        "client": ("127.0.0.1", 0),
        "root_path": "",
    }
