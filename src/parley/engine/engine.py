"""The engine: the tasks of any number of agents, in one store.

`engine.agent(id)` gives an agent's operations. Agents may be added, replaced and removed while the engine runs; each is
an entry in a table. A run keeps the program that it began with. The tasks of an agent that was removed stay in the
store, and those that wait for their caller continue when the agent is added again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import Protocol, TypeAlias, TypeVar, cast

from parley.cluster.hints import AnyHint, HintKind, Hints, LookHint, RecordsHint
from parley.engine.caller import Caller
from parley.engine.clock import Clock, NewId, SystemClock, random_id
from parley.engine.credentials import TaskCredentials
from parley.engine.intake import Intake
from parley.engine.limits import Limits
from parley.engine.maintenance import Maintenance
from parley.engine.observer import Observer
from parley.engine.operations import AgentOperations
from parley.engine.ownership.claims import Claims
from parley.engine.ownership.inbox import InboxReader
from parley.engine.ownership.lease import Lease
from parley.engine.ownership.report import report_of
from parley.engine.ownership.waiting import SharedQueue
from parley.engine.ownership.wake_timer import WakeTimer
from parley.engine.program import FileSource, Program
from parley.engine.reading.feed import Feeds
from parley.engine.reading.views import Views, fold_stored
from parley.engine.retention_rules import RetentionRule
from parley.engine.runs.run import Run
from parley.engine.runs.supervisor import Supervisor
from parley.engine.runs.watchdog import Watchdog
from parley.engine.sends import Sends
from parley.engine.store_health import StoreHealth
from parley.engine.webhooks.configs import Webhooks
from parley.engine.webhooks.deliveries import Deliveries
from parley.protocol.errors import UnavailableError
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import Store, StoreError, TaskKey, Write

logger = logging.getLogger(__name__)


PARTS_OF_FEEDS = 10
"""While hints flow, each poll looks at one of this many parts of the readers: each look is a query."""


class Shared(Protocol):
    """Something that the programs of an engine share."""

    async def close(self) -> None:
        """Let go of what it holds."""
        ...


S = TypeVar("S", bound=Shared)

FindAgent: TypeAlias = Callable[[str, Caller], str | None]
"""Finds the id of the agent that a name means to a caller; None if there is none."""


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
        agent_retention: Mapping[str, timedelta] | None = None,
        drain_seconds: float = 10.0,
        observer: Observer | None = None,
        deliveries: Deliveries | None = None,
        worker: str | None = None,
        hints: Hints | None = None,
        files: FileSource | None = None,
        find_agent: FindAgent | None = None,
    ) -> None:
        """Nothing is started yet. `find_agent` says which agent a name means when one delegates to another.

        Finished tasks are kept for `retention`, those of an agent for what `agent_retention` or the agent itself says;
        the shortest that applies wins.
        """
        self.store = store
        self.limits = limits or Limits()
        self.clock: Clock = clock or SystemClock()
        self.new_id = new_id
        self.observer = observer
        self.files = files
        self._find_agent = find_agent
        self.store_health = StoreHealth(store, self.clock)
        self.feeds = Feeds(store, self.limits)
        self.views = Views(store, self.feeds, self.limits)
        self.sends = Sends(store, self.clock, seconds=self.limits.idempotency_seconds)
        self.hints = hints
        self.webhooks = Webhooks(store, self.feeds, self.limits, deliveries=deliveries, hints=hints, observer=observer)
        self.runs = Supervisor(
            limits=self.limits, clock=self.clock, new_id=new_id, on_end=self._run_ended, observer=observer
        )
        self.intake = Intake(self)
        self.credentials = TaskCredentials(self)
        self.public_url: str | None = None
        """Where callers and their browsers reach the server of this engine, if it has one and knows."""
        if worker is None:
            worker = random_id() if deliveries is None else deliveries.worker
        self.replica: JsonObject = {}
        """What the server says of this worker in its report: its name, its address, its version."""
        self.drain_asked = asyncio.Event()
        """Set when an operator has asked this worker to drain; what serves the engine then stops."""
        self.lease = Lease(
            store,
            worker,
            clock=self.clock,
            seconds=self.limits.lease_seconds,
            report=lambda: report_of(self),
            on_drain_asked=self.drain_asked.set,
        )
        self.claims = Claims(self)
        self.waiting = SharedQueue(self)
        self.wake_timer = WakeTimer(self)
        self._inbox = InboxReader(self)
        self._stop_listening: Callable[[], None] | None = None
        self._programs: dict[str, Program] = {}
        self._retention = [] if retention is None else [RetentionRule(retention)]
        self._retention += [RetentionRule(kept, agent=agent) for agent, kept in (agent_retention or {}).items()]
        self.tenant_retention: Callable[[], Sequence[RetentionRule]] = tuple
        """The rules of tenants, asked for once a minute; a host gives them."""
        self._maintenance = Maintenance(self)
        self._drain_seconds = drain_seconds
        self._draining: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._shared: dict[object, Shared] = {}
        self._watchdog = Watchdog(self.limits.blocked_seconds, self.runs.run_of, self._loop_was_blocked)
        for program in programs:
            self.add(program)

    # --- agents -------------------------------------------------------------------------------------------------------

    def add(self, program: Program) -> None:
        """Add an agent and resume tasks left by dead workers. Raises ValueError if its id is taken."""
        if program.id in self._programs:
            raise ValueError(f"Two agents have the id {program.id!r}; give one of them another with Agent(…, id=…)")
        self._programs[program.id] = program
        self.claims.claim_now()

    def replace(self, program: Program) -> None:
        """Give new messages to another program. Raises ValueError if there is no agent with its id."""
        if program.id not in self._programs:
            raise ValueError(f"There is no agent with the id {program.id!r}")
        self._programs[program.id] = program

    def remove(self, agent_id: str) -> None:
        """Accept no more messages for an agent. Its runs end by themselves. Raises ValueError if it is not there."""
        if self._programs.pop(agent_id, None) is None:
            raise ValueError(f"There is no agent with the id {agent_id!r}")

    def agents(self, *, with_room: bool) -> frozenset[str]:
        """The agents of which another run would begin at once, or the others."""
        return frozenset([agent for agent in self._programs if (self.runs.room(agent) > 0) is with_room])

    def has_other_agents(self, agents: frozenset[str]) -> bool:
        """Whether there is an agent here that is not one of these."""
        return any(agent not in agents for agent in self._programs)

    def find_program(self, agent_id: str) -> Program | None:
        """The program of an agent, if the agent is here."""
        return self._programs.get(agent_id)

    def find_named(self, name: str, caller: Caller) -> str | None:
        """The id of the agent that a name means to a caller: by default, the one with this id or name."""
        if self._find_agent is not None:
            return self._find_agent(name, caller)
        if name in self._programs:
            return name
        return next((id for id, program in self._programs.items() if getattr(program, "name", id) == name), None)

    @property
    def public_ids(self) -> list[str]:
        """The ids of all agents, for error messages; none if a name means other agents to other callers."""
        return sorted(self._programs) if self._find_agent is None else []

    def retention_rules(self) -> Sequence[RetentionRule]:
        """How long finished tasks are kept: for all, of agents, of tenants. The shortest that applies wins."""
        kept = [(agent_id, getattr(program, "retention", None)) for agent_id, program in self._programs.items()]
        of_programs = [RetentionRule(time, agent=agent_id) for agent_id, time in kept if isinstance(time, timedelta)]
        return [*self._retention, *of_programs, *self.tenant_retention()]

    def shared(self, kind: Callable[[Engine], S]) -> S:
        """What the programs of this engine share: made when it is first needed, closed when the engine stops."""
        found = self._shared.get(kind)
        if found is None:
            found = self._shared[kind] = kind(self)
        return cast("S", found)

    def program(self, agent_id: str) -> Program:
        """The program of an agent. Raises UnavailableError if the agent was removed."""
        program = self._programs.get(agent_id)
        if program is None:
            name = agent_id.rpartition("/")[2]  # what comes before it is a host's, and not for callers
            raise UnavailableError(f"The agent {name!r} is not served any more")
        return program

    def agent(self, agent_id: str) -> AgentOperations:
        """The operations on an agent's tasks; they stay valid when its program is replaced."""
        return AgentOperations(self, agent_id)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Engine:
        """Continue the tasks of dead workers and those that are due, and start the background work."""
        await self.lease.acquire()
        await self.claims.claim_some(self.clock.now())
        self.keep_running(self.claims.keep_claiming)
        self.keep_running(self._maintenance.keep_deleting)
        if self.store.is_shared:
            self.keep_running(self.lease.keep_renewing)
            self.keep_running(self._poll)
        if self.hints is not None:
            self._stop_listening = self.hints.listen(self._follow_hint)
        self._watchdog.start()
        return self

    def _loop_was_blocked(self, run: Run | None, seconds: float) -> None:
        logger.warning("The event loop goes on after %.1f seconds", seconds, extra=run.log_fields if run else None)
        if self.observer is not None:
            self.observer.blocked(run.program.id if run is not None else None, seconds)

    async def __aexit__(self, *_: object) -> None:
        """Drain, unless that was done before, and stop all background work. The store stays open."""
        await self.drain()
        if self._stop_listening is not None:
            self._stop_listening()
        self._watchdog.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for shared in self._shared.values():
            await shared.close()

    @property
    def is_draining(self) -> bool:
        """Whether the engine stops: it accepts no more messages and claims no more tasks."""
        return self.runs.is_stopping

    async def drain(self) -> None:
        """Begin to stop: accept no more messages, let runs finish for `drain_seconds`, cut off the rest.

        The next engine continues the tasks that were cut off, in a shared store any other one at once. Readers are told
        to subscribe again. Tasks can still be read, and leaving the engine's block afterwards is quick. A second call
        waits for the first.
        """
        self.runs.stop_accepting()  # at once, not when the task below gets its turn
        if self._draining is None:
            self._draining = asyncio.create_task(self._drain())
        await asyncio.shield(self._draining)

    async def _drain(self) -> None:
        await self.runs.stop(grace=self._drain_seconds, hands_on=self.store.is_shared)
        self.feeds.fail_all()
        await self.lease.release()

    def in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run a coroutine that continues when its caller disconnects. It is cancelled when the engine stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def keep_running(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        """Run in the background what others depend on; if an unexpected error ends it, it begins again."""
        self.in_background(self._keep_running(work))

    async def _keep_running(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        while True:
            try:
                return await work()
            except Exception:  # of any kind: a worker that does not renew its lease loses every task that it begins
                logger.exception("%s has failed, and begins again", work.__qualname__)
            await self.clock.sleep(self.limits.poll_seconds)

    # --- other workers ------------------------------------------------------------------------------------------------

    def _follow_hint(self, hint: AnyHint) -> None:
        """Look at what another worker's hint points to."""
        if isinstance(hint, LookHint):
            self.claims.claim_now()
            self.in_background(self._look_at_all())
        elif isinstance(hint, RecordsHint):
            pass  # the engine keeps none
        elif hint.kind is HintKind.EVENTS:
            feed = self.feeds.get(hint.key)
            if feed is not None:
                feed.note(hint.seq)
        elif hint.kind is HintKind.WORK:
            self.claims.work_offered(hint.key)
        elif self.runs.find(hint.key) is not None:
            if hint.kind is HintKind.INBOX:
                self.in_background(self._look(self._inbox.read()))
            elif hint.kind is HintKind.OUTBOX:
                self.webhooks.watch(hint.key)
        elif hint.kind is HintKind.OUTBOX:
            self.webhooks.send_now_if_known(hint.key)

    async def _poll(self) -> None:
        """Look for changes by other workers and for inbox items, in case hints were lost."""
        while True:
            await self.clock.sleep(self.limits.poll_seconds)
            do_hints_flow = self.hints is not None and self.hints.problem() is None
            await self._look_at_all(parts=PARTS_OF_FEEDS if do_hints_flow else 1)

    async def _look_at_all(self, *, parts: int = 1) -> None:
        """Look at everything that other workers may have changed, but at one of several parts of the feeds."""
        await self._look(self.claims.check_workers())
        await self._look(self._check_runs())
        await self._look(self.feeds.poll(lambda key: self.runs.find(key) is not None, parts=parts))
        await self._look(self._inbox.read())

    async def _check_runs(self) -> None:
        """Abandon runs whose tasks another worker holds; their readers switch to the other worker's events."""
        for run in self.runs.all:
            await run.check_held()

    async def _look(self, looking: Coroutine[None, None, None]) -> None:
        try:
            await looking
        except StoreError as error:
            logger.warning("What other workers wrote could not be looked up: %s", error)
        except Exception:  # here a look ends; the next one is for other things, or succeeds
            logger.exception("What other workers wrote could not be looked up")

    # --- after runs, and from time to time ----------------------------------------------------------------------------

    def _run_ended(self, run: Run) -> None:
        self.feeds.release(run.key, run.feed)
        if run.is_cut_off:
            return
        self.claims.run_ended(run.program.id)
        if run.wake_at is not None:
            self.wake_timer.set(run.wake_at)
        if run.failure is not None:
            if run.is_abandoned:
                self.in_background(self._look(self.feeds.look(run.key)))
            else:
                self.claims.recover_when_writable(run.key, may_rerun=run.was_store_unavailable)
        elif run.seq // self.limits.snapshot_events != run.first_seq // self.limits.snapshot_events:
            self.in_background(self._write_snapshot(run.key))

    async def _write_snapshot(self, key: TaskKey) -> None:
        """Store a snapshot so that readers need not replay all events."""
        try:
            stored = await self.store.tasks.read(key)
            if stored is None:
                return
            head = stored.head
            snapshot = await asyncio.to_thread(fold_stored, stored)  # tens of milliseconds for a long task
            holder = head.holder
            await self.store.tasks.write(
                Write(
                    key,
                    head.last_seq,
                    (),
                    head.state,
                    head.status_at,
                    snapshot=snapshot,
                    attempts=head.attempts,
                    expected_holder=holder,
                    holder=holder,
                    wake_at=head.wake_at,
                )
            )
        except StoreError as error:
            logger.warning("Task %s: no snapshot written: %s", key.task_id, error, extra={"task": key.task_id})
