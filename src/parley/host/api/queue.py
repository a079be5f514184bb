"""The queue of a tenant: which of its requests are at work and which wait, in which order; and moving one that waits.

The queue is that of all processes of the host. Each has its own limit of runs at work, so what waits at one may be
overtaken by what waits at another; positions are those of the whole queue.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from parley.host.access.scopes import Scope
from parley.host.api.query_parameters import LimitParameter, NumberParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth, BodyReader
from parley.host.data.conversations import conversation_of
from parley.host.data.epoch import seconds
from parley.host.data.run_requests import RunRequest
from parley.host.errors import Conflict, PathNotFound, Unavailable
from parley.host.priorities import PriorityInput, level_of, name_of
from parley.host.queue_elsewhere import RunElsewhere, run_elsewhere, runs_elsewhere
from parley.host.turns import TurnEntry

if TYPE_CHECKING:
    from parley.host.host import Host

AnyRun: TypeAlias = TurnEntry | RunElsewhere
LIMIT = LimitParameter(default=100, most=1_000)
AFTER = NumberParameter("after_position", "Waiting requests after this position.")
MOST_TENANTS = 1_000
"""Tenants that the operator's list has, those with the longest queues first."""


class QueueEntry(Struct, frozen=True, kw_only=True):
    """A request that is at work or waits. Times are seconds since 1970."""

    request_id: str
    agent_id: str
    state: str
    """`waiting` or `running`."""
    position: int | UnsetType = UNSET
    """From 1 on, for requests that wait."""
    priority: str
    level: int
    """The priority as a number from 0 to 9."""
    principal: str
    depth: int
    """0 for a request from outside, 1 for what its agent delegates, and so on."""
    created_at: int
    began_at: int | UnsetType = UNSET
    conversation_id: int | UnsetType = UNSET
    waits_for: str | UnsetType = UNSET
    """The request of the same conversation that is at work."""
    replica: str | UnsetType = UNSET
    """The process that has it, where several share a store."""


class QueueView(Struct, frozen=True, kw_only=True):
    """How much waits and how much is at work, and a page of both."""

    waiting: int
    running: int
    entries: Sequence[QueueEntry]
    """What is at work, in the order in which it began, and then what waits, the next one first."""


class TenantQueue(Struct, frozen=True):
    """How much of a tenant waits and is at work."""

    tenant_id: int
    waiting: int
    running: int


class AllQueues(Struct, frozen=True):
    """The queues of all tenants that have work, the longest first."""

    waiting: int
    running: int
    tenants: Sequence[TenantQueue]


class QueueChange(Struct, frozen=True):
    """What to change of a request that waits."""

    priority: PriorityInput


async def show_queue(call: ApiCall[None]) -> Answer:
    """What is at work and what waits."""
    host, tenant_id = call.host, call.tenant.id
    limit, after = call.query(LIMIT), call.query(AFTER)
    elsewhere = await runs_elsewhere(host.engine, tenant_id)
    at_work: list[AnyRun] = [*host.turns.at_work(tenant_id), *[run for run in elsewhere if not run.is_waiting]]
    queue: list[AnyRun] = list(host.turns.queue(tenant_id))
    if waiting := [run for run in elsewhere if run.is_waiting]:
        queue = sorted([*queue, *waiting], key=lambda run: run.order)
    first = after or 0
    shown = [_entry(host, run) for run in at_work[:limit]] if after is None else []
    shown += [_entry(host, run, position) for position, run in enumerate(queue[first : first + limit], first + 1)]
    return Answer(QueueView(waiting=len(queue), running=len(at_work), entries=shown[:limit]))


