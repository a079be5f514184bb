"""The engine: the tasks of any number of agents, in one store.

`engine.agent(id)` gives an agent's operations. Agents may be added, replaced and removed while the engine runs; each is
an entry in a table. A run keeps the program that it began with. The tasks of an agent that was removed stay in the
store, and those that wait for their caller continue when the agent is added again.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Coroutine
from datetime import timedelta

from parley.engine.clock import Clock, NewId, SystemClock, random_id
from parley.engine.deliveries import Deliveries
from parley.engine.endings import end_task, fail_when_possible
from parley.engine.feed import Feeds
from parley.engine.intake import Intake
from parley.engine.limits import Limits
from parley.engine.observer import Observer
from parley.engine.operations import AgentOperations
from parley.engine.program import Program, Recovery
from parley.engine.retention import Retention
from parley.engine.run import Run
from parley.engine.sends import Sends
from parley.engine.store_health import StoreHealth
from parley.engine.supervisor import Supervisor
from parley.engine.views import Views, fold_stored
from parley.engine.watchdog import Watchdog
from parley.engine.webhooks import Webhooks
from parley.protocol.errors import ParleyError, UnavailableError
from parley.protocol.tasks import TaskState
from parley.stores.interface import ConflictError, Store, StoreError, TaskHead, TaskKey, Write

logger = logging.getLogger(__name__)

DELETED_AT_ONCE = 1_000
"""Old tasks deleted in one transaction, so that others get their turn in between."""

MAINTENANCE_SECONDS = 60.0
"""How often old sends and tasks are deleted."""


class Engine:
    """The tasks of its agents in an open store: `async with Engine(store, agent) as engine: …`.

    Its attributes are what its parts share: each part is given the engine and finds the others there. Several engines
    may share a store, which is opened before them and closed after them.
    """

    def __init__(
        self,
        store: Store,
        *programs: Program,
        limits: Limits | None = None,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        retention: timedelta | None = None,
        drain_seconds: float = 10.0,
        observer: Observer | None = None,
        deliveries: Deliveries | None = None,
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        self.clock: Clock = clock or SystemClock()
        self.new_id = new_id
        self.observer = observer
        self.store_health = StoreHealth(store, self.clock)
        self.feeds = Feeds(store, self.limits)
        self.views = Views(store, self.feeds, self.limits)
        self.sends = Sends(store, self.clock, seconds=self.limits.idempotency_seconds)
        self.webhooks = Webhooks(store, self.feeds, self.limits, deliveries=deliveries, observer=observer)
        self.runs = Supervisor(
            limits=self.limits, clock=self.clock, new_id=new_id, on_end=self._run_ended, observer=observer
        )
        self.intake = Intake(self)
        self._programs: dict[str, Program] = {}
        self._retention = Retention(retention, self.clock) if retention is not None else None
        self._drain_seconds = drain_seconds
        self._is_running = False
        self._draining: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._watchdog = Watchdog(self.limits.blocked_seconds, self.runs.run_of, self._loop_was_blocked)
        for program in programs:
            self.add(program)

    # --- agents -------------------------------------------------------------------------------------------------------

    def add(self, program: Program) -> None:
        """Take an agent in; what an earlier process left of its work goes on. Raises ValueError if its id is taken."""
        if program.id in self._programs:
            raise ValueError(f"There is an agent with the id {program.id!r} already")
        self._programs[program.id] = program
        if self._is_running:
            self.in_background(self._recover({program.id}))

    def replace(self, program: Program) -> None:
        """Let messages go to another program from now on. Raises ValueError if there is no agent with its id."""
        if program.id not in self._programs:
            raise ValueError(f"There is no agent with the id {program.id!r}")
        self._programs[program.id] = program

    def remove(self, agent_id: str) -> None:
        """Take no more messages for an agent. Its runs end by themselves. Raises ValueError if it is not there."""
        if self._programs.pop(agent_id, None) is None:
            raise ValueError(f"There is no agent with the id {agent_id!r}")

    def program(self, agent_id: str) -> Program:
        """The program of an agent. Raises UnavailableError if the agent was removed."""
        program = self._programs.get(agent_id)
        if program is None:
            raise UnavailableError(f"The agent {agent_id!r} is not served any more")
        return program

    def agent(self, agent_id: str) -> AgentOperations:
        """The operations on an agent's tasks; they stay good when its program is replaced."""
        return AgentOperations(self, agent_id)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Engine:
        """Continue what a crash left behind."""
        self._is_running = True
        await self._recover(set(self._programs))
        self.in_background(self._maintain())
        self._watchdog.start()
        return self

    def _loop_was_blocked(self, run: Run | None, seconds: float) -> None:
        logger.warning("The event loop goes on after %.1f seconds", seconds, extra=run.log_fields if run else None)
        if self.observer is not None:
            self.observer.blocked(run.program.id if run is not None else None, seconds)

    async def __aexit__(self, *_: object) -> None:
        """Drain, unless that was done before, and stop all background work. The store stays open."""
        await self.drain()
        self._watchdog.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def drain(self) -> None:
        """Begin to stop: take no more messages, let runs finish for `drain_seconds`, cut off the rest.

        Tasks that were cut off are continued by the next engine, and readers are told to come back. What is there can
        still be read; leaving the engine's block afterwards is quick. Draining twice waits for the same end.
        """
        self.runs.refuse()  # at once, not when the task below gets its turn
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        await asyncio.shield(self._draining)

    async def _drain(self) -> None:
        await self.runs.stop(grace=self._drain_seconds)
        self.feeds.fail_all()

    def in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Do something that no caller's going away ends. It is cancelled when the engine stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    # --- recovery -----------------------------------------------------------------------------------------------------

    async def _recover(self, agents: set[str]) -> None:
        """Continue the tasks of some agents that were at work when a process died."""
        for head in await self.store.tasks.abandoned(frozenset(), limit=sys.maxsize):
            if head.agent not in agents or not self.runs.is_free(head.key):
                continue
            try:
                await self._recover_task(head, self.program(head.agent))
            except ConflictError:
                continue  # it was at work in this process and has gone on meanwhile
            except ParleyError as error:
                logger.error("Task %s: not recovered now: %s", head.key.task_id, error, extra=_log_fields(head))
                self.in_background(fail_when_possible(self, head.key))

    async def _recover_task(self, head: TaskHead, program: Program) -> None:
        """Continue a task as its program wants it."""
        most = program.run_attempts if self.limits.run_attempts is None else self.limits.run_attempts
        if program.recovery is Recovery.FAIL:
            await end_task(self, head, TaskState.FAILED, "The agent was restarted while it worked on this task.")
        elif head.attempts >= most:
            often = f"{head.attempts} times" if head.attempts > 1 else "once"
            text = f"The agent crashed {often} while it worked on this task, without making progress."
            await end_task(self, head, TaskState.FAILED, text)
        else:
            text, attempt = "Task %s: begun again after a restart (attempt %d)", head.attempts + 1
            logger.info(text, head.key.task_id, attempt, extra=_log_fields(head))
            await self.intake.begin_again(head, program)

    # --- after runs, and from time to time ----------------------------------------------------------------------------

    def _run_ended(self, run: Run) -> None:
        self.feeds.release(run.key, run.feed)
        if run.is_cut_off:
            return
        if run.failure is not None:
            self.in_background(fail_when_possible(self, run.key))
        elif run.seq // self.limits.snapshot_events != run.first_seq // self.limits.snapshot_events:
            self.in_background(self._write_snapshot(run.key))

    async def _write_snapshot(self, key: TaskKey) -> None:
        """Spare readers of a long task the folding of all its events."""
        try:
            stored = await self.store.tasks.read(key)
            if stored is None:
                return
            head = stored.head
            snapshot = await asyncio.to_thread(fold_stored, stored)  # tens of milliseconds for a long task
            await self.store.tasks.write(Write(key, head.last_seq, (), head.state, head.status_at, snapshot=snapshot))
        except StoreError as error:
            logger.warning("Task %s: no snapshot written: %s", key.task_id, error, extra={"task": key.task_id})

    async def _maintain(self) -> None:
        """Delete what is old, from time to time."""
        while True:
            await self.clock.sleep(MAINTENANCE_SECONDS)
            try:
                await self.sends.forget()
                if self._retention is not None and (before := self._retention.forgotten_before()) is not None:
                    for delete in (self.store.tasks.delete_finished, self.store.contexts.delete_unused):
                        while await delete(before=before, limit=DELETED_AT_ONCE) == DELETED_AT_ONCE:
                            pass
            except StoreError as error:
                logger.warning("Old tasks and sends could not be deleted: %s", error)


def _log_fields(head: TaskHead) -> dict[str, str]:
    return {"task": head.key.task_id, "context": head.context_id}
