"""The streams that the host documents for callers of 0.3 methods.

A stream begins with the first status and not with the task, and closes its text before the last status, whatever that
is. A subscription without a cursor replays the task from its beginning, with what only the host knows of it:
`x-arbiter.<kind>` in the metadata.
"""

from __future__ import annotations

from parley.engine.caller import Caller
from parley.engine.operations import AgentOperations
from parley.engine.reading.following import Batch
from parley.host.orchestration.narration import PREFIX
from parley.protocol import requests as r
from parley.protocol.events import ArtifactUpdate, NoteAdded, StatusUpdate
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import TextPart
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus
from parley.server.contracts import EventStream


class DocumentedStream:
    """A stream without the task that it begins with, unless that shows something of earlier."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._is_first = True
        self._text = _TextClosing()

    async def __anext__(self) -> Batch:
        """The next batch, as the engine's stream gives it. Raises as that does."""
        batch = await anext(self._stream)
        if self._is_first:
            self._is_first = False
            first = batch[0][1]
            if isinstance(first, Task):
                self._text.note(first)
                if first.status.state is TaskState.SUBMITTED:
                    del batch[0]
                    batch = batch or await anext(self._stream)
        self._text.apply(batch)
        return batch

    async def aclose(self) -> None:
        """Follow no longer."""
        await self._stream.aclose()


class TaskReplay:
    """The events of a task's log as updates, also the notes; of a task that has ended, only its last status."""

    def __init__(
        self, operations: AgentOperations, request: r.SubscribeToTaskRequest, caller: Caller, after: int | None
    ) -> None:
        self._operations = operations
        self._request = request
        self._caller = caller
        self._after = after
        self._stream: EventStream | None = None
        self._text = _TextClosing()

    async def __anext__(self) -> Batch:
        """The next batch. Raises as the engine's stream does."""
        if self._stream is None:
            self._stream = await self._begin()
        while True:
            batch = await anext(self._stream)
            shown: Batch = [(seq, update) for seq, event in batch if (update := _as_update(event)) is not None]
            batch.clear()
            if shown:
                self._text.apply(shown)
                return shown

    async def _begin(self) -> EventStream:
        request, caller = self._request, self._caller
        task = await self._operations.get_task(r.GetTaskRequest(request.task_id, history_length=0), caller)
        if self._after is None and is_terminal(task.status.state):
            return self._operations.subscribe_to_task(request, caller)
        if self._after is not None:
            self._text.note(task)
        return self._operations.follow_log(request.task_id, caller, after=self._after or 0)

    async def aclose(self) -> None:
        """Follow no longer."""
        if self._stream is not None:
            await self._stream.aclose()


def _as_update(event: object) -> StatusUpdate | ArtifactUpdate | None:
    match event:
        case StatusUpdate() | ArtifactUpdate():
            return event
        case NoteAdded():
            status = TaskStatus(TaskState.WORKING)
            return StatusUpdate(event.task_id, event.context_id, status, {f"{PREFIX}{event.name}": event.value})
        case _:
            return None


class _TextClosing:
    """Adds the documented last frame of the text before a final status, where the log has none.

    The log has one if a task completes. It has none if a task fails or is canceled, because more text was to come.
    """

    def __init__(self) -> None:
        self._is_open = False

    def note(self, task: Task) -> None:
        """Remember what a reader has of the text before the first event."""
        self._is_open = any(artifact.artifact_id == _text_id(task.id) for artifact in task.artifacts)

    def apply(self, batch: Batch) -> None:
        """Add the frame to a batch that needs it."""
        for place, (seq, event) in enumerate(batch):
            if isinstance(event, ArtifactUpdate) and event.artifact.artifact_id == _text_id(event.task_id):
                self._is_open = not event.last_chunk
            elif isinstance(event, StatusUpdate) and is_terminal(event.status.state):
                if self._is_open and event.status.state is not TaskState.COMPLETED:
                    nothing = Artifact(_text_id(event.task_id), (TextPart(""),))
                    closing = ArtifactUpdate(event.task_id, event.context_id, nothing, append=True, last_chunk=True)
                    batch.insert(place, (seq - 1, closing))  # a reader that has it, has all before the status
                return


def _text_id(task_id: str) -> str:
    return f"{task_id}-text-0"
