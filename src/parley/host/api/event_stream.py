"""The events of a request as server-sent events: everything after a cursor, and then what comes, until it ends.

Every frame has the number of its event as its id, so a reader that lost its connection continues with `Last-Event-ID`
or `since_seq`. Events that belong together have one id, on the last of them: a reader gets all of them or none.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

import msgspec

from parley.engine.reading.large import is_large, run_beside_loop
from parley.engine.reading.views import fold_stored
from parley.host.access.scopes import Scope
from parley.host.api.native_events import NativeEvents, RequestFacts
from parley.host.api.route import ApiCall
from parley.host.data.conversations import conversation_of
from parley.host.data.tenant import Tenant
from parley.host.errors import PathNotFound
from parley.host.orchestration.narration import UNAUTHORIZED
from parley.host.origin import host_caller, origin_of
from parley.host.task_views import agent_of, text_in_artifacts
from parley.host.watched_stream import WatchedStream
from parley.protocol.errors import PermissionDeniedError, UnauthenticatedError, UnavailableError
from parley.protocol.events import StatusUpdate, TaskEvent
from parley.protocol.lifecycle import is_terminal
from parley.protocol.tasks import TaskState, TaskStatus
from parley.server.bindings.failures import as_wire_error
from parley.server.bindings.streams import SseStream
from parley.stores.interface import TaskHead
from parley.wire.sse import encode_frame

if TYPE_CHECKING:
    from parley.host.host import Host

_encoder = msgspec.json.Encoder()


async def stream_events(call: ApiCall[Any], request_id: str, *, scope: Scope, after: int = 0) -> None:
    """Stream the events of a request after a number, for as long as the caller's token has a scope.

    Raises:
        PathNotFound: the tenant has no such request.
        InvalidParamsError: it has no such event yet.
    """
    host, tenant = call.host, call.tenant
    head = await host.views.head(tenant.id, request_id)
    if head is None:
        raise PathNotFound("request not found")
    shared = host.app.shared
    log = host.engine.agent(head.agent).follow_log(request_id, host_caller(tenant.id), after=after)
    watched = WatchedStream(log, host.access_tokens, call.principal, scope)
    events = _NativeStream(host, head, NativeEvents(await _facts(host, tenant, head)), watched)
    # The stream only passes the frames through: they are encoded here, because a task's end is looked up.
    sse = SseStream(call.request, cast("Any", events), _frame, _failure, lambda: (), shared.bodies)
    await sse.run(shared.monitor)


async def _facts(host: Host, tenant: Tenant, head: TaskHead) -> RequestFacts:
    stored = (await host.store.tasks.read_many([head.key], artifacts=False))[0]
    opening = None
    if stored is not None:
        task = fold_stored(stored)
        opening = task.history[0] if task.history else None
    origin = origin_of(opening) if opening is not None else None
    agent_def = origin.agent_def if origin is not None else None
    return RequestFacts(
        request_id=head.key.task_id,
        agent_id=str(agent_def["id"]) if agent_def is not None else agent_of(head),
        tenant_id=tenant.id,
        tenant_name=tenant.name,
        created_at=head.created_at,
        opening_id=opening.message_id if opening is not None else "",
        conversation=conversation_of(head.context_id) or 0,
        channel=origin.channel if origin is not None else "",
    )


class _NativeStream:
    """The frames of one request for an `SseStream`, each with its number."""

    def __init__(self, host: Host, head: TaskHead, native: NativeEvents, events: WatchedStream) -> None:
        self._host = host
        self._head = head
        self._native = native
        self._events = events

    def __aiter__(self) -> _NativeStream:
        return self

    async def __anext__(self) -> deque[tuple[int, bytes, bool]]:
        while True:
            batch = await self._events.__anext__()
            frames: deque[tuple[int, bytes, bool]] = deque()
            for seq, event in batch:
                if frame := await self._frames(seq, cast("TaskEvent", event)):
                    frames.append((seq, frame, False))
            batch.clear()
            if frames:
                return frames

    async def aclose(self) -> None:
        await self._events.aclose()

    async def _frames(self, seq: int, event: TaskEvent) -> bytes:
        """The frames of an event; empty if the native API does not show it. A large one is encoded in a thread."""
        text = None
        if isinstance(event, StatusUpdate) and _needs_text(event.status):
            text = text_in_artifacts(await self._host.engine.views.task(self._head.key, self._head.agent))
        if is_large(event):
            return await run_beside_loop(self._encode, seq, event, text)
        return self._encode(seq, event, text)

    def _encode(self, seq: int, event: TaskEvent, text: str | None) -> bytes:
        events = self._native.read(event, text=text)
        return b"".join(
            encode_frame(_encoder.encode(payload), event=name, id=str(seq) if number == len(events) else None)
            for number, (name, payload) in enumerate(events, 1)
        )


def _needs_text(status: TaskStatus) -> bool:
    """Whether a status ends a task and does not repeat what the agent has said."""
    return is_terminal(status.state) and (status.message is None or status.state is not TaskState.COMPLETED)


def _frame(seq: int, frame: Any, ends: bool) -> bytes:
    return frame


def _failure(error: BaseException, last_seq: int) -> bytes:
    """The frames of a stream that was cut off: not the end of the request, so the reader comes back."""
    failure = as_wire_error(error)
    match failure:
        case UnavailableError():
            code = "unavailable"
        case UnauthenticatedError() | PermissionDeniedError():
            code = UNAUTHORIZED
        case _:
            code = "internal_error"
    payload = {"message": failure.message, "error_code": code, "last_event_id": str(last_seq)}
    return encode_frame(_encoder.encode(payload), event="error")
