"""Time and ids, given to the engine from outside so that tests can script them."""

from __future__ import annotations

import asyncio
import time
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

    def steady(self) -> datetime:
        """The present moment by a clock that never jumps, as `Steady` says; for windows and what is old."""
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


SLEW = 0.01
"""How much faster or slower than real time a steady clock runs to meet the system clock. Running late only makes
windows longer; running fast makes them shorter, by six seconds of ten minutes."""


class Steady:
    """A clock that begins with the one on the wall and then goes by the time that has really passed.

    Where the two differ, because the clock on the wall was set, this one goes up to a hundredth faster or slower until
    they meet: a clock that is wrong for a minute moves it by less than a second, and one that was put right is followed
    in the end.
    """

    __slots__ = ("_at", "_moment", "_passed", "_wall")

    def __init__(self, wall: Callable[[], float], passed: Callable[[], float]) -> None:
        """`wall` is the time by the clock on the wall, `passed` what has passed since some moment, both in seconds."""
        self._wall = wall
        self._passed = passed
        self._at = passed()
        self._moment = wall()

    def seconds(self) -> float:
        """The present moment, in the seconds of the clock on the wall."""
        now = self._passed()
        elapsed, self._at = now - self._at, now
        moment = self._moment + elapsed
        most = elapsed * SLEW
        self._moment = moment + min(max(self._wall() - moment, -most), most)
        return self._moment


def _passed() -> float:
    """Seconds that have passed since some moment, also while the machine slept, where the system can tell."""
    return time.clock_gettime(CLOCK_BOOTTIME) if CLOCK_BOOTTIME is not None else monotonic()


CLOCK_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)
"""Linux has it. Elsewhere a steady clock is late after a sleep, and catches up."""


@lru_cache(maxsize=1)  # a busy engine asks many times in a millisecond
def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


class SystemClock:
    """The clock on the wall, and a steady one that begins with it."""

    def __init__(self) -> None:
        self._steady = Steady(time.time, _passed)
        self._steady_asked_at = 0
        self._steady_moment = self.now()

    def now(self) -> datetime:
        """The present moment, in UTC, to the millisecond: the precision that A2A 1.0 recommends."""
        return _moment(time_ns() // 1_000_000)

    def steady(self) -> datetime:
        """The present moment by a clock that never jumps; the same for a millisecond."""
        milliseconds = time_ns() // 1_000_000
        if milliseconds != self._steady_asked_at:
            self._steady_asked_at = milliseconds
            self._steady_moment = datetime.fromtimestamp(self._steady.seconds(), UTC)
        return self._steady_moment

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
    """An id that cannot be guessed: a UUID of version 7, whose 74 random bits follow the time in milliseconds.

    What is created together is then kept together: an index takes ids in order with far fewer pages than at random.
    """
    bits = urandom(10).hex()
    return f"{_id_prefix(time_ns() // 1_000_000)}{bits[:3]}-{_VARIANT[bits[3]]}{bits[4:7]}-{bits[7:19]}"
