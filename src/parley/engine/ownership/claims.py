"""Claims: tasks whose workers have died, or whose sleep is over, are taken over as far as there is room to run them.

A claim is an event that the new holder appends. Of several workers that claim a task one succeeds, and the others
ignore the conflict. A task without a holder was not left by a dead worker: it waits for room, or was handed on. So that
is neither counted as an attempt nor a reason to fail it. Tasks whose runs could not write are recovered here as well,
when the store accepts writes again. A worker that drains claims nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from parley.engine.endings import end_task
from parley.engine.ownership.lease import RENEWALS
from parley.engine.ownership.sharing import WAITING_PAUSE, Sharing
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

FREE_SECONDS = 0.05
"""In a shared store, they are claimed after so long even if fewer are free: others may not have any."""


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
        self._full_in_scan: set[str] = set()
        """Those of which this is known since the search for tasks began."""
        self.jitter: Callable[[], float] = random.random
        """Gives numbers from 0 to 1, so that workers do not act at the same moment."""
        self._sharing = Sharing(engine.lease.worker, lambda: self.jitter())
        self._live: frozenset[str] = frozenset()
        """The workers that were alive when this one looked last."""
        self._timer: asyncio.Task[None] | None = None
        self._timer_at = 0.0
        self._unstored: dict[TaskKey, bool] = {}
        """Tasks whose runs could not write, and whether another run may."""
        self._unreadable: set[TaskKey] = set()
        """Tasks that could not be claimed, of which the log knows."""
        self.may_wake: Callable[[TaskHead], bool] = lambda head: True
        """Whether a task whose sleep is over may go on now. One that may not stays asleep."""

    async def keep_claiming(self) -> None:
        """Claim tasks now and from time to time, and, every fifth time, their webhooks."""
        engine, self._is_started = self._engine, True
        for number in count(1):
            await self._claim_more()
            if number % RENEWALS == 0 and not engine.is_draining and not engine.lease.seconds_of_doubt():
                engine.webhooks.sweep()
            await engine.clock.sleep(engine.limits.lease_seconds / RENEWALS)

    async def check_workers(self) -> None:
        """Claim at once what a worker has left that was alive a moment ago. Raises StoreError."""
        engine, known = self._engine, self._live
        self._live = await engine.store.leases.live()
        if engine.lease.seconds_of_doubt(self._live):
            self._live = known | self._live  # those that do not come back are missed later
        elif known - self._live - {engine.lease.worker} and not engine.is_draining:
            self.claim_now()
            engine.webhooks.sweep()

    async def claim_some(self, now: datetime) -> bool:
        """Take over tasks of dead workers and wake those that are due, as far as there is room.

        Return True if there may be more of them.
        """
        try:
            await self._recover_unstored()
            return await self._claim_page(now)
        except StoreError as error:
            logger.warning("Tasks of other workers could not be claimed now: %s", error)
            return False

    async def _claim_page(self, now: datetime) -> bool:
        """Claim tasks of the next page. Return True if there may be more for which there is room."""
        engine, has_claimed, full = self._engine, False, set[str]()
        if engine.is_draining:
            return False
        if self._after is None:
            self._full_in_scan.clear()
        found = await engine.store.leases.live()
        live = found | {engine.lease.worker}
        orphaned = partial(engine.store.tasks.orphaned, live, now=now, limit=CLAIMED_AT_ONCE)
        heads = await orphaned(agents=engine.agents(with_room=True), after=self._after)
        free = [head for head in heads if not head.holder]
        if len(free) < len(heads):
            live |= await engine.store.leases.live()  # perhaps a worker has appeared since these were read
            if doubt := engine.lease.seconds_of_doubt(found):
                self._claim_in(doubt)
            else:
                free = [head for head in heads if head.holder not in live]
        for head in self._own_share(free, live):
            program = engine.find_program(head.agent)
            if program is None or engine.runs.find(head.key) is not None:
                continue
            if head.wake_at is not None and not self.may_wake(head):
                has_claimed = True  # as far as the next page is concerned
                continue
            if engine.runs.room(head.agent):
                await self._try_to_claim(head, program)
                has_claimed = True
            else:
                full.add(head.agent)
        is_end = len(heads) < CLAIMED_AT_ONCE
        self._after = None if is_end else (heads[-1].created_at, heads[-1].key.task_id)
        if busy := engine.agents(with_room=False):
            full |= {head.agent for head in await orphaned(agents=busy)}
        self._full |= full
        if engine.store.is_shared:
            has_claimed = True  # what is left to others must not hide what comes after it
            self._full_in_scan |= full
            if is_end:
                self._full = self._full_in_scan.copy()
        for agent in tuple(full):
            self.run_ended(agent)  # runs may have ended during the queries
        return has_claimed and not is_end

    def _own_share(self, heads: Sequence[TaskHead], live: frozenset[str]) -> Sequence[TaskHead]:
        """The tasks that this worker claims now; it looks for those that it leaves to others a little later."""
        engine = self._engine
        if not engine.store.is_shared:
            return heads
        self._live = live
        share = self._sharing.choose(heads, live, room=engine.runs.room, now=engine.clock.monotonic())
        if share.look_in is not None:
            self._claim_in(share.look_in)
        return share.heads

    def run_ended(self, agent: str) -> None:
        """Claim more tasks of an agent when an eighth of its slots are free, because each claim costs a query."""
        if agent not in self._full:
            return
        engine, free = self._engine, self._engine.runs.room(agent)
        if free * CLAIM_WHEN_FREE >= engine.limits.runs_at_once:
            if not engine.store.is_shared:
                self._full.discard(agent)
            self.claim_now()
        elif free > 0 and engine.store.is_shared:
            self._claim_in(FREE_SECONDS)

    # --- waiting tasks, in a shared store -----------------------------------------------------------------------------

    def has_waiting(self, agent: str) -> bool:
        """Whether tasks of an agent are known to wait for room."""
        return agent in self._full

    def note_waiting(self, agent: str) -> None:
        """Note that a task of an agent waits for room, and claim it if there is some here."""
        self._full.add(agent)
        self._full_in_scan.add(agent)
        if self._engine.runs.room(agent) > 0:
            self.claim_now()

    def work_offered(self, key: TaskKey) -> None:
        """Claim a task that waits, because a hint said so: at once, or a little later if another worker is to."""
        engine = self._engine
        if engine.is_draining:
            return
        full = engine.runs.full_agents
        self._full.update(full)
        self._full_in_scan.update(full)
        if engine.has_other_agents(full):
            is_first = self._sharing.prefers(key, self._live)
            self._claim_in(0 if is_first else WAITING_PAUSE * (0.5 + self.jitter()))

    def _claim_in(self, seconds: float) -> None:
        """Claim in some seconds, or before."""
        engine = self._engine
        at = engine.clock.monotonic() + seconds
        if self._timer is not None and not self._timer.done():
            if self._timer_at <= at:
                return
            self._timer.cancel()
        self._timer_at, self._timer = at, engine.in_background(self._claim_later(seconds))

    async def _claim_later(self, seconds: float) -> None:
        if seconds > 0:
            await self._engine.clock.sleep(seconds)
        self._timer = None
        self.claim_now()

    # --- looking for tasks --------------------------------------------------------------------------------------------

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
        """Begin another run of a task that is due, waits or whose worker has died; or end it after a crash.

        Waking up and waiting for room are not attempts after a crash: they are neither counted nor refused.
        """
        with suppress(ConflictError):  # another worker was faster
            if not await self.may_rerun(head, program):
                return None
            run = await self._engine.intake.start_claimed_run(head, program)
            if run is not None and not head.holder:
                self._engine.waiting.taken(head.agent)
            return run
        return None

    async def _try_to_claim(self, head: TaskHead, program: Program) -> None:
        """Claim a task. One that cannot be read keeps no other from being claimed. Raises StoreError."""
        try:
            await self.claim(head, program)
        except Exception as error:  # such as an event that only a newer release can read
            if isinstance(error, StoreError) and self._engine.store.problem() is not None:
                raise  # the others would fail as well
            if head.key not in self._unreadable:
                fields = {"task": head.key.task_id, "context": head.context_id}
                logger.exception("Task %s: cannot be claimed, and is tried again", head.key.task_id, extra=fields)
            self._unreadable.add(head.key)
        else:
            self._unreadable.discard(head.key)

    async def may_rerun(self, head: TaskHead, program: Program) -> bool:
        """Whether a task that no live worker holds may have another run. If not, it is failed.

        One that no worker holds at all may: it sleeps, waits for room, or was handed on.

        Raises:
            ConflictError: the task has changed.
        """
        if not head.holder:
            return True
        limits, fields = self._engine.limits, {"task": head.key.task_id, "context": head.context_id}
        most = program.run_attempts if limits.run_attempts is None else limits.run_attempts
        if program.recovery is Recovery.FAIL:
            await self._fail(head, "The agent was restarted while it worked on this task.")
        elif head.attempts >= most:
            often = f"{head.attempts} times" if head.attempts > 1 else "once"
            await self._fail(head, f"The agent crashed {often} while it worked on this task, without making progress.")
        else:
            text = "Task %s: resumed after its worker died (attempt %d)"
            logger.info(text, head.key.task_id, head.attempts + 1, extra=fields)
            return True
        return False

    async def live_holder(self, head: TaskHead) -> str | None:
        """The other worker that holds a task, if there is one and it is alive, or may be."""
        engine, holder = self._engine, head.holder
        if not (engine.store.is_shared and holder) or holder == engine.lease.worker:
            return None
        return holder if await self.may_be_alive(holder) else None

    async def may_be_alive(self, worker: str) -> bool:
        """Whether the lease of a worker has not expired, or that proves nothing now. Raises StoreError."""
        live = await self._engine.store.leases.live()
        return worker in live or self._engine.lease.seconds_of_doubt(live) > 0

    # --- what could not be stored -------------------------------------------------------------------------------------

    def recover_when_writable(self, key: TaskKey, *, may_rerun: bool) -> None:
        """Once the store accepts writes again, begin a task whose run could not write again, or fail it."""
        self._unstored[key] = may_rerun

    async def _recover_unstored(self) -> None:
        """The same as after a crash, by the agent's policy: this worker still holds these tasks, without a run."""
        engine = self._engine
        for key, may_rerun in tuple(self._unstored.items()):
            head = await engine.store.tasks.head(key)
            is_left = head is not None and head.holder == engine.lease.worker and engine.runs.find(key) is None
            if head is None or not is_left:
                self._unstored.pop(key, None)
                continue
            program = engine.find_program(head.agent)
            if program is None or not may_rerun or program.recovery is Recovery.FAIL:
                with suppress(ConflictError):
                    await self._fail(head, "The agent could not store its progress on this task.")
                self._unstored.pop(key, None)
            elif not engine.is_draining and engine.runs.room(head.agent):
                await self._rerun_unstored(head, program)

    async def _rerun_unstored(self, head: TaskHead, program: Program) -> None:
        self._unstored.pop(head.key, None)  # now: the new run may be refused, too, and comes here again
        try:
            if await self.claim(head, program) is None:  # no room any more, or it has ended: looked at again
                self._unstored[head.key] = True
        except StoreError:
            self._unstored[head.key] = True
            raise

    async def _fail(self, head: TaskHead, text: str) -> None:
        await end_task(self._engine, head, TaskState.FAILED, text)
        fields = {"task": head.key.task_id, "context": head.context_id}
        logger.error("Task %s: failed. %s", head.key.task_id, text, extra=fields)
