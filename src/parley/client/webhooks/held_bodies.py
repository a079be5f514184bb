"""The memory for the bodies of requests to a webhook: bounded for each agent, and for all senders that are unknown yet.

A body counts for its agent, from its first byte until it was handled, if the headers prove the sender. Where the proof
covers the body, it counts as unverified until it was read: a stranger must not use up what an agent may have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TypeAlias

HELD_BODIES = 4
"""Bodies of the greatest length that may be in memory at the same time, while they arrive and are handled. Parley's
servers send the events of a task one after the other."""

LEAST_HELD_BYTES = 16 * 1024 * 1024
"""The same, for receivers that allow short bodies only."""

Hold: TypeAlias = Callable[[int], None]
"""Counts bytes that are kept in memory. Raises TooManyBodiesError."""


class TooManyBodiesError(Exception):
    """More bodies come at once than may be in memory."""


def most_held(max_bytes: int) -> int:
    """The bytes that may be in memory, where a body may have so many."""
    return max(HELD_BODIES * max_bytes, LEAST_HELD_BYTES)


class AgentBodies:
    """The bodies of one agent: it sends the next while our handler is still at work. Above the bound, that one ends."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0

    @contextmanager
    def request(self) -> Generator[Hold]:
        """A block for one request. What it yields counts bytes."""
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            own += size
            self._bytes += size
            if self._bytes > self._most:
                raise TooManyBodiesError

        try:
            yield hold
        finally:
            self._bytes -= own


class UnverifiedBodies:
    """The bodies of all requests whose proof covers the body: their senders are not known before it was read.

    Above the bound, the request whose body began first ends. To refuse the newest instead would let strangers who
    send slowly keep an agent out.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._sizes: dict[asyncio.Timeout, int] = {}
        """Of each request, the oldest first. Its timeout is how it is ended."""

    @asynccontextmanager
    async def request(self) -> AsyncGenerator[Hold]:
        """A block for one request. What it yields counts bytes. Raises TooManyBodiesError if the request is ended."""
        ending = asyncio.timeout(None)
        try:
            async with ending:
                yield partial(self._count, ending)
        except TimeoutError:
            raise TooManyBodiesError from None
        finally:
            self._release(ending)

    def _count(self, request: asyncio.Timeout, size: int) -> None:
        if request.when() is not None:  # it was ended just before this piece came
            raise TooManyBodiesError
        if size == 0:
            return
        self._sizes[request] = self._sizes.get(request, 0) + size
        self._bytes += size
        while self._bytes > self._most:
            oldest = next(iter(self._sizes))
            self._release(oldest)
            oldest.reschedule(asyncio.get_running_loop().time())
            if oldest is request:
                raise TooManyBodiesError

    def _release(self, request: asyncio.Timeout) -> None:
        self._bytes -= self._sizes.pop(request, 0)
