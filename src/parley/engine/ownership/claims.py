"""Claims: tasks whose workers have died, or whose sleep is over, are taken over as far as there is room to run them.

A claim is an event that the new holder appends. Of several workers that claim a task one succeeds, and the others
ignore the conflict. Tasks whose runs could not write are failed here as well, when the store accepts writes again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from parley.engine.endings import end_task
from parley.engine.ownership.lease import RENEWALS
from parley.engine.program import Program, Recovery
from parley.engine.runs.run import Run
from parley.protocol.tasks import TaskState
from parley.stores.interface import ConflictError, StoreError, TaskHead, TaskKey

if TYPE_CHECKING:
    from parley.engine.engine import Engine

logger = logging.getLogger(__name__)

CLAIMED_AT_ONCE = 100
"""Tasks that are looked up together."""

CLAIM_WHEN_FREE = 8
"""One of this many slots of an agent must be free before its tasks are claimed again."""


class Claims:
    """What this worker takes over from others, and what it could not end itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._after: tuple[datetime, str] | None = None
        self._is_started = False
        self._looking: asyncio.Task[None] | None = None
        self._must_look_again = False
        """Whether there is a reason to claim that came while this worker was looking for tasks."""
        self._full: set[str] = set()
        """Agents for which there were tasks, but no room."""
        self._unstored: dict[TaskKey, None] = {}
        self.may_wake: Callable[[TaskHead], bool] = lambda head: True
        """Whether a task whose sleep is over may go on now. One that may not stays asleep."""

    async def keep_claiming(self) -> None:
        """Claim tasks now and from time to time, and, every fifth time, their webhooks."""
        engine, self._is_started = self._engine, True
        for number in count(1):
            await self._claim_more()
            if number % RENEWALS == 0:
                engine.webhooks.sweep()
            await engine.clock.sleep(engine.limits.lease_seconds / RENEWALS)

    async def claim_some(self, now: datetime) -> bool:
        """Take over tasks of dead workers and wake those that are due, as far as there is room.

        Return True if there may be more of them.
        """
        try:
            await self._end_unstored()
            return await self._claim_page(now)
        except StoreError as error:
            logger.warning("Tasks of other workers could not be claimed now: %s", error)
            return False

    async def _claim_page(self, now: datetime) -> bool:
        """Claim tasks of the next page. Return True if there may be more for which there is room."""
        engine, has_claimed, full = self._engine, False, set[str]()
        live = await engine.store.leases.live() | {engine.lease.worker}
        orphaned = partial(engine.store.tasks.orphaned, live, now=now, limit=CLAIMED_AT_ONCE)
        heads = await orphaned(agents=engine.agents(with_room=True), after=self._after)
        for head in heads:
            program = engine.find_program(head.agent)
            if program is None or engine.runs.find(head.key) is not None:
                continue
            if head.wake_at is not None and not self.may_wake(head):
                has_claimed = True  # as far as the next page is concerned
                continue
            if engine.runs.room(head.agent):
                await self.claim(head, program)
                has_claimed = True
            else:
                full.add(head.agent)
        is_end = len(heads) < CLAIMED_AT_ONCE
        self._after = None if is_end else (heads[-1].created_at, heads[-1].key.task_id)
        if busy := engine.agents(with_room=False):
            full |= {head.agent for head in await orphaned(agents=busy)}
        self._full |= full
        for agent in tuple(full):
            self.run_ended(agent)  # runs may have ended during the queries
        return has_claimed and not is_end

    def run_ended(self, agent: str) -> None:
        """Claim more tasks of an agent when an eighth of its slots are free, because each claim costs a query."""
        free = self._engine.runs.room(agent)
        if agent in self._full and free * CLAIM_WHEN_FREE >= self._engine.limits.runs_at_once:
            self._full.discard(agent)
            self.claim_now()

    def claim_now(self) -> None:
        """Claim now, beginning with the oldest task, if this worker claims at all."""
        self._after = None
        self._must_look_again = True
        if self._is_started and (self._looking is None or self._looking.done()):
            self._looking = self._engine.in_background(self._look())

    async def _look(self) -> None:
        while self._must_look_again:
            self._must_look_again = False
            await self._claim_more()

    async def _claim_more(self) -> None:
        now = self._engine.clock.now()
        while await self.claim_some(now):
            pass
        await self._engine.wake_timer.set_next(after=now)

    async def claim(self, head: TaskHead, program: Program) -> Run | None:
        """Begin another run of a task that is due or whose worker has died; or end it after a crash.

        Waking up is not an attempt after a crash: it is neither counted nor refused.
        """
        fields = {"task": head.key.task_id, "context": head.context_id}
        most = program.run_attempts if self._engine.limits.run_attempts is None else self._engine.limits.run_attempts
        with suppress(ConflictError):  # another worker was faster
            if head.wake_at is not None:
                return await self._engine.intake.start_claimed_run(head, program)
            if program.recovery is Recovery.FAIL:
                await self._fail(head, "The agent was restarted while it worked on this task.")
            elif head.attempts >= most:
                often = f"{head.attempts} times" if head.attempts > 1 else "once"
                await self._fail(
                    head, f"The agent crashed {often} while it worked on this task, without making progress."
                )
            else:
                text = "Task %s: resumed after its worker died (attempt %d)"
                logger.info(text, head.key.task_id, head.attempts + 1, extra=fields)
                return await self._engine.intake.start_claimed_run(head, program)
        return None

    async def live_holder(self, head: TaskHead) -> str | None:
        """The other worker that holds a task, if there is one and it is alive."""
        engine, holder = self._engine, head.holder
        if not (engine.store.is_shared and holder) or holder == engine.lease.worker:
            return None
        return holder if holder in await engine.store.leases.live() else None

    # --- what could not be stored -------------------------------------------------------------------------------------

    def fail_when_writable(self, key: TaskKey) -> None:
        """Fail a task whose run could not write, once the store accepts writes again."""
        self._unstored[key] = None

    async def _end_unstored(self) -> None:
        engine = self._engine
        for key in tuple(self._unstored):
            head = await engine.store.tasks.head(key)
            if head is not None and head.holder == engine.lease.worker and engine.runs.find(key) is None:
                with suppress(ConflictError):
                    await self._fail(head, "The agent could not store its progress on this task.")
            self._unstored.pop(key, None)

    async def _fail(self, head: TaskHead, text: str) -> None:
        await end_task(self._engine, head, TaskState.FAILED, text)
        fields = {"task": head.key.task_id, "context": head.context_id}
        logger.error("Task %s: failed. %s", head.key.task_id, text, extra=fields)
