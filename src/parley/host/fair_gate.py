"""A gate that lets a number of runs through at a time, and is fair between tenants.

While there is room, a run enters at once. When there is none, runs wait in one queue per tenant, and the tenants take
turns: a tenant with a thousand waiting runs delays the one run of another tenant by one turn. No tenant gets all
places, so that one whose runs hang does not stop the others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

RUNS_AT_ONCE = 256
"""Runs at each depth. More would only take turns: a run is at work on the processor most of the time, or waits for a
model, of which a provider serves few at a time."""


class FairGate:
    """Lets `limit` runs through at a time, and up to three quarters of that for one tenant."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._most = max(1, limit * 3 // 4)
        self._inside: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """The queues of tenants, the one whose turn is next first."""

    def waiting(self, tenant: str) -> int:
        """How many runs of a tenant wait."""
        return len(self._waiting.get(tenant, ()))

    @asynccontextmanager
    async def entered(self, tenant: str) -> AsyncGenerator[None]:
        """A block in which one run of a tenant counts."""
        await self._enter(tenant)
        try:
            yield
        finally:
            self._leave(tenant)

    def has_room(self, tenant: str) -> bool:
        """Whether a run of a tenant would enter at once."""
        return self._free > 0 and self._inside[tenant] < self._most and tenant not in self._waiting

    async def _enter(self, tenant: str) -> None:
        if self.has_room(tenant):
            self._take(tenant)
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(tenant, turn)
            else:  # its turn came at the same moment
                self._leave(tenant)
            raise

    def _take(self, tenant: str) -> None:
        self._free -= 1
        self._inside[tenant] += 1

    def _forget(self, tenant: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant)
        if queue is not None and turn in queue:  # it is not, if its turn came when it was cancelled already
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant]

    def _leave(self, tenant: str) -> None:
        """Free a place, and give what is free to the tenants whose turn it is."""
        self._free += 1
        self._inside[tenant] -= 1
        if not self._inside[tenant]:
            del self._inside[tenant]
        for name in list(self._waiting):
            if self._free > 0 and self._inside[name] < self._most:
                self._admit(name)

    def _admit(self, tenant: str) -> None:
        """Let the first run in that a tenant has waiting. Its next one waits until all other tenants had a turn."""
        queue = self._waiting.pop(tenant)
        while queue:
            turn = queue.popleft()
            if not turn.done():
                self._take(tenant)
                turn.set_result(None)
                break
        if queue:
            self._waiting[tenant] = queue
