"""The timers of approvals at work: they let defaults count, and wake tasks that a decision has not reached.

Every process of a host runs this, and of several that come to a timer at once one succeeds. What fails is tried again a
little later, so that a store or an agent that is not there now delays an approval and never loses it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta

from parley.engine.clock import Clock
from parley.host.approvals.desk import ApprovalDesk
from parley.host.approvals.outcomes import DecidedError, outcome_of
from parley.host.data.approval_timers import ApprovalTimer, ApprovalTimers
from parley.host.data.approvals import WAKE_AFTER, ApprovalNotFoundError
from parley.host.data.epoch import milliseconds
from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

LONGEST_PAUSE = timedelta(seconds=30)
"""Between two looks at the timers: another process may have set an earlier one."""

RETRY_AFTER = timedelta(seconds=10)


class ApprovalExpiry:
    """Acts when timers are due."""

    def __init__(self, desk: ApprovalDesk, timers: ApprovalTimers, clock: Clock) -> None:
        self._desk = desk
        self.timers = timers
        self._clock = clock
        self._changed = asyncio.Event()
        desk.on_timer = self.wake

    def wake(self) -> None:
        """Look at the timers: one was set, here or in another process, and it may be the earliest."""
        self._changed.set()

    async def run(self) -> None:
        """Act on timers until this is cancelled."""
        while True:
            self._changed.clear()
            pause = LONGEST_PAUSE.total_seconds()
            try:
                pause = min(pause, await self._act_on_due())
            except Exception:  # a background task must outlive the store's bad minutes
                logger.exception("The timers of approvals could not be looked at")
            with suppress(TimeoutError):
                async with self._clock.timeout(pause):
                    await self._changed.wait()

    async def _act_on_due(self) -> float:
        """Act on all timers that are due. Returns the seconds until the next one."""
        while timers := await self.timers.next():
            for timer, due in timers:
                left = due - milliseconds(self._clock.now())
                if left > 0:
                    return left / 1000
                await self._act(timer)
        return LONGEST_PAUSE.total_seconds()

    async def _act(self, timer: ApprovalTimer) -> None:
        is_done, again = False, RETRY_AFTER
        try:
            if timer.kind == "expire":
                await self._desk.expire(timer.tenant, timer.approval_id)
                is_done = True
            else:
                approval = await self._desk.approvals.get(timer.tenant, timer.approval_id)
                is_done = await self._desk.wake(timer.tenant, approval.request, outcome_of(approval))
                again = WAKE_AFTER
        except (ApprovalNotFoundError, DecidedError):
            is_done = True
        except ParleyError as error:
            logger.warning("The approval %s is tried again later: %s", timer.approval_id, error)
        except Exception:  # the other timers must go on
            logger.exception("The approval %s is tried again later", timer.approval_id)
        if is_done:
            await self.timers.remove(timer)
        else:
            await self.timers.set(timer, milliseconds(self._clock.now() + again))
