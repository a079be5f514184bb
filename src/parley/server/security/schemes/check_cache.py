"""A cache for slow checks of secrets, by a keyed hash of the secret.

Requests with the same secret at the same time share one check. Only positive results are cached; otherwise an attacker
could evict them with invalid secrets. A request that is cancelled does not stop a check that others wait for.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class CheckCache(Generic[T]):
    """At most `size` results, each for `seconds`."""

    def __init__(self, *, seconds: float, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._size = size
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._cached: OrderedDict[bytes, tuple[T, float]] = OrderedDict()
        self._running: dict[bytes, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._cached)

    async def get(self, secret: str, check: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The cached result for a secret, or that of `check`.

        An error of `check` is raised for all that wait for it, and is not cached.
        """
        key = hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=32).digest()
        if cached := self._cached.get(key):
            if self._clock() < cached[1]:
                self._cached.move_to_end(key)
                return cached[0]
            del self._cached[key]
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._check(key, check))
            task.add_done_callback(_retrieve_error)
        return await asyncio.shield(task)

    async def _check(self, key: bytes, check: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            result = await check()
        finally:
            del self._running[key]
        if self._seconds > 0:
            self._cached[key] = result, self._clock() + self._seconds
            if len(self._cached) > self._size:
                self._cached.popitem(last=False)
        return result

    async def close(self) -> None:
        """Cancel running checks, and clear the cache."""
        running = list(self._running.values())
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        self._cached.clear()


def _retrieve_error(task: asyncio.Task[Any]) -> None:
    """Retrieve the error, or asyncio would log it if all requests that waited were cancelled."""
    if not task.cancelled():
        task.exception()
