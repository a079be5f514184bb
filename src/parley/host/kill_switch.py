"""The kill switch: what is stopped takes no messages, and its work ends at once, with the reason.

A task that waits for its caller stays as it is and can be answered when the agent works again; one that sleeps wakes up
then. A task that was at work when the host crashed fails with the reason, in `HostedProgram`. What is stopped is kept
in the store (`data.stops`), so other processes (`changes_elsewhere`) and later ones follow it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

from parley.engine.engine import Engine
from parley.engine.runs.run import Run
from parley.host.data.stops import Stop, Stops
from parley.host.orchestration.narration import stop_metadata
from parley.stores.interface import TaskHead

if TYPE_CHECKING:
    from parley.host.hosted_program import HostedProgram

logger = logging.getLogger(__name__)

STOP_SECONDS = 0.5
"""How long the handler of a stopped run may clean up before its task ends without it."""


class KillSwitch:
    """What is stopped, and the runs that this concerns."""

    def __init__(self, stops: Stops, engine: Engine) -> None:
        self.stops = stops
        self._engine = engine
        self._ending: set[asyncio.Task[Any]] = set()
        stops.on_change(self._follow)
        engine.claims.may_wake = self._may_wake

    async def close(self) -> None:
        """Leave the runs that are ending to the engine, which stops."""
        for task in self._ending:
            task.cancel()

    def _follow(self, tenant_id: str) -> None:
        """End what is at work for a tenant and stopped. Tasks that were held back begin if they may."""
        for run in self._engine.runs.all:
            if run.key.owner.tenant == tenant_id:
                stop = self.stops.find(tenant_id, _agent_id(run))
                if stop is not None and not run.is_cancelled:
                    self._end(run, stop)
        self._engine.claims.claim_now()

    def _end(self, run: Run, stop: Stop) -> None:
        run.cancel_text = stop.text
        run.final_metadata = {**run.final_metadata, **stop_metadata(stop)}
        task = asyncio.get_running_loop().create_task(self._engine.runs.cancel(run, seconds=STOP_SECONDS))
        self._ending.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("A stopped run could not store its end: %s", error)

    def _may_wake(self, head: TaskHead) -> bool:
        return self.stops.find(head.key.owner.tenant, head.agent.rpartition("/")[2]) is None


def _agent_id(run: Run) -> str:
    return cast("HostedProgram", run.program).agent.id  # a host has no other programs