async def change_priority(call: ApiCall[QueueChange]) -> Answer:
    """Change the priority of a request that waits."""
    host, tenant_id, request_id = call.host, call.tenant.id, call.path["id"]
    level = level_of(call.body.priority, path="$.priority")
    entry = host.turns.entry(tenant_id, request_id)
    found = entry or await run_elsewhere(host.engine, tenant_id, request_id)
    if found is None:
        raise PathNotFound("no waiting request with that id")
    if found.began_at is not None if isinstance(found, TurnEntry) else not found.is_waiting:
        raise Conflict("the request is at work already", more={"request_id": request_id})
    before = found.priority
    if entry is not None:
        await host.turns.set_priority(entry, level, by=call.actor)
    else:
        await _change_elsewhere(call, level)
    await host.store.records.write(
        await host.audit.entry(
            "prioritize_request",
            f"{tenant_id}/{request_id}",
            actor=call.actor,
            kind="request",
            before={"priority": before},
            after={"priority": level},
        )
    )
    if entry is None:
        found = await run_elsewhere(host.engine, tenant_id, request_id) or found
        return Answer(_entry(host, found))
    queue = list(host.turns.queue(tenant_id))
    return Answer(_entry(host, entry, queue.index(entry) + 1 if entry in queue else None))


async def _change_elsewhere(call: ApiCall[QueueChange], level: int) -> None:
    """Ask the process that has a request to change its priority. Raises Unavailable."""
    request_id = call.path["id"]
    request = RunRequest(tenant=call.tenant.id, task_id=request_id, kind="priority", priority=level, by=call.actor)
    if not await call.host.run_requests.ask(request):
        raise Unavailable("the process that has the request does not answer; try again in a moment")


async def show_all_queues(call: ApiCall[None]) -> Answer:
    """How much of each tenant is at work and waits."""
    turns, replicas = call.host.turns, call.host.replicas
    queues = [
        TenantQueue(int(id), len(turns.queue(id)) + replicas.waiting(id), len(turns.at_work(id)) + replicas.running(id))
        for id in {*turns.tenants(), *replicas.tenants()}
    ]
    queues.sort(key=lambda queue: (-queue.waiting, -queue.running, queue.tenant_id))
    waiting, running = sum(queue.waiting for queue in queues), sum(queue.running for queue in queues)
    return Answer(AllQueues(waiting, running, queues[:MOST_TENANTS]))


def _entry(host: Host, entry: AnyRun, position: int | None = None) -> QueueEntry:
    if isinstance(entry, RunElsewhere):
        return _entry_elsewhere(entry, position)
    run = entry.run
    before = host.turns.conversations.request_before(run)
    return QueueEntry(
        request_id=run.key.task_id,
        agent_id=run.program.id.rpartition("/")[2],
        state="running" if entry.began_at is not None else "waiting",
        position=UNSET if position is None else position,
        priority=name_of(entry.priority),
        level=entry.priority,
        principal=entry.principal,
        depth=entry.depth,
        created_at=seconds(run.created_at),
        began_at=UNSET if entry.began_at is None else seconds(entry.began_at),
        conversation_id=conversation_of(run.context_id) or UNSET,
        waits_for=UNSET if before is None or entry.began_at is not None else before,
        replica=host.engine.lease.worker if host.store.is_shared else UNSET,
    )


def _entry_elsewhere(run: RunElsewhere, position: int | None) -> QueueEntry:
    head = run.head
    return QueueEntry(
        request_id=head.key.task_id,
        agent_id=head.agent.rpartition("/")[2],
        state="waiting" if run.is_waiting else "running",
        position=UNSET if position is None else position,
        priority=name_of(run.priority),
        level=run.priority,
        principal=run.principal,
        depth=run.depth,
        created_at=seconds(head.created_at),
        began_at=UNSET if run.is_waiting else seconds(head.status_at),
        conversation_id=conversation_of(head.context_id) or UNSET,
        replica=head.holder,
    )


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/queue",
        handler=show_queue,
        summary="Read what is at work and what waits",
        query=[LIMIT, AFTER],
        replies=[ApiReply(QueueView)],
    ),
    ApiRoute(
        method="PATCH",
        path="/v1/queue/{id}",
        handler=change_priority,
        scope=Scope.MANAGE,
        summary="Change the priority of a waiting request",
        body=BodyReader(QueueChange),
        replies=[ApiReply(QueueEntry)],
        errors=[404, 409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/admin/queue",
        handler=show_all_queues,
        auth=Auth.ADMIN,
        summary="Read how much of each tenant waits",
        replies=[ApiReply(AllQueues)],
    ),
)
