"""Sleeps: a handler waits until a moment, however far away, and costs nothing meanwhile.

A sleep is a step whose outcome is the moment at which it ends, recorded when it begins. A handler that comes to it
again waits for the rest, if there is any. A short rest passes in the handler. A longer one ends the run: the task keeps
its state, no worker holds it, and another run begins when it is due.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from parley.protocol.errors import LocalProtocolError

if TYPE_CHECKING:
    from parley.engine.runs.run import Run

SHORT_SECONDS = 1.0
"""The longest rest that passes in the handler: waking a task costs a few writes and a run from the top."""


class Sleeps(Struct, eq=False):
    """The sleeps of one run."""

    run: Run
    _until: dict[str, datetime] = {}
    """When those in progress end. Those that are taken side by side have different names."""

    async def until(self, moment: datetime, name: str) -> None:
        """Return at a moment, or at the one that was recorded when the sleep began.

        Raises:
            Stopped: the task sleeps, and another run continues it.
            LocalProtocolError: another sleep of this name is in progress.
        """
        if name in self._until:
            raise LocalProtocolError(
                f"Two sleeps named {name!r} are in progress at the same time; name each: turn.sleep(…, name=…)"
            )
        self._until[name] = moment
        try:
            self._until[name] = moment = await self._recorded(moment, name)
            await self._wait(moment)
        finally:
            del self._until[name]

    async def _recorded(self, moment: datetime, name: str) -> datetime:
        """When the sleep ends: as the log says, or as it is recorded now."""
        step = self.run.steps.begin(name, "sleep")
        try:
            if step.recorded is None:
                await step.record(moment.isoformat())
                return moment
            return datetime.fromisoformat(str(step.recorded[0]))
        finally:
            step.close()

    async def _wait(self, moment: datetime) -> None:
        clock = self.run.engine.clock
        while (rest := (moment - clock.now()).total_seconds()) > 0:
            if rest <= SHORT_SECONDS:
                await clock.sleep(rest)
            else:
                await asyncio.sleep(0)  # code that runs side by side begins its own sleeps and steps
                await self.run.steps.wait_until_idle(with_delegations=True)
                await self.run.sleep(min(self._until.values()))
