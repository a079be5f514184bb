"""Answers that took long to get, kept for a short while under a keyed hash of the secret they are about.

Requests that bring the same secret at the same time wait for one answer. Only good answers are kept: otherwise whoever
sends rubbish could push them out. A request that goes away does not stop the work that others wait for.
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


class AnswerCache(Generic[T]):
    """At most `size` answers, each for `seconds`."""

    def __init__(self, *, seconds: float, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._size = size
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, tuple[T, float]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def get(self, secret: str, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer kept for a secret, or the one that `ask` gives.

        Whatever `ask` raises goes to everybody who waits for it, and is not kept.
        """
        key = hashlib.blake2b(secret.encode("utf-8", "surrogatepass"), key=self._key, digest_size=32).digest()
        if kept := self._kept.get(key):
            if self._clock() < kept[1]:
                self._kept.move_to_end(key)
                return kept[0]
            del self._kept[key]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, ask))
            task.add_done_callback(_look)
        return await asyncio.shield(task)

    async def _ask(self, key: bytes, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        try:
            answer = await ask()
        finally:
            del self._asking[key]
        if self._seconds > 0:
            self._kept[key] = answer, self._clock() + self._seconds
            if len(self._kept) > self._size:
                self._kept.popitem(last=False)
        return answer

    async def close(self) -> None:
        """Stop asking, and forget."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        self._kept.clear()


def _look(task: asyncio.Task[Any]) -> None:
    """Look at the outcome, for if all who waited have gone nobody else does, and asyncio would complain."""
    if not task.cancelled():
        task.exception()
