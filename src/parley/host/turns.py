"""Whose turn it is: a run waits for its conversation, then for its place among all runs of the host.

Runs wait for those that they delegate to. So each depth of delegation has a gate of its own: the deepest ones always go
on. The gates open when the work that a restart has cut off was taken up again; until then all runs wait, so that a
restart changes no order. What waits and what is at work can be read at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

from parley.agents.delegation.delegation import MOST_DEPTH, depth_of
from parley.engine.engine import Engine
from parley.engine.runs.run import Run
from parley.host.conversation_turns import ConversationTurns
from parley.host.fair_gate import FairGate, TurnOrder
from parley.host.priorities import PRIORITY_CHANGED, turn_time
from parley.protocol.events import NoteAdded
from parley.protocol.tasks import TaskState

MOST_PAGES_AT_START = 20
"""Pages of a hundred tasks that are taken up before the gates open. More would delay the start of a host for long."""


@dataclass(slots=True, eq=False)
class TurnEntry:
    """A run of a tenant that is at work or waits."""

    run: Run
    depth: int
    priority: int
    principal: str
    """The name of the principal that began it; empty if a restart has come in between."""
    has_begun_before: bool
    began_at: datetime | None = None
    """When it began to work; None while it waits."""

    @property
    def order(self) -> TurnOrder:
        """When it is its turn among the runs of its tenant."""
        arrival = turn_time(self.run.created_at, self.priority)
        return TurnOrder(not self.has_begun_before, arrival, self.run.key.task_id)


class Turns:
    """The turns of all runs of a host."""

    def __init__(self, engine: Engine, runs_at_once: int, conversations: ConversationTurns) -> None:
        self._engine = engine
        self._runs_at_once = runs_at_once
        self._gates: dict[int, FairGate] = {}
        self._entries: dict[str, dict[str, TurnEntry]] = {}
        self._opened = asyncio.Event()
        self.conversations = conversations

    async def open(self) -> None:
        """Let runs begin, after the tasks of the last process were taken up again."""
        now = self._engine.clock.now()
        for _ in range(MOST_PAGES_AT_START):
            if not await self._engine.claims.claim_some(now):
                break
        self._opened.set()

    def gate(self, depth: int) -> FairGate:
        """The gate of runs that are so deep in a chain of delegations. Callers may say that they are deeper still."""
        depth = min(depth, MOST_DEPTH)
        gate = self._gates.get(depth)
        if gate is None:
            gate = self._gates[depth] = FairGate(self._runs_at_once)
        return gate

    def waiting(self, tenant: str) -> int:
        """How many runs of a tenant wait."""
        return self.conversations.waiting(tenant) + sum(gate.waiting(tenant) for gate in self._gates.values())

    def entry(self, tenant: str, task_id: str) -> TurnEntry | None:
        """The run of a task that is at work or waits; None also for one that is over and has not left yet."""
        entry = self._entries.get(tenant, {}).get(task_id)
        return None if entry is None or entry.run.is_closed else entry

    def tenants(self) -> Sequence[str]:
        """The tenants that have runs."""
        return sorted(self._entries)

    def at_work(self, tenant: str) -> Sequence[TurnEntry]:
        """The runs of a tenant that are at work, in the order in which they began."""
        begun = [entry for entry in self._entries.get(tenant, {}).values() if entry.began_at is not None]
        return sorted(begun, key=lambda entry: entry.began_at or entry.run.created_at)

    def queue(self, tenant: str) -> Sequence[TurnEntry]:
        """The runs of a tenant that wait: those for a place in their order, then those for their conversation."""
        waiting = [entry for entry in self._entries.get(tenant, {}).values() if entry.began_at is None]

        def turn(entry: TurnEntry) -> tuple[bool, int, TurnOrder]:
            waits_for_conversation = self.conversations.request_before(entry.run) is not None
            return waits_for_conversation, entry.depth, entry.order

        return sorted(waiting, key=turn)

    @asynccontextmanager
    async def taken(self, run: Run, *, priority: int, principal: str, interrupts: bool) -> AsyncGenerator[None]:
        """A block in which it is a run's turn; the run works from then on."""
        tenant, depth = run.key.owner.tenant, depth_of(run.message)
        has_begun = run.is_recovered and run.state is TaskState.WORKING
        entry = TurnEntry(run, depth, priority, principal, has_begun)
        entries = self._entries.setdefault(tenant, {})
        entries[run.key.task_id] = entry
        try:
            async with AsyncExitStack() as stack:
                if not self._opened.is_set():
                    run.is_queued = True
                    await self._opened.wait()
                await stack.enter_async_context(self.conversations.entered(run, interrupts=interrupts))
                gate = self.gate(depth)
                run.is_queued = run.is_queued or not gate.has_room(tenant)
                await stack.enter_async_context(gate.entered(tenant, entry.order))
                entry.began_at = run.engine.clock.now()
                await run.leave_queue()
                yield
        finally:
            del entries[run.key.task_id]
            if not entries:
                self._entries.pop(tenant, None)

    async def set_priority(self, entry: TurnEntry, priority: int, *, by: str) -> None:
        """Change the priority of a run that waits. It is durable when this returns. Raises UnavailableError."""
        run = entry.run
        run.emit(NoteAdded(run.key.task_id, run.context_id, PRIORITY_CHANGED, {"priority": priority, "by": by}))
        await run.settle()
        entry.priority = priority
        self.gate(entry.depth).move(run.key.owner.tenant, entry.order)
