"""When something is old enough to be deleted: by both clocks, and for some time already.

The system clock may be set wrong for a minute, or be wrong until the machine has reached a time server. Deleted data
does not come back, so an hour too late is better than a minute too early.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from parley.engine.clock import Clock

PATIENCE = timedelta(minutes=10)
"""How long something must have been old, and a process at work, before it is forgotten. By then a clock that was wrong
at the start of a machine has been set."""


class Retention:
    """How long something is kept. Call `forgotten_before` regularly."""

    def __init__(self, kept: timedelta, clock: Clock) -> None:
        """Something is `kept` for so long, and then for as long again, but not more than `PATIENCE`, to make sure."""
        self._kept = kept
        self._patience = min(PATIENCE, kept).total_seconds()
        self._clock = clock
        self._seen: deque[tuple[float, datetime]] = deque()

    def forgotten_before(self) -> datetime | None:
        """The moment before which everything may be forgotten; None if that is not known yet."""
        now = self._clock.monotonic()
        self._seen.append((now, min(self._clock.now(), self._clock.steady()) - self._kept))
        begin = now - self._patience
        while len(self._seen) > 1 and self._seen[1][0] <= begin:
            self._seen.popleft()
        if self._seen[0][0] > begin:
            return None
        return min(moment for _, moment in self._seen)
