"""Fetches files by URL, chunk by chunk: from hosts that the guard allows, within a number of bytes and of seconds.

The URL comes from a peer, so its host is never trusted, and neither is a host that it redirects to: each must be public
and use https, unless the guard allows it. A connection is used for one file and then closed. Errors name the host and
never the path or the query, which may hold a key.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urljoin

from parley.client.errors import (
    FileForbiddenError,
    FileTooLargeError,
    FileUnavailableError,
    ForbiddenTargetError,
)
from parley.client.guard import HINT, DialRules, Guard, read_target
from parley.client.transports.http import ALWAYS_SENT, REDIRECTS
from parley.network.errors import NetworkError, ReadTimeoutError
from parley.network.http import HttpRequest, HttpResponse
from parley.network.pinned import NameResolver, PinnedNetwork, Resolve, machine_tls
from parley.network.pool import ConnectionPool
from parley.network.proxies import Proxies
from parley.network.urls import HTTP, Url

MAXREDIRECTS = 5
"""A download from a code forge takes two or three."""

IDLE_SECONDS = 30.0
"""How long a server may send nothing."""

_HEADERS = {"accept": "*/*", **ALWAYS_SENT}


class FileFetcher:
    """Fetches files from hosts that the guard allows; by default, from public hosts over https."""

    def __init__(
        self, guard: Guard | None = None, *, tls: ssl.SSLContext | None = None, resolve: Resolve | None = None
    ) -> None:
        """`tls` is the context for https; by default it trusts the certificate authorities of the machine."""
        self._guard = replace(guard or Guard(), trust_named=False)
        self._tls = tls
        self._resolve = resolve

    async def fetch(self, url: str, *, max_bytes: int, seconds: float) -> AsyncGenerator[bytes]:
        """The chunks of a file.

        Raises:
            FileForbiddenError: the URL, or one that it redirects to, must not be called.
            FileTooLargeError: the file has more bytes.
            FileUnavailableError: there is no such file, the server cannot be reached, or it takes too long.
        """
        loop, size = asyncio.get_running_loop(), 0
        deadline = loop.time() + seconds
        try:
            async with self._pool() as pool, _response(pool, url, self._guard, deadline) as response:
                while chunk := await response.read(min(deadline, loop.time() + IDLE_SECONDS)):
                    size += len(chunk)
                    if max(size, _announced_size(response)) > max_bytes:
                        raise FileTooLargeError(f"The file has more than {max_bytes} bytes")
                    yield chunk
        except ForbiddenTargetError as error:
            advice = "; `parley serve --file-host` allows more hosts"
            raise FileForbiddenError(error.message.replace(HINT, advice)) from None
        except ReadTimeoutError:
            waited = f"{seconds:g} seconds in all, or {min(IDLE_SECONDS, seconds):g} without a byte"
            raise FileUnavailableError(f"The file did not arrive in time: {waited}") from None
        except NetworkError as error:
            raise FileUnavailableError(f"The file cannot be fetched: {error}") from error

    @asynccontextmanager
    async def _pool(self) -> AsyncGenerator[ConnectionPool]:
        # One for each file: a name server that does not answer then delays no other file.
        names = NameResolver(threads=1)
        proxies = Proxies.of_environment() if self._guard.use_proxy else None
        network = PinnedNetwork(DialRules(self._guard), self._resolve or names, proxies)
        pool = ConnectionPool(network, self._tls or machine_tls())
        try:
            yield pool
        finally:
            await pool.close()
            names.close()


@asynccontextmanager
async def _response(pool: ConnectionPool, url: str, guard: Guard, deadline: float) -> AsyncGenerator[HttpResponse]:
    """The response that has the file."""
    target, response = await _open(pool, url, guard, deadline)
    try:
        if response.status != 200:
            raise FileUnavailableError(f"{target.origin} answered with status {response.status}")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise FileUnavailableError(f"{target.origin} sent the file compressed, which it was asked not to do")
        yield response
    finally:
        await response.close()


def _announced_size(response: HttpResponse) -> int:
    length = response.headers.get("content-length", "")
    return int(length) if length.isdecimal() else 0


async def _open(pool: ConnectionPool, url: str, guard: Guard, deadline: float) -> tuple[Url, HttpResponse]:
    """The response to a request for a file, after redirects."""
    loop = asyncio.get_running_loop()
    for _ in range(MAXREDIRECTS + 1):
        guard.check_named(url)
        target = read_target(url)
        if target.scheme not in HTTP:
            raise ForbiddenTargetError("A file is fetched over https:// or http:// only")
        request = HttpRequest("GET", target, _HEADERS)
        response = await pool.send(request, min(deadline, loop.time() + IDLE_SECONDS))
        location = response.headers.get("location")
        if response.status not in REDIRECTS or not location:
            return target, response
        await response.close()
        url = urljoin(target.text, location)
    raise FileUnavailableError(f"The file's server redirects more than {MAXREDIRECTS} times")
