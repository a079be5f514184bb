"""The ticker: one task of a host that sleeps until the next schedule is due, and runs what is due then.

It reads the store again at least every `LONGEST_SLEEP`, because other processes change schedules too and clocks are
set. Schedules that are not due cost nothing.
"""

from __future__ import annotations

import asyncio
import logging

from parley.engine.clock import Clock
from parley.engine.engine import Engine
from parley.host.data.epoch import milliseconds
from parley.host.data.schedule_ticks import DueSchedule, ScheduleTicks
from parley.host.schedules.tick import TickRunner
from parley.stores.interface import StoreError

logger = logging.getLogger(__name__)

LONGEST_SLEEP = 30.0
"""Seconds."""

SHORTEST_SLEEP = 1.0
"""Seconds that pass before it looks again at what is due and cannot be run here now."""

PAGE = 64
"""Schedules that are run at the same time."""


class Ticker:
    """Runs what is due until it is cancelled."""

    def __init__(self, ticks: ScheduleTicks, runner: TickRunner, engine: Engine, clock: Clock) -> None:
        self._ticks = ticks
        self._runner = runner
        self._engine = engine
        self._clock = clock
        self._changed = asyncio.Event()

    def wake(self) -> None:
        """Look at the schedules again: one has changed."""
        self._changed.set()

    async def keep_ticking(self) -> None:
        """Run what is due, whenever something is, until the engine stops."""
        while not self._engine.runs.is_stopping:
            self._changed.clear()
            try:
                wait = await self.run_due()
            except StoreError as error:
                logger.warning("Schedules could not be read: %s", error)
                wait = SHORTEST_SLEEP
            except Exception:  # the other schedules must go on
                logger.exception("Schedules could not be run")
                wait = LONGEST_SLEEP
            try:
                async with self._clock.timeout(min(wait, LONGEST_SLEEP)):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def run_due(self) -> float:
        """Run everything that is due. Returns the seconds until something else is."""
        while await self._run_all():
            pass  # a schedule that was run may be due again
        upcoming = await self._ticks.first_due(limit=1)
        if not upcoming:
            return LONGEST_SLEEP
        wait = (upcoming[0].due_ms - self._now()) / 1000
        return wait if wait > 0 else SHORTEST_SLEEP

    async def _run_all(self) -> bool:
        """Look at each schedule that is due once. Returns False if none of them could be run."""
        has_run, after, now = False, None, self._now()
        while not self._engine.runs.is_stopping:
            page = await self._ticks.first_due(after=after, limit=PAGE)
            due = [one for one in page if one.due_ms <= now]
            has_run |= any(await asyncio.gather(*map(self._run, due)))
            if len(due) < PAGE:
                break
            after = due[-1]
        return has_run

    async def _run(self, due: DueSchedule) -> bool:
        """Run one schedule; what goes wrong with it does not stop the others."""
        try:
            return await self._runner.run_due(due.tenant, due.id)
        except StoreError as error:
            logger.warning("Schedule %s/%s could not be run now: %s", due.tenant, due.id, error)
        except Exception:
            logger.exception("Schedule %s/%s could not be run", due.tenant, due.id)
        return False

    def _now(self) -> int:
        return milliseconds(self._clock.now())
