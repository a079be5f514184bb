"""Scripted time: a clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count

from parley.engine.clock import Steady

IN_ORDER = 2_000
"""How many sleepers one call wakes at their own moment."""


class FakeClock:
    """A clock for tests: `await clock.advance(60)` lets a minute pass at once, and all that waited for it happen.

    `clock.jump(60)` sets the clock on the wall a minute forward, while no time passes.
    """

    def __init__(self, now: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = now
        self._jumped = timedelta()
        self._steady = Steady(lambda: self.now().timestamp(), self.monotonic)
        self._order = count()
        self._alarms: list[tuple[datetime, int, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        """The moment that the clock on the wall shows."""
        return self._now + self._jumped

    def steady(self) -> datetime:
        """The moment by a clock that never jumps."""
        return datetime.fromtimestamp(self._steady.seconds(), UTC)

    def monotonic(self) -> float:
        """The time that has passed, in seconds."""
        return self._now.timestamp()

    def jump(self, seconds: float) -> None:
        """Set the clock on the wall forward, or back if negative. Nothing that waits notices."""
        self._jumped += timedelta(seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        """Return when the clock has been moved so far."""
        await (self._alarm(seconds) if seconds > 0 else asyncio.sleep(0))

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[asyncio.Timeout]:
        """A block that raises TimeoutError when the clock is moved beyond it."""
        return self._timeout(seconds)

    @asynccontextmanager
    async def _timeout(self, seconds: float | None) -> AsyncGenerator[asyncio.Timeout]:
        async with asyncio.timeout(None) as limit:
            if seconds is None:
                yield limit
                return
            alarm = self._alarm(seconds)
            is_inside = True
            alarm.add_done_callback(lambda done: limit.reschedule(0) if is_inside and not done.cancelled() else None)
            try:
                yield limit
            finally:
                is_inside = False
                alarm.cancel()

    def _alarm(self, seconds: float) -> asyncio.Future[None]:
        alarm: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._alarms, (self._now + timedelta(seconds=seconds), next(self._order), alarm))
        return alarm

    async def advance(self, seconds: float) -> None:
        """Let time pass, and wake all sleepers in order.

        After many wake-ups the rest of the time passes in one step: days with loops that wake every second take long.
        """
        target, woken = self._now + timedelta(seconds=seconds), 0
        while self._alarms and self._alarms[0][0] <= target:
            moment, _, alarm = heapq.heappop(self._alarms)
            woken += 1
            self._now = max(self._now, moment if woken <= IN_ORDER else target)
            if not alarm.done():
                alarm.set_result(None)
                await asyncio.sleep(0)
        self._now = target
        await asyncio.sleep(0)
