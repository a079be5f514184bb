"""What an executor of a2a-sdk 0.3 is given, and what it gives: pydantic models, which our dialect reads as JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from a2a import types
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.server.events.event_queue import Event
from a2a.utils.errors import ServerError

from parley.dialects.v0_3 import DIALECT
from parley.protocol.cards import AgentCard
from parley.protocol.events import StreamEvent
from parley.protocol.operations import SEND_MESSAGE
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import Task


class EventQueueV03(EventQueue):
    """The queue that an executor of 0.3 writes to; queues that tap it get every event, too."""

    def __init__(self, accept: Callable[[StreamEvent], Awaitable[None]]) -> None:
        super().__init__()
        self._accept = accept

    async def enqueue_event(self, event: Event) -> None:
        """Give an event to the task; this waits while the task has many to write."""
        await self._accept(decode_event(event))
        for child in self._children:
            await child.enqueue_event(event)


Queue = EventQueueV03


def decode_event(event: Event) -> StreamEvent:
    """An event of the SDK as ours. What has no parts gets an empty text, because every dialect demands one."""
    if not all(thing.parts for thing in _with_parts(event)):
        event = event.model_copy(deep=True)
        for thing in _with_parts(event):
            thing.parts = thing.parts or [types.Part(types.TextPart(text=""))]
    return DIALECT.decode_event(event.model_dump_json(by_alias=True, exclude_none=True).encode())


def _with_parts(event: Event) -> list[types.Message | types.Artifact]:
    """The messages and artifacts in an event."""
    match event:
        case types.TaskArtifactUpdateEvent():
            return [event.artifact]
        case types.TaskStatusUpdateEvent():
            return [event.status.message] if event.status.message else []
        case types.Task():
            messages = [event.status.message] if event.status.message else []
            return [*messages, *(event.history or []), *(event.artifacts or [])]
        case _:
            return [event]


def request_context(
    request: SendMessageRequest, task: Task | None, related: Sequence[Task], call_context: ServerCallContext
) -> RequestContext:
    """What `execute` is called with."""
    return RequestContext(
        types.MessageSendParams.model_validate_json(DIALECT.encode_request(SEND_MESSAGE, request)),
        task_id=request.message.task_id,
        context_id=request.message.context_id,
        task=_encode_task(task) if task else None,
        related_tasks=[_encode_task(other) for other in related],
        call_context=call_context,
    )


def decode_card(card: types.AgentCard) -> AgentCard:
    """The SDK's card as ours."""
    return DIALECT.decode_card(card.model_dump_json(by_alias=True, exclude_none=True).encode())


def refusal(error: Exception) -> str | None:
    """What the caller is to read, if an error of `execute` is an error of A2A."""
    if isinstance(error, ServerError) and error.error and not isinstance(error.error, types.InternalError):
        return error.error.message
    return None


def _encode_task(task: Task) -> types.Task:
    (encoded,) = DIALECT.encode_event(task)
    return types.Task.model_validate_json(encoded)
