"""Tasks whose agent is gone: the engine leaves them for the agent to come back, but a deleted agent does not.

Deleting an agent cancels its work. What a crash left at that moment is found here, at the next start, and failed.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from parley.engine.endings import end_task
from parley.engine.engine import Engine
from parley.protocol.tasks import TaskState
from parley.stores.interface import ConflictError

PAGE = 100
DELETED = "The agent was deleted while it worked on this task."


async def fail_tasks_without_agent(engine: Engine) -> None:
    """Fail tasks of agents that tenants had and have no more.

    An agent that all tenants share has no tenant in its id. The operator may give it again, so its tasks wait.
    """
    live = await engine.store.leases.live() | {engine.lease.worker}
    after: tuple[datetime, str] | None = None
    while heads := await engine.store.tasks.orphaned(live, now=engine.clock.now(), after=after, limit=PAGE):
        for head in heads:
            if "/" in head.agent and engine.find_program(head.agent) is None:
                with suppress(ConflictError):  # another worker was faster
                    await end_task(engine, head, TaskState.FAILED, DELETED)
        after = (heads[-1].created_at, heads[-1].key.task_id)
