"""The operations of an agent at the URL of a draft: a message that begins a task there is worked on by the draft.

The task belongs to the agent, as all its tasks do. Only what its message says tells them apart.
"""

from __future__ import annotations

from msgspec import structs

from parley.engine.caller import ANONYMOUS_CALLER, Caller
from parley.engine.engine import Engine
from parley.engine.operations import AgentOperations
from parley.engine.reading.following import Follower
from parley.host.origin import ORIGIN, RunOrigin, metadata_of
from parley.protocol.errors import InvalidParamsError
from parley.protocol.messages import Message
from parley.protocol.requests import SendMessageRequest
from parley.protocol.tasks import Task


class DraftOperations(AgentOperations):
    """The operations of an agent for the author of one of its drafts."""

    __slots__ = ("_author",)

    def __init__(self, engine: Engine, agent_id: str, author: str) -> None:
        super().__init__(engine, agent_id)
        self._author = author

    async def send_message(self, request: SendMessageRequest, caller: Caller = ANONYMOUS_CALLER) -> Task | Message:
        """As `AgentOperations.send_message`, to the draft."""
        return await super().send_message(self._to_draft(request), caller)

    def send_streaming_message(
        self, request: SendMessageRequest, caller: Caller = ANONYMOUS_CALLER, *, after: int | None = None
    ) -> Follower:
        """As `AgentOperations.send_streaming_message`, to the draft."""
        return super().send_streaming_message(self._to_draft(request), caller, after=after)

    def _to_draft(self, request: SendMessageRequest) -> SendMessageRequest:
        message = request.message
        if ORIGIN in message.metadata:
            raise InvalidParamsError("This member is reserved", path=f"$.message.metadata['{ORIGIN}']")
        if message.task_id is not None:  # the task knows what works on it
            return request
        marked = {**message.metadata, **metadata_of(RunOrigin(draft_of=self._author))}
        return structs.replace(request, message=structs.replace(message, metadata=marked))
