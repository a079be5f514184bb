"""How often something may happen: so many times at once, and so many times a second in the long run."""

from __future__ import annotations

import time
from collections.abc import Callable


class RateAllowance:
    """What is left of a rate."""

    def __init__(self, burst: int, per_second: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = burst
        self._per_second = per_second
        self._clock = clock
        self._left = float(burst)
        self._refilled_at = clock()

    def take(self) -> bool:
        """Whether it may happen once more, which then counts."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._refilled_at) * self._per_second)
        self._refilled_at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
