"""The wake timer: one timer for all sleeping tasks of a store, set for the next one that is due.

A task that sleeps is a row of the store and nothing else. When it is due, it is claimed like the tasks of dead workers.
The timer only makes this punctual: claims are also made from time to time, and they find whatever is due, for example
after the system clock was set. In a shared store, what is due within a moment is claimed together, because every worker
looks for it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import TYPE_CHECKING

from parley.stores.interface import StoreError

if TYPE_CHECKING:
    from parley.engine.engine import Engine

logger = logging.getLogger(__name__)

TOGETHER_SECONDS = 0.05
"""How late a task of a shared store may be woken. So each worker looks at most twenty times a second for due tasks."""


class WakeTimer:
    """Claims tasks when the next sleep ends."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._due: datetime | None = None
        self._timer: asyncio.Task[None] | None = None

    def set(self, moment: datetime) -> None:
        """Claim tasks at a moment, unless tasks are to be claimed before."""
        if self._due is None or moment < self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._due = moment
            self._timer = self._engine.in_background(self._wait(moment))

    async def set_next(self, *, after: datetime) -> None:
        """Set the timer for the first wake-up after a moment, up to which all due tasks were looked up."""
        try:
            moment = await self._engine.store.tasks.next_wake(after=after)
        except StoreError as error:
            logger.warning("The next wake-up could not be looked up: %s", error)
        else:
            if moment is not None:
                self.set(moment)

    async def _wait(self, moment: datetime) -> None:
        clock = self._engine.clock
        late = TOGETHER_SECONDS if self._engine.store.is_shared else 0.0
        await clock.sleep((moment - clock.now()).total_seconds() + late)
        self._due = self._timer = None
        self._engine.claims.claim_now()
