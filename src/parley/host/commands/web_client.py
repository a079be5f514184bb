"""Reads documents from the web: from hosts that the guard allows, within a number of bytes and of seconds.

URLs come from models and from pages, so no host is trusted: each must be public, unless the operator has listed it, and
so must each host that it redirects to. Names are resolved once and connections go to the addresses that were checked
(see `parley.network.pinned`). Nothing is kept from one request to the next. Errors name a host, and never a query.
"""

from __future__ import annotations

import asyncio
import ssl
import string
import zlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from parley.client.errors import ForbiddenTargetError
from parley.client.guard import DialRules, Guard
from parley.client.transports.http import ALWAYS_SENT, NO_COMPRESSION, REDIRECTS
from parley.network.errors import ConnectTimeoutError, NetworkError, ReadTimeoutError
from parley.network.http import HttpRequest, HttpResponse
from parley.network.pinned import NameResolver, PinnedNetwork, Resolve, machine_tls
from parley.network.pool import ConnectionPool
from parley.network.proxies import Proxies
from parley.network.urls import InvalidUrlError, Url, parse_url
from parley.protocol.errors import ParleyError, quoted

MOST_REDIRECTS = 10
"""As many as curl's wrappers and most libraries follow."""


class FetchError(ParleyError):
    """The page cannot be fetched. The message says why and may be shown to the caller."""


@dataclass(frozen=True, slots=True)
class WebDocument:
    """A document, and the URL at which it was found after redirects."""

    url: str
    status: int
    headers: Mapping[str, str]
    """Their names are in lower case."""
    body: bytes
    is_cut: bool = False
    """Whether it has more bytes than were wanted."""


class WebClient:
    """Reads documents over http and https."""

    def __init__(
        self,
        guard: Guard,
        *,
        most_redirects: int = MOST_REDIRECTS,
        tls: ssl.SSLContext | None = None,
        resolve: Resolve | None = None,
    ) -> None:
        """The guard says which hosts may have private addresses; `resolve` looks up names in place of the machine."""
        self._guard = guard
        self._most_redirects = most_redirects
        self._tls = tls
        self._resolve = resolve

    async def get(
        self, url: str, *, max_bytes: int, seconds: float, headers: Mapping[str, str] | None = None
    ) -> WebDocument:
        """The document at a URL, and no more than `max_bytes` of it.

        Raises:
            FetchError: the URL is invalid or must not be called, or the document does not come in time.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        sent = {"accept": "*/*", **ALWAYS_SENT, **(headers or {})}
        try:
            async with self._pool() as pool:
                target, response = await self._open(pool, url, sent, deadline)
                body, is_cut = await _read(response, max_bytes, deadline)
                return WebDocument(target.text, response.status, response.headers, body, is_cut)
        except (ForbiddenTargetError, InvalidUrlError) as error:
            raise FetchError(error.message) from None
        except (ReadTimeoutError, ConnectTimeoutError):
            raise FetchError(f"There was no answer within {seconds:g} seconds") from None
        except NetworkError as error:
            raise FetchError(f"The server cannot be read: {error}") from error

    @asynccontextmanager
    async def _pool(self) -> AsyncGenerator[ConnectionPool]:
        # One for each document: a name server that does not answer then delays no other request.
        names = NameResolver(threads=1)
        proxies = Proxies.of_environment() if self._guard.use_proxy else None
        network = PinnedNetwork(DialRules(self._guard), self._resolve or names, proxies)
        pool = ConnectionPool(network, self._tls or machine_tls())
        try:
            yield pool
        finally:
            await pool.close()
            names.close()

    async def _open(
        self, pool: ConnectionPool, url: str, headers: Mapping[str, str], deadline: float
    ) -> tuple[Url, HttpResponse]:
        """The first response that is not a redirect, and its URL."""
        for _ in range(self._most_redirects + 1):
            target = parse_url(_ascii_url(url.encode()))
            response = await pool.send(HttpRequest("GET", target, headers), deadline)
            location = response.headers.get("location")
            if response.status not in REDIRECTS or not location:
                return target, response
            await response.close()
            url = _redirected(target, location)
        raise FetchError(f"The server redirects more than {self._most_redirects} times")


def _redirected(target: Url, location: str) -> str:
    try:
        return urljoin(target.text, _ascii_url(location.encode("latin-1")))  # as headers are decoded
    except ValueError:
        raise FetchError("The server redirects to an invalid URL") from None


async def _read(response: HttpResponse, max_bytes: int, deadline: float) -> tuple[bytes, bool]:
    """The body up to so many bytes, and whether there are more."""
    inflate = _inflate(response.headers.get("content-encoding", NO_COMPRESSION).strip().lower())
    body = bytearray()
    while chunk := await response.read(deadline):
        try:
            body += inflate(chunk, max_bytes + 1 - len(body))
        except zlib.error:
            raise FetchError("The server's answer is compressed, and damaged") from None
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), True
    return bytes(body), False


def _inflate(coding: str) -> Callable[[bytes, int], bytes]:
    """From a chunk to its content, of at most so many bytes. Some servers compress although they are asked not to."""
    if coding == NO_COMPRESSION:
        return lambda chunk, most: chunk[:most]
    if coding in ("gzip", "x-gzip"):
        return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS).decompress
    raise FetchError(f"The server's answer is compressed in an unknown way: {quoted(coding)}")


def _ascii_url(url: bytes) -> str:
    """A URL with spaces and letters beyond ASCII escaped, as browsers send it: `/Zürich` → `/Z%C3%BCrich`."""
    return quote(url.strip(), safe=string.punctuation)
