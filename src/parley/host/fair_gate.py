"""A gate that lets a number of runs through at a time, and is fair between tenants.

While there is room, a run enters at once. When there is none, runs wait in one queue per tenant, and the tenants take
turns: a tenant with a thousand waiting runs delays the one run of another tenant by one turn. No tenant gets all
places, so that one whose runs hang does not stop the others. Within a tenant, the run whose `TurnOrder` is least is the
next; how urgent one tenant's runs are means nothing to the others.
"""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from math import inf

RUNS_AT_ONCE = 256
"""Runs at each depth. More would only take turns: a run is at work on the processor most of the time, or waits for a
model, of which a provider serves few at a time."""


@dataclass(frozen=True, slots=True, order=True)
class TurnOrder:
    """When it is a run's turn among those of its tenant: the least one is the next.

    It is made of what the log holds of a task, so that it is the same after a restart.
    """

    has_not_begun: bool
    """Work that a restart has cut off goes on first."""
    time: float
    """When the run counts as having come: see `priorities.turn_time`."""
    task_id: str


AT_THE_END = TurnOrder(True, inf, "")


@dataclass(slots=True, order=True)
class _WaitingRun:
    order: TurnOrder
    number: int
    """Those of one order enter as they came."""
    turn: asyncio.Future[None] = field(compare=False)


class FairGate:
    """Lets `limit` runs through at a time, and up to three quarters of that for one tenant."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._most = max(1, limit * 3 // 4)
        self._inside: Counter[str] = Counter()
        self._waiting: OrderedDict[str, list[_WaitingRun]] = OrderedDict()
        """The queues of tenants, the one whose turn is next first."""
        self._number = 0

    def waiting(self, tenant: str) -> int:
        """How many runs of a tenant wait."""
        return len(self._waiting.get(tenant, ()))

    def queue(self, tenant: str) -> Sequence[str]:
        """The tasks of a tenant whose runs wait, the next one first."""
        return [waiting.order.task_id for waiting in self._waiting.get(tenant, ())]

    @asynccontextmanager
    async def entered(self, tenant: str, order: TurnOrder = AT_THE_END) -> AsyncGenerator[None]:
        """A block in which one run of a tenant counts."""
        await self._enter(tenant, order)
        try:
            yield
        finally:
            self._leave(tenant)

    def has_room(self, tenant: str) -> bool:
        """Whether a run of a tenant would enter at once."""
        return self._free > 0 and self._inside[tenant] < self._most and tenant not in self._waiting

    def move(self, tenant: str, order: TurnOrder) -> bool:
        """Give a waiting run of a tenant another turn. Return False if no run of this task waits."""
        queue = self._waiting.get(tenant, [])
        for waiting in queue:
            if waiting.order.task_id == order.task_id:
                queue.remove(waiting)
                waiting.order = order
                insort(queue, waiting)
                return True
        return False

    async def _enter(self, tenant: str, order: TurnOrder) -> None:
        if self.has_room(tenant):
            self._take(tenant)
            return
        self._number += 1
        waiting = _WaitingRun(order, self._number, asyncio.get_running_loop().create_future())
        insort(self._waiting.setdefault(tenant, []), waiting)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.cancelled():
                self._forget(tenant, waiting)
            else:  # its turn came at the same moment
                self._leave(tenant)
            raise

    def _take(self, tenant: str) -> None:
        self._free -= 1
        self._inside[tenant] += 1

    def _forget(self, tenant: str, waiting: _WaitingRun) -> None:
        queue = self._waiting.get(tenant)
        if queue is not None and waiting in queue:  # it is not, if its turn came when it was cancelled already
            queue.remove(waiting)
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
            turn = queue.pop(0).turn
            if not turn.done():
                self._take(tenant)
                turn.set_result(None)
                break
        if queue:
            self._waiting[tenant] = queue
