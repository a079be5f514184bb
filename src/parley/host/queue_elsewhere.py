"""The runs of a tenant that other processes of the host work on or have waiting, read from their logs.

A task that is submitted waits, and one that is working is at work. What a log does not hold yet is not shown: it is a
moment old at most. A store that one process has to itself has no such runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from parley.agents.agent import Agent
from parley.agents.delegation.delegation import depth_of
from parley.engine.engine import Engine
from parley.engine.runs.journal import Journal
from parley.host.busy_rules import default_priority
from parley.host.fair_gate import TurnOrder
from parley.host.hosted_program import HostedProgram
from parley.host.lineage import STEP, Lineage
from parley.host.origin import origin_of, owner_name
from parley.host.priorities import NORMAL, PRIORITY_CHANGED, priority_of, turn_time
from parley.protocol.tasks import TaskState
from parley.stores.interface import Owner, TaskFilter, TaskHead, TaskKey

MOST = 500
"""Tasks of a tenant that are looked at in each of the two states, those that changed last first."""


@dataclass(frozen=True, slots=True)
class RunElsewhere:
    """A run of another process."""

    head: TaskHead
    depth: int
    priority: int
    principal: str

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for its turn."""
        return self.head.state is TaskState.SUBMITTED

    @property
    def order(self) -> TurnOrder:
        """When it is its turn among the runs of its tenant that wait."""
        return TurnOrder(True, turn_time(self.head.created_at, self.priority), self.head.key.task_id)


async def runs_elsewhere(engine: Engine, tenant_id: str) -> Sequence[RunElsewhere]:
    """What other processes work on for a tenant, and what waits there. Raises StoreError."""
    if not engine.store.is_shared:
        return ()
    owner, heads = Owner(tenant_id, owner_name(tenant_id)), list[TaskHead]()
    for state in (TaskState.WORKING, TaskState.SUBMITTED):
        found = await engine.store.tasks.list(owner, TaskFilter(state=state, limit=MOST))
        heads += [head for head in found.heads if head.wake_at is None and engine.runs.find(head.key) is None]
    return [await _read(engine, head) for head in heads]


async def run_elsewhere(engine: Engine, tenant_id: str, task_id: str) -> RunElsewhere | None:
    """One such run; None if another process neither works on the task nor has it waiting. Raises StoreError."""
    key = TaskKey(Owner(tenant_id, owner_name(tenant_id)), task_id)
    head = await engine.store.tasks.head(key) if engine.store.is_shared else None
    if head is None or head.state not in (TaskState.SUBMITTED, TaskState.WORKING) or head.wake_at is not None:
        return None
    return await _read(engine, head)


async def _read(engine: Engine, head: TaskHead) -> RunElsewhere:
    # All that is needed is written before its program begins, and so is on the first page of what may be very long.
    journal = Journal.read([event for _, event in await engine.feeds.page(head.key, after=0)])
    first = journal.messages[0]
    program = engine.find_program(head.agent)
    agent: Agent | None = program.agent if isinstance(program, HostedProgram) else None
    changed = journal.noted(PRIORITY_CHANGED)
    default = NORMAL if agent is None else default_priority(agent, first)
    priority = priority_of(first, default) if changed is None else cast("int", changed["priority"])
    origin, kept = origin_of(first), journal.recorded_step(STEP)
    principal = origin.principal or origin.draft_of
    if not principal:
        own = f"tenant:{head.key.owner.tenant}"
        principal = own if kept is None else msgspec.convert(cast("object", kept), Lineage).principal
    return RunElsewhere(head, depth_of(first), priority, principal)
