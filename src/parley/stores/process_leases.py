"""The leases of workers that share a process: for stores that no other process can use."""

from __future__ import annotations

import time
from collections.abc import Callable


class ProcessLeases:
    """Leases in memory. They end with the process, or when the store is opened again."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is a clock of seconds."""
        self._now = now
        self._expires_at: dict[str, float] = {}

    async def renew(self, worker: str, *, seconds: float) -> None:
        """Let a worker count as alive for this many seconds from now."""
        self._expires_at[worker] = self._now() + seconds

    async def live(self) -> frozenset[str]:
        """The workers whose leases have not expired."""
        now = self._now()
        return frozenset([worker for worker, expires_at in self._expires_at.items() if expires_at > now])

    async def release(self, worker: str) -> None:
        """End a worker's lease now, and delete leases that have expired."""
        live = await self.live() - {worker}
        self._expires_at = {each: self._expires_at[each] for each in live}

    def end_all(self) -> None:
        """End the leases of all workers."""
        self._expires_at.clear()
