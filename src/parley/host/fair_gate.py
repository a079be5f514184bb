"""A gate that lets a number of runs through at a time, and is fair between tenants.

While there is room, a run enters at once. When there is none, runs wait in one queue per tenant, and the tenants take
turns: a tenant with a thousand waiting runs delays the one run of another tenant by one turn.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

RUNS_AT_ONCE = 256
"""Runs at each depth. More would only take turns: a run is at work on the processor most of the time, or waits for a
model, of which a provider serves few at a time."""


class FairGate:
    """Lets `limit` runs through at a time."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """The queues of tenants, the one whose turn is next first."""

    @property
    def waiting(self) -> dict[str, int]:
        """How many runs of each tenant wait."""
        return {tenant: len(queue) for tenant, queue in self._waiting.items()}

    @asynccontextmanager
    async def entered(self, tenant: str) -> AsyncGenerator[None]:
        """A block in which one run of a tenant counts."""
        await self._enter(tenant)
        try:
            yield
        finally:
            self._leave()

    async def _enter(self, tenant: str) -> None:
        if self._free > 0:  # then no run waits
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(tenant, turn)
            else:  # its turn came at the same moment
                self._leave()
            raise

    def _forget(self, tenant: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant)
        if queue is not None:
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant]

    def _leave(self) -> None:
        """Give the place to the next tenant's first run, or keep it free."""
        while self._waiting:
            tenant, queue = self._waiting.popitem(last=False)
            turn = queue.popleft()
            if queue:
                self._waiting[tenant] = queue  # behind all others
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
