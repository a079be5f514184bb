"""What an executor of a2a-sdk 1.x is given, and what it gives: messages of protobuf.

Our dialect reads the SDK's messages as they are. What it writes are messages of our own pool, so they go to the SDK's
classes as bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import Event, EventQueue
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import A2AError, InternalError

from parley.dialects.protobuf_v1_0 import DIALECT
from parley.protocol.cards import AgentCard
from parley.protocol.events import StreamEvent
from parley.protocol.operations import SEND_MESSAGE
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import Task


class EventQueueV1(EventQueue):
    """The queue that an executor of 1.x writes to."""

    def __init__(self, accept: Callable[[StreamEvent], Awaitable[None]]) -> None:
        self._accept = accept

    async def enqueue_event(self, event: Event) -> None:
        """Give an event to the task; this waits while the task has many to write."""
        await self._accept(decode_event(event))


Queue = EventQueueV1


def decode_event(event: Event) -> StreamEvent:
    """An event of the SDK as ours. What has no parts gets an empty text, because every dialect demands one."""
    match event:
        case pb.TaskArtifactUpdateEvent():
            response = pb.StreamResponse(artifact_update=event)
            with_parts = [response.artifact_update.artifact]
        case pb.TaskStatusUpdateEvent():
            response = pb.StreamResponse(status_update=event)
            with_parts = _messages_of(response.status_update.status)
        case pb.Task():
            response = pb.StreamResponse(task=event)
            task = response.task
            with_parts = [*_messages_of(task.status), *task.history, *task.artifacts]
        case _:
            response = pb.StreamResponse(message=event)
            with_parts = [response.message]
    for thing in with_parts:
        if not thing.parts:
            thing.parts.add(text="")
    return DIALECT.decode_event(response)


def _messages_of(status: pb.TaskStatus) -> list[pb.Message]:
    return [status.message] if status.HasField("message") else []


def request_context(
    request: SendMessageRequest, task: Task | None, related: Sequence[Task], call_context: ServerCallContext
) -> RequestContext:
    """What `execute` is called with."""
    return RequestContext(
        call_context,
        pb.SendMessageRequest.FromString(DIALECT.encode_request(SEND_MESSAGE, request).SerializeToString()),
        task_id=request.message.task_id,
        context_id=request.message.context_id,
        task=_encode_task(task) if task else None,
        related_tasks=[_encode_task(other) for other in related],
    )


def decode_card(card: pb.AgentCard) -> AgentCard:
    """The SDK's card as ours."""
    return DIALECT.decode_card(card)


def refusal(error: Exception) -> str | None:
    """What the caller is to read, if an error of `execute` is an error of A2A."""
    return error.message if isinstance(error, A2AError) and not isinstance(error, InternalError) else None


def _encode_task(task: Task) -> pb.Task:
    return pb.StreamResponse.FromString(DIALECT.encode_event(task).SerializeToString()).task
