"""Messages, tasks, artifacts and updates as every dialect since 0.2 has them.

Their wire structs differ in names, enums and parts but have the same attributes in the same order, so one conversion
serves them all; a dialect fills in what differs. 0.1 differs too much and has its own conversions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.protocol.messages import Message, Part, Role
from parley.protocol.tasks import Artifact, Task, TaskState, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """The conversions of one dialect, made from its parts, its enums and its wire structs.

    `no_context` is written for an absent context id, which dialects before 1.0 require. `pack` and
    `unpack` move what a dialect's message has no member for into its metadata and back.
    """

    decode_part: Callable[[Any], Part]
    encode_part: Callable[[Part], Any]
    roles: dict[str, Role]
    role_names: dict[Role, str]
    states: dict[str, TaskState]
    state_names: dict[TaskState, str]
    message: Callable[..., Any]
    status: Callable[..., Any]
    artifact: Callable[..., Any]
    task: Callable[..., Any]
    status_update: Callable[..., Any]
    artifact_update: Callable[..., Any]
    has_final: bool
    no_context: str | None
    pack: Callable[[Message], Message] | None = None
    unpack: Callable[[Message], Message] | None = None

    def decode_message(self, wire: Any) -> Message:
        """A message."""
        message = Message(
            wire.message_id,
            self.roles[wire.role],
            tuple([self.decode_part(part) for part in wire.parts]),
            wire.context_id or None,
            wire.task_id or None,
            wire.metadata or {},
            tuple(wire.extensions or ()),
            tuple(wire.reference_task_ids or ()),
        )
        return message if self.unpack is None else self.unpack(message)

    def encode_message(self, message: Message) -> Any:
        """A message on the wire."""
        if self.pack is not None:
            message = self.pack(message)
        return self.message(
            self.role_names[message.role],
            [self.encode_part(part) for part in message.parts],
            message.message_id,
            message.context_id,
            message.task_id,
            message.metadata or None,
            message.extensions or None,
            message.reference_task_ids or None,
        )

    def decode_status(self, wire: Any) -> TaskStatus:
        """A task's status."""
        message = self.decode_message(wire.message) if wire.message else None
        return TaskStatus(self.states[wire.state], message, wire.timestamp)

    def encode_status(self, status: TaskStatus) -> Any:
        """A task's status on the wire."""
        message = self.encode_message(status.message) if status.message else None
        return self.status(self.state_names[status.state], message, status.timestamp)

    def decode_artifact(self, wire: Any) -> Artifact:
        """An artifact."""
        return Artifact(
            wire.artifact_id,
            tuple([self.decode_part(part) for part in wire.parts]),
            wire.name or None,
            wire.description or None,
            wire.metadata or {},
            tuple(wire.extensions or ()),
        )

    def encode_artifact(self, artifact: Artifact) -> Any:
        """An artifact on the wire."""
        return self.artifact(
            artifact.artifact_id,
            [self.encode_part(part) for part in artifact.parts],
            artifact.name,
            artifact.description,
            artifact.metadata or None,
            artifact.extensions or None,
        )

    def decode_task(self, wire: Any) -> Task:
        """A task."""
        return Task(
            wire.id,
            wire.context_id or None,
            self.decode_status(wire.status),
            tuple([self.decode_artifact(artifact) for artifact in wire.artifacts or ()]),
            tuple([self.decode_message(message) for message in wire.history or ()]),
            wire.metadata or {},
        )

    def encode_task(self, task: Task) -> Any:
        """A task on the wire."""
        return self.task(
            task.id,
            self.encode_status(task.status),
            task.context_id or self.no_context,
            [self.encode_artifact(artifact) for artifact in task.artifacts] or None,
            [self.encode_message(message) for message in task.history] or None,
            task.metadata or None,
        )

    def decode_status_update(self, wire: Any) -> StatusUpdate:
        """A change of status."""
        status = self.decode_status(wire.status)
        final = self.has_final and wire.final and not ends_stream(status.state)
        return StatusUpdate(wire.task_id, wire.context_id or None, status, wire.metadata or {}, final)

    def encode_status_update(self, update: StatusUpdate, ends: bool | None = None) -> Any:
        """A change of status on the wire; before 1.0 it has a flag for the end of the stream.

        `None` leaves that to the state.
        """
        status = self.encode_status(update.status)
        context_id = update.context_id or self.no_context
        wire = self.status_update(update.task_id, status, context_id, update.metadata or None)
        if self.has_final:
            wire.final = update.final or ends_stream(update.status.state) if ends is None else ends
        return wire

    def decode_artifact_update(self, wire: Any) -> ArtifactUpdate:
        """A new artifact, or a chunk of one."""
        return ArtifactUpdate(
            wire.task_id,
            wire.context_id or None,
            self.decode_artifact(wire.artifact),
            bool(wire.append),
            bool(wire.last_chunk),
            wire.metadata or {},
        )

    def encode_artifact_update(self, update: ArtifactUpdate) -> Any:
        """A new artifact, or a chunk of one, on the wire."""
        return self.artifact_update(
            update.task_id,
            self.encode_artifact(update.artifact),
            update.context_id or self.no_context,
            update.append,
            update.last_chunk,
            update.metadata or None,
        )

    def decode_wrapped(self, wire: Any) -> StreamEvent:
        """A stream event wrapped by name: `{"task": …}`, `{"statusUpdate": …}`."""
        if wire.artifact_update:
            return self.decode_artifact_update(wire.artifact_update)
        if wire.status_update:
            return self.decode_status_update(wire.status_update)
        return self.decode_task(wire.task) if wire.task else self.decode_message(wire.message)

    def encode_wrapped(self, event: StreamEvent, ends: bool | None = None) -> dict[str, Any]:
        """A stream event wrapped by name."""
        if isinstance(event, ArtifactUpdate):
            return {"artifactUpdate": self.encode_artifact_update(event)}
        if isinstance(event, StatusUpdate):
            return {"statusUpdate": self.encode_status_update(event, ends)}
        return self.encode_send_result(event)

    def wrapped_frames(self, event: StreamEvent, ends: bool | None) -> tuple[dict[str, Any]]:
        """The one frame of a stream event wrapped by name."""
        return (self.encode_wrapped(event, ends),)

    def decode_send_result(self, wire: Any) -> Task | Message:
        """The answer to a send, wrapped by name."""
        return self.decode_task(wire.task) if wire.task else self.decode_message(wire.message)

    def encode_send_result(self, result: Task | Message) -> dict[str, Any]:
        """The answer to a send, wrapped by name."""
        if isinstance(result, Task):
            return {"task": self.encode_task(result)}
        return {"message": self.encode_message(result)}
