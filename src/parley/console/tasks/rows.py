"""A task as a row of a list."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from parley.console.tasks.access import TaskAccess
from parley.console.tasks.moments import show_moment
from parley.console.tasks.summaries import Summaries, TaskSummary
from parley.stores.interface import TaskHead


class TaskRow(Struct, frozen=True):
    """A task in a list, as the page gets it."""

    id: str
    agent: str
    agent_name: str
    context: str
    state: str
    tenant: str
    tenant_name: str
    owner: str
    created_at: str
    updated_at: str
    events: int
    size: int
    title: str
    status_text: str
    created_in: str
    holder: str
    parent: str | None


async def rows_of(access: TaskAccess, summaries: Summaries, heads: Sequence[TaskHead]) -> list[TaskRow]:
    """The rows of tasks, in their order."""
    found = await summaries.of(access.store, heads)
    return [_row(access, head, summary) for head, summary in zip(heads, found, strict=True)]


def _row(access: TaskAccess, head: TaskHead, summary: TaskSummary) -> TaskRow:
    agent, tenant = access.agent_of(head), head.key.owner.tenant
    agent_id = head.agent.rpartition("/")[2] if agent is None else agent.id
    return TaskRow(
        id=head.key.task_id,
        agent=agent_id,
        agent_name=agent_id if agent is None else agent.name,
        context=head.context_id,
        state=head.state.value,
        tenant=tenant,
        tenant_name=access.backend.tenant_name(tenant) if tenant else "",
        owner=head.key.owner.name,
        created_at=show_moment(head.created_at),
        updated_at=show_moment(head.status_at),
        events=head.last_seq,
        size=head.size,
        title=summary.title,
        status_text=summary.status_text,
        created_in=head.created_in.value,
        holder=head.holder,
        parent=summary.parent,
    )
