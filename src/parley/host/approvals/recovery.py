"""What a crash may have left: tasks that wait and are not in the inbox, and approvals of tasks that wait no more.

It runs at the start of a host, beside everything else. A request is in the inbox before its task waits, so nothing is
missing after a crash; but records may be, after a tenant was moved here from another host.
"""

from __future__ import annotations

import logging
from datetime import datetime

from parley.agents.elsewhere import asked_elsewhere
from parley.engine.engine import Engine
from parley.engine.reading.views import fold_stored
from parley.host.approvals.desk import ApprovalDesk
from parley.host.data.approvals import Approval
from parley.protocol.errors import ParleyError
from parley.protocol.tasks import TaskState
from parley.stores.interface import StoreError, TaskFilter, TaskHead

logger = logging.getLogger(__name__)

PAGE = 100


async def recover_approvals(engine: Engine, desk: ApprovalDesk) -> None:
    """Bring the inbox and the tasks of all tenants together."""
    try:
        await _settle_decided(desk)
        await _index_waiting(engine, desk)
    except StoreError as error:
        logger.warning("Approvals could not be compared with their tasks: %s", error)


async def _settle_decided(desk: ApprovalDesk) -> None:
    """Settle what was decided or withdrawn, and withdraw what an agent waits for that was deleted."""
    after: tuple[str, str] | None = None
    while page := await desk.approvals.all_pending(after=after):
        for tenant, approval in page:
            await _settle(desk, tenant, approval)
        after = page[-1][0], page[-1][1].request.id


async def _settle(desk: ApprovalDesk, tenant: str, approval: Approval) -> None:
    try:
        found = await desk.refreshed(tenant, approval)
        if found.state == "pending":
            await desk.check_agent(tenant, found)
    except ParleyError as error:  # the others must not wait for this one
        logger.warning("The approval %s could not be looked at: %s", approval.request.id, error)


async def _index_waiting(engine: Engine, desk: ApprovalDesk) -> None:
    """Put tasks into the inbox that wait and are not there, and wake those that wait for nothing any more."""
    after: tuple[datetime, str] | None = None
    while True:
        query = TaskFilter(state=TaskState.INPUT_REQUIRED, after=after, limit=PAGE)
        heads = await engine.store.tasks.list_all(query)
        stored = await engine.store.tasks.read_many([head.key for head in heads], artifacts=False)
        for head, task in zip(heads, stored, strict=True):
            if task is not None and asked_elsewhere(fold_stored(task).status) is not None:
                await _look_at(desk, head)
        if len(heads) < PAGE:
            return
        after = heads[-1].status_at, heads[-1].key.task_id


async def _look_at(desk: ApprovalDesk, head: TaskHead) -> None:
    try:
        request = await desk.tasks.request(head.key)
        if request is not None:
            await desk.request(head.key.owner.tenant, request)
        else:
            await desk.check_waiting(head.key)
    except ParleyError as error:
        logger.warning("The task %s could not be looked at: %s", head.key.task_id, error)
