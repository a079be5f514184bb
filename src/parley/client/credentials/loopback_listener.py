"""Receives the redirect of a browser from an authorization server: RFC 8252 section 7.3.

It listens on loopback addresses only, serves one path, and accepts one request with the right state; all other requests
are refused.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl

from parley.client.errors import CredentialsError
from parley.network.urls import InvalidUrlError, parse_url

REDIRECT = "http://127.0.0.1/callback"
"""The redirect URI, to which a free port is added: RFC 8252 requires servers to accept any."""
HEAD_SECONDS = 10.0
"""For reading a browser's request."""
MAX_HEAD = 16 * 1024

_ADDRESSES = {"127.0.0.1": ("127.0.0.1",), "::1": ("::1",), "localhost": ("127.0.0.1", "::1")}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Parley</title>
<body style="font: 1.1rem system-ui; margin: 4rem auto; max-width: 30rem"><p>{}</p></body></html>"""


class LoopbackListener:
    """Listens within `async with`; `redirect_uri` is the URL for the browser."""

    def __init__(self, redirect: str = REDIRECT) -> None:
        """`redirect` is the URI registered at the server: http on this machine. Without a port, a free one is used.

        Raises:
            CredentialsError: it is not on this machine, or has a query, a fragment or a user.
        """
        try:
            url = parse_url(redirect, ("http",))
        except InvalidUrlError as error:
            raise CredentialsError(error.message) from None
        if url.host not in _ADDRESSES or url.query or url.fragment:
            raise CredentialsError("A browser can be redirected to http://127.0.0.1 or http://localhost only")
        self._host = url.host
        self._port = url.port if url.has_port else 0
        self._path = url.path
        self._servers: list[asyncio.Server] = []
        self._state = ""
        self._answer: asyncio.Future[dict[str, str]] | None = None
        self._silent: set[asyncio.StreamWriter] = set()
        """Connections without a request yet: browsers open some in advance."""

    async def __aenter__(self) -> Self:
        """Listen. Raises CredentialsError if another program uses the port."""
        self._answer = asyncio.get_running_loop().create_future()
        first, *others = _ADDRESSES[self._host]
        try:
            await self._listen(first)
        except OSError as error:
            reason = error.strerror or "it is taken"
            raise CredentialsError(f"Cannot listen at {self.redirect_uri}: {reason}") from error
        for other in others:
            with suppress(OSError):  # not every machine has IPv6; browsers try both
                await self._listen(other)
        return self

    async def _listen(self, address: str) -> None:
        server = await asyncio.start_server(self._serve, address, self._port, limit=MAX_HEAD)
        self._servers.append(server)
        self._port = server.sockets[0].getsockname()[1]

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()
        for writer in self._silent:
            writer.transport.abort()
        for server in self._servers:
            await server.wait_closed()

    @property
    def redirect_uri(self) -> str:
        """The URL at which this listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}{self._path}"

    def expect(self, state: str) -> None:
        """Accept the redirect with this state. Call it before a browser is opened."""
        self._state = state

    async def answer(self) -> dict[str, str]:
        """The query of the redirect with the expected state."""
        assert self._answer is not None, "used within async with"
        return await self._answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._silent.add(writer)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):  # such as TimeoutError
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
        path, _, query = rest.partition(" ")[0].partition("?")
        if verb != "GET" or path != (self._path or "/"):
            return "404 Not Found", "There is nothing here."
        answer = dict(parse_qsl(query))
        if not self._state or not secrets.compare_digest(answer.get("state", "").encode(), self._state.encode()):
            return "400 Bad Request", "This is the answer to another login."
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)
        return "200 OK", "Thank you. You can close this window and go back to the terminal."
