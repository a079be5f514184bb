"""The public keys of a sender: fetched when a token names one that is not known, cached, and never fetched in a flood.

An unknown key id makes the set be fetched again, so that a sender can replace its key without a gap; but not more often
than every few seconds, whatever arrives, and once for all requests that wait. A request with an unknown key in between
fails as unavailable, because the key may be a new one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from parley.client.discovery.signatures import read_key_set
from parley.client.errors import DiscoveryError, ForbiddenTargetError
from parley.client.guard import read_target
from parley.client.transports.connections import Connections
from parley.client.transports.transport import CallOptions
from parley.protocol.errors import ParleyError, UnavailableError
from parley.protocol.signing import CardKey

KEPT_SECONDS = 600.0
"""How long a set is used, and so how long a withdrawn key is still accepted."""

PAUSE_SECONDS = 5.0
"""Between two fetches. A request with a new key that comes within the pause is told to come again after it."""

FetchKeys: TypeAlias = Callable[[str], Awaitable[bytes]]
"""Fetches the bytes at a URL, bounded. Raises ParleyError."""


class SenderKeys:
    """The keys at one URL, or pinned ones that are never fetched."""

    def __init__(
        self,
        url: str | None,
        fetch: FetchKeys | None,
        *,
        pinned: Mapping[str, CardKey] | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = url
        self._fetch = fetch
        self._now = now
        self._keys: Mapping[str, CardKey] = pinned or {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._fetching: asyncio.Task[None] | None = None

    @property
    def known(self) -> Mapping[str, CardKey]:
        """The keys by id, as they were fetched last."""
        return self._keys

    async def prepare(self, key_id: str) -> None:
        """Fetch the keys if this one is not known, or if they are old.

        Raises:
            UnavailableError: they cannot be fetched, or were fetched so recently that it is too early to try again.
        """
        if self._url is None or self._fetch is None:
            return
        if key_id in self._keys and self._now() - self._fetched_at < KEPT_SECONDS:
            return
        if self._fetching is None:
            if self._now() - self._tried_at < PAUSE_SECONDS:
                raise UnavailableError("The key of the notification is not known yet")
            self._fetching = asyncio.create_task(self._refresh(self._url, self._fetch))
            self._fetching.add_done_callback(_retrieve_error)
        await asyncio.shield(self._fetching)  # one request that ends early does not end it for the others

    async def _refresh(self, url: str, fetch: FetchKeys) -> None:
        try:
            self._keys = read_key_set(await fetch(url))
            self._fetched_at = self._now()
        except ParleyError as error:
            raise UnavailableError(f"The sender's keys cannot be fetched: {error}") from error
        finally:
            self._tried_at = self._now()
            self._fetching = None


def _retrieve_error(fetching: asyncio.Task[None]) -> None:
    """Take note of an error that no request waits for any more."""
    if not fetching.cancelled():
        fetching.exception()


class GuardedFetch:
    """Fetches a key set over connections of its own, which the client's guard checks; `named` is what is trusted."""

    def __init__(self, connect: Callable[[], Connections], *, named: str | None) -> None:
        self._connect = connect
        self._named = named

    def is_allowed(self, connections: Connections, url: str) -> bool:
        """Whether a card that was fetched over these connections may name this URL."""
        try:
            self._check(connections, url)
        except ForbiddenTargetError:
            return False
        return True

    def _check(self, connections: Connections, url: str) -> None:
        if not connections.is_in_process:
            connections.guard.check_interface(url, card_url=self._named)

    async def __call__(self, url: str) -> bytes:
        """The bytes of the set. Raises ParleyError."""
        connections = self._connect()
        try:
            if self._named is not None:
                connections.trust(self._named)
            self._check(connections, url)
            options = CallOptions({"accept": "application/json"}, timeout=connections.timeouts.card)
            async with asyncio.timeout(connections.timeouts.card):
                reply = await connections.channel.exchange(
                    "GET", url, b"", options, limit=connections.bounds.card_bytes
                )
        except TimeoutError as error:
            raise DiscoveryError(f"No key set of {read_target(url).origin} in time") from error
        finally:
            await connections.close()
        if reply.status != 200:
            raise DiscoveryError(f"The key set at {read_target(url).origin} answers {reply.status}")
        return reply.body
