"""Time and ids, given to the engine from outside so that tests can script them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import lru_cache
from os import urandom
from time import monotonic, time_ns
from typing import Protocol, TypeAlias


class Clock(Protocol):
    """What time it is, and waiting."""

    def now(self) -> datetime:
        """The present moment, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, whatever is done to the clock on the wall."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when so much time has passed."""
        ...

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """A block that raises TimeoutError when it takes longer, and knows that it did; None lets it take for ever."""
        ...


@lru_cache(maxsize=1)  # a busy engine asks many times in a millisecond
def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


class SystemClock:
    """The clock on the wall."""

    def now(self) -> datetime:
        """The present moment, in UTC, to the millisecond: the precision that A2A 1.0 recommends."""
        return _moment(time_ns() // 1_000_000)

    def monotonic(self) -> float:
        """Seconds since some moment, whatever is done to the clock on the wall."""
        return monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return when so much time has passed."""
        await asyncio.sleep(seconds)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """A block that raises TimeoutError when it takes longer, and knows that it did; None lets it take for ever."""
        return asyncio.timeout(seconds)


NewId: TypeAlias = Callable[[], str]

_VARIANT = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
"""The digit after the third dash: its two upper bits are always 10."""


@lru_cache(maxsize=1)
def _id_prefix(milliseconds: int) -> str:
    digits = f"{milliseconds:012x}"
    return f"{digits[:8]}-{digits[8:]}-7"


def random_id() -> str:
    """An id that nobody can guess: a UUID of version 7, whose 74 random bits follow the time in milliseconds.

    What is created together is then kept together: an index takes ids in order with far fewer pages than at random.
    """
    bits = urandom(10).hex()
    return f"{_id_prefix(time_ns() // 1_000_000)}{bits[:3]}-{_VARIANT[bits[3]]}{bits[4:7]}-{bits[7:19]}"
