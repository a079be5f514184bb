"""Requests: every task of the tenant, whichever API began it; their events, what they delegated, and canceling them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Struct, UnsetType

from parley.host.access.scopes import Scope
from parley.host.api.event_stream import stream_events
from parley.host.api.long_poll import MOST_WAIT, wait_for_end
from parley.host.api.query_parameters import LimitParameter, NumberParameter, SinceSeqParameter, read_number
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute
from parley.host.api.run_requests import STREAMED_EVENTS
from parley.host.errors import PathNotFound
from parley.host.origin import host_caller
from parley.host.task_views import RequestView
from parley.protocol.errors import TaskNotCancelableError, TaskNotFoundError
from parley.protocol.requests import CancelTaskRequest

LIMIT = LimitParameter(default=100, most=200)
SINCE_SEQ = SinceSeqParameter()
WAIT = NumberParameter(
    "wait", f"Wait up to so many seconds until the request ends or asks a question; at most {MOST_WAIT}.", MOST_WAIT
)

NOT_FOUND = "request not found"


class RequestList(Struct, frozen=True):
    """The newest requests first, without those that agents delegated to one another."""

    requests: Sequence[RequestView]


class RequestReply(Struct, frozen=True):
    """One request."""

    request: RequestView


class RequestTree(Struct, frozen=True, kw_only=True):
    """A request with what its agent delegated. Of a request to a remote agent, only the first members are known."""

    request_id: str | None
    agent_id: str
    is_remote: bool | UnsetType = UNSET
    conversation_id: int | UnsetType = UNSET
    state: str | UnsetType = UNSET
    started_at: int | UnsetType = UNSET
    completed_at: int | UnsetType = UNSET
    error_message: str | UnsetType = UNSET
    last_seq: int | UnsetType = UNSET
    agent_version: int | UnsetType = UNSET
    is_draft: bool | UnsetType = UNSET
    surface: str | UnsetType = UNSET
    children: Sequence[RequestTree] | UnsetType = UNSET


class CancelReply(Struct, frozen=True, kw_only=True):
    """Whether a request was canceled. One that has ended, and one that never was, look the same."""

    request_id: str
    cancelled: bool
    reason: str | UnsetType = UNSET


async def list_requests(call: ApiCall[None]) -> Answer:
    """The newest requests of the tenant."""
    return Answer(RequestList(await call.host.views.requests(call.tenant.id, call.query(LIMIT))))


async def get_request(call: ApiCall[None]) -> Answer:
    """One request; with `wait`, when it has ended, asks a question, or the time is over."""
    await wait_for_end(call.host, call.tenant.id, call.path["id"], call.query(WAIT) or 0)
    view = await call.host.views.request(call.tenant.id, call.path["id"])
    if view is None:
        raise PathNotFound(NOT_FOUND)
    return Answer(RequestReply(view))


async def get_tree(call: ApiCall[None]) -> Answer:
    """A request with all that its agents delegated."""
    tree = await call.host.views.tree(call.tenant.id, call.path["id"])
    if tree is None:
        raise PathNotFound(NOT_FOUND)
    return Answer(msgspec.convert(tree, RequestTree))


async def follow_request(call: ApiCall[None]) -> None:
    """Stream the events of a request after a number."""
    after = call.query(SINCE_SEQ)
    if after is None:
        after = read_number(call.request.headers.get("last-event-id", "")) or 0
    await stream_events(call, call.path["id"], scope=Scope.READ, after=after)


async def cancel_request(call: ApiCall[None]) -> Answer:
    """Cancel a request, as `tasks/cancel` does."""
    request_id, tenant_id = call.path["id"], call.tenant.id
    head = await call.host.views.head(tenant_id, request_id)
    if head is not None:
        agent = call.host.engine.agent(head.agent)
        try:
            await agent.cancel_task(CancelTaskRequest(request_id), host_caller(tenant_id))
            return Answer(CancelReply(request_id=request_id, cancelled=True))
        except (TaskNotFoundError, TaskNotCancelableError):
            pass  # it has ended
    reason = "no in-flight request with that id"
    return Answer(CancelReply(request_id=request_id, cancelled=False, reason=reason), 404)


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/requests",
        handler=list_requests,
        summary="List the requests",
        query=[LIMIT],
        replies=[ApiReply(RequestList)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/requests/{id}",
        handler=get_request,
        summary="Read a request",
        query=[WAIT],
        replies=[ApiReply(RequestReply)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/requests/{id}/tree",
        handler=get_tree,
        summary="Read a request with what its agents delegated",
        replies=[ApiReply(RequestTree)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/requests/{id}/events",
        handler=follow_request,
        summary="Follow a request",
        description="The events so far, and those to come. Of a request that has ended, all events up to `done`.",
        query=[SINCE_SEQ],
        headers={"Last-Event-ID": "The id of the last event that the reader has; the stream continues after it."},
        replies=[STREAMED_EVENTS],
        errors=[404, 429],
        streams=True,
    ),
    ApiRoute(
        method="POST",
        path="/v1/requests/{id}/cancel",
        handler=cancel_request,
        scope=Scope.CALL,
        summary="Cancel a request",
        replies=[
            ApiReply(CancelReply),
            ApiReply(CancelReply, 404, "The request has ended, or there is none with this id."),
        ],
    ),
)
