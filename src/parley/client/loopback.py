"""Waits on this machine for a browser to come back from an authorization server: RFC 8252 section 7.3.

It listens on the loopback address only, for one path, and takes the one answer that has the right state; whatever else
knocks is turned away and changes nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl, urlsplit

PATH = "/callback"
HEAD_SECONDS = 10.0
"""For a browser's request."""
MAX_HEAD = 16 * 1024

_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Parley</title>
<body style="font: 1.1rem system-ui; margin: 4rem auto; max-width: 30rem"><p>{}</p></body></html>"""


class LoopbackListener:
    """Listens within `async with`; `redirect_uri` is where the browser is to be sent."""

    def __init__(self, *, port: int = 0) -> None:
        """`port` is for servers that know only certain redirects; else any free one will do."""
        self._port = port
        self._server: asyncio.Server | None = None
        self._state = ""
        self._answer: asyncio.Future[dict[str, str]] | None = None
        self._silent: set[asyncio.StreamWriter] = set()
        """Connections on which nothing was asked yet: browsers open some in advance."""

    async def __aenter__(self) -> Self:
        self._answer = asyncio.get_running_loop().create_future()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=MAX_HEAD)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._silent:
            writer.transport.abort()
        await self._server.wait_closed()

    @property
    def redirect_uri(self) -> str:
        """Where this listens."""
        return f"http://127.0.0.1:{self._port}{PATH}"

    async def answer(self, state: str) -> dict[str, str]:
        """The query of the redirect that has this state."""
        assert self._answer is not None
        self._state = state
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._silent.add(writer)
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                self._silent.discard(writer)
                status, text = self._receive(head)
                body = _PAGE.format(text).encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(body)}\r\n"
                    "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        self._silent.discard(writer)
        writer.close()

    def _receive(self, head: bytes) -> tuple[str, str]:
        verb, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if verb != "GET" or target.path != PATH:
            return "404 Not Found", "There is nothing here."
        answer = dict(parse_qsl(target.query))
        if not self._state or not secrets.compare_digest(answer.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "This is the answer to another login."
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)
        return "200 OK", "Thank you. You can close this window and go back to the terminal."
