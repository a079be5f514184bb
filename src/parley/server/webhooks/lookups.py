"""Lookups of webhooks' names, shared between owners: names whose servers do not answer hold up their own owner only.

A lookup runs in a thread that cannot be interrupted. Its call gives up after some seconds; the thread may take half a
minute, and counts until it ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from parley.engine.delivery_limits import has_share
from parley.network.pinned import Resolve
from parley.stores.interface import Owner

LOOKUPS = 32
"""Names that are being resolved, each in a thread. One owner has half of them at most."""

_owner: ContextVar[Owner] = ContextVar("owner")


class SharedLookups:
    """Resolves names for owners: `with looking_up_for(owner): await lookups(host, port)`."""

    def __init__(self, resolve: Resolve, *, most: int = LOOKUPS) -> None:
        self._resolve = resolve
        self._most = most
        self._under_way: dict[asyncio.Future[Sequence[str]], Owner] = {}
        self._count_of: Counter[Owner] = Counter()
        self._ended = asyncio.Event()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a name, as text, once its owner has a share. Raises OSError if there are none."""
        owner = _owner.get()
        while not has_share(self._count_of[owner], self._most - len(self._under_way)):
            await self._ended.wait()
        lookup = asyncio.ensure_future(self._resolve(host, port))
        self._under_way[lookup] = owner
        self._count_of[owner] += 1
        lookup.add_done_callback(self._end)
        return await asyncio.shield(lookup)

    def _end(self, lookup: asyncio.Future[Sequence[str]]) -> None:
        if not lookup.cancelled():
            lookup.exception()  # its call may have given up: then nothing else asks for it
        owner = self._under_way.pop(lookup)
        self._count_of[owner] -= 1
        if not self._count_of[owner]:
            del self._count_of[owner]
        self._ended.set()
        self._ended = asyncio.Event()


@contextmanager
def looking_up_for(owner: Owner) -> Generator[None]:
    """Let names that are looked up in this block count as an owner's."""
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)
