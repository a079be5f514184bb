"""DNS lookups for webhooks, shared fairly between owners: slow name servers delay only the owner that uses them.

A lookup runs in a thread that cannot be interrupted. The webhook call times out after some seconds, but the thread may
take half a minute, and counts until it ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from parley.engine.webhooks.delivery_limits import has_share
from parley.network.pinned import Resolve
from parley.stores.interface import Owner

LOOKUPS = 32
"""Concurrent lookups, each in a thread. One owner may use half of them."""

_owner: ContextVar[Owner] = ContextVar("owner")


class SharedLookups:
    """Resolves names for owners: `with looking_up_for(owner): await lookups(host, port)`."""

    def __init__(self, resolve: Resolve, *, limit: int = LOOKUPS) -> None:
        self._resolve = resolve
        self._limit = limit
        self._active: dict[asyncio.Future[Sequence[str]], Owner] = {}
        self._by_owner: Counter[Owner] = Counter()
        self._ended = asyncio.Event()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Resolve a name when its owner has a free share. Raises OSError if it has no addresses."""
        owner = _owner.get()
        while not has_share(self._by_owner[owner], self._limit - len(self._active)):
            await self._ended.wait()
        lookup = asyncio.ensure_future(self._resolve(host, port))
        self._active[lookup] = owner
        self._by_owner[owner] += 1
        lookup.add_done_callback(self._end)
        return await asyncio.shield(lookup)

    def _end(self, lookup: asyncio.Future[Sequence[str]]) -> None:
        if not lookup.cancelled():
            lookup.exception()  # retrieved here in case the call has timed out
        owner = self._active.pop(lookup)
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]
        self._ended.set()
        self._ended = asyncio.Event()


@contextmanager
def looking_up_for(owner: Owner) -> Generator[None]:
    """A context whose lookups count against this owner."""
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)
