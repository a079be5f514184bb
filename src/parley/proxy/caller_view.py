"""Maps the agent's tasks and events to one caller's names and version."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from msgspec import structs

from parley.engine.caller import Caller
from parley.protocol.errors import InvalidAgentResponseError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.messages import Message
from parley.protocol.tasks import Artifact, Task, TaskStatus
from parley.protocol.versions import Version
from parley.proxy.ledger import Ledger

MAX_ID = 1_024
"""Characters of an id that the agent chooses: it is stored, and part of each event."""


@dataclass(slots=True)
class CallerView:
    """One caller's view of the agent's answers.

    `name` is the caller's name for the task, if it chose one; `begins` says that the task is to be recorded as the
    caller's. With `isolates_callers`, tasks of other callers are not shown.
    """

    caller: Caller
    ledger: Ledger
    isolates_callers: bool = False
    begins: bool = False
    name: str | None = None
    context_id: str | None = None
    _indexes: dict[str, int] = field(default_factory=dict[str, int])

    def event(self, event: StreamEvent) -> StreamEvent:
        """An event as the caller gets it."""
        match event:
            case Message():
                return self.message(event)
            case Task():
                return self.task(event)
            case StatusUpdate():
                name, context_id = self._name_of_task(event.task_id), self._context(event.context_id, event.task_id)
                status = self._status(event.status, name, context_id)
                return structs.replace(event, task_id=name, context_id=context_id, status=status)
            case ArtifactUpdate():
                name, context_id = self._name_of_task(event.task_id), self._context(event.context_id, event.task_id)
                artifact = self._with_index(event.artifact)
                return structs.replace(event, task_id=name, context_id=context_id, artifact=artifact)

    def task(self, task: Task) -> Task:
        """A task as the caller gets it."""
        name, context_id = self._name_of_task(task.id), self._context(task.context_id, task.id)
        return structs.replace(
            task,
            id=name,
            context_id=context_id,
            status=self._status(task.status, name, context_id),
            artifacts=tuple(self._with_index(artifact) for artifact in task.artifacts),
            history=tuple(self._of_task(message, name, context_id) for message in task.history),
        )

    def message(self, message: Message) -> Message:
        """A direct reply as the caller gets it; in 0.1, which has only tasks, with the caller's name for the task."""
        if message.context_id is not None:
            message = structs.replace(message, context_id=self._context(message.context_id, ""))
        return message if self.name is None else structs.replace(message, task_id=self.name)

    def _name_of_task(self, remote_id: str) -> str:
        _check_length(remote_id)
        tasks = self.ledger.tasks
        if self.isolates_callers and tasks.belongs_to_another(self.caller, remote_id):
            raise InvalidAgentResponseError("The agent answers with a task of another caller")
        known = tasks.name_of(self.caller, remote_id)
        if self.begins and (known is None or self.name not in (None, known)):
            tasks.write(self.caller, self.name or remote_id, remote_id)
            return self.name or remote_id
        return known or remote_id

    def _context(self, said: str | None, remote_id: str) -> str:
        """The task's context, which 0.1 mentions at most once: as the agent said, else as the caller did."""
        if said is not None:
            _check_length(said)
            self.context_id = self._name_of_context(said) if self.isolates_callers else said
        self.context_id = self.context_id or remote_id
        return self.context_id

    def _name_of_context(self, remote_id: str) -> str:
        contexts = self.ledger.contexts
        known = contexts.name_of(self.caller, remote_id)
        if known is None and self.begins and not contexts.belongs_to_another(self.caller, remote_id):
            contexts.write(self.caller, remote_id, remote_id)
        return known or remote_id

    def _status(self, status: TaskStatus, name: str, context_id: str) -> TaskStatus:
        message = status.message and self._of_task(status.message, name, context_id)
        return structs.replace(status, message=message)

    def _of_task(self, message: Message, name: str, context_id: str) -> Message:
        """A message of the task, with the caller's names."""
        references = tuple(
            self.ledger.tasks.name_of(self.caller, remote_id) or remote_id for remote_id in message.reference_task_ids
        )
        mark = message_id_prefix(self.caller) if self.isolates_callers else ""
        return structs.replace(
            message,
            message_id=message.message_id.removeprefix(mark),
            task_id=message.task_id and name,
            context_id=message.context_id and context_id,
            reference_task_ids=references,
        )

    def _with_index(self, artifact: Artifact) -> Artifact:
        """The artifact with the index that 0.1 requires, in the order of appearance."""
        if self.caller.version is not Version.V0_1 or artifact.index is not None:
            return artifact
        slot = self._indexes.setdefault(artifact.artifact_id, len(self._indexes))
        return structs.replace(artifact, index=slot)


def message_id_prefix(caller: Caller) -> str:
    """The prefix of a caller's message ids at an agent that sees the proxy as its only caller."""
    return f"{hashlib.sha256(repr((caller.tenant, caller.name)).encode()).hexdigest()[:16]}."


def _check_length(remote_id: str) -> None:
    if len(remote_id) > MAX_ID:
        raise InvalidAgentResponseError(f"The agent's ids have more than {MAX_ID} characters")
