"""What an executor says, on its way into the log; and what has happened in its task, which is its `current_task`."""

from __future__ import annotations

from msgspec import structs

from parley.adapters.a2a_sdk.artifact_ids import StableIds
from parley.adapters.a2a_sdk.call_record import CallRecord
from parley.adapters.a2a_sdk.known_task import ExecutorEvent
from parley.agents.replies import message_of
from parley.agents.turn import Turn, run_of
from parley.protocol.events import ArtifactUpdate, MessageAdded, StatusUpdate, TaskCreated, TaskEvent
from parley.protocol.lifecycle import ends_stream, fold
from parley.protocol.messages import Message
from parley.protocol.tasks import Task, TaskState, TaskStatus


class ExecutedEvents:
    """The events of one task, in the order in which its executor and its caller said them."""

    def __init__(self, turn: Turn) -> None:
        self._turn, self._run = turn, run_of(turn)
        self._ids = turn.task_id, self._run.context_id
        self._events: list[TaskEvent] = [TaskCreated(*self._ids, TaskStatus(TaskState.SUBMITTED))]
        self._artifact_ids = StableIds(*self._ids)

    def task(self) -> Task:
        """The task so far, for the executor."""
        self._artifact_ids.show_used()
        return fold(None, self._events)

    def add_message(self, message: Message) -> None:
        """Add a message of the caller, which the log has already."""
        self._events.append(MessageAdded(*self._ids, message))

    def add_question(self, asked: StatusUpdate) -> None:
        """Add a question, which the log has already."""
        self._events.append(StatusUpdate(*self._ids, asked.status, asked.metadata))

    async def emit(self, event: ExecutorEvent, record: CallRecord) -> None:
        """Emit what the executor says. What may end its call is only recorded."""
        match event:
            case ArtifactUpdate():
                given = event.artifact.artifact_id
                artifact = structs.replace(event.artifact, artifact_id=self._artifact_ids.of(event.artifact))
                append = None if event.append else False  # None is False for the first chunk
                await self._run.emissions.emit_chunk(artifact, append=append, last=event.last_chunk)
                self._events.append(ArtifactUpdate(*self._ids, artifact, event.append, event.last_chunk))
                record.count_chunk(given, artifact.artifact_id)
            case StatusUpdate(status=status) if not ends_stream(status.state):
                await self._report(event)
                record.statuses.append(event)
            case _:
                record.last = event

    async def repeat(self, record: CallRecord) -> None:
        """Take what a call said in an earlier run for said."""
        journal = self._run.journal
        for given, (artifact_id, chunks) in record.chunks.items():
            for artifact, is_added in journal.left_over(artifact_id)[:chunks]:
                chunk = structs.replace(artifact, index=None)  # it is Parley's
                self._events.append(ArtifactUpdate(*self._ids, chunk, is_added))
            journal.skip(artifact_id, chunks)
            self._artifact_ids.remember(given, artifact_id)
        for status in record.statuses:
            await self._report(status)

    async def _report(self, event: StatusUpdate) -> None:
        """Report progress. Metadata that comes without a message is the task's."""
        said = event.status.message
        if said is None:
            self._turn.annotate(event.metadata)
            return
        await self._run.emissions.emit_status(said.parts, event.metadata, message_of(self._run, (said,)))
        status = TaskStatus(TaskState.WORKING, said, event.status.timestamp)
        self._events.append(StatusUpdate(*self._ids, status, event.metadata))
