"""How the agent's tasks look to one caller: under its names for them, and with what its dialect needs."""

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

LONGEST_ID = 1_024
"""Characters of an id that an agent may make up. It is kept, and stands in each event."""


@dataclass(slots=True)
class View:
    """One caller's view of what the agent says.

    `name` is what the caller calls the task, if it has named it itself; `begins` says that the task is to be remembered
    as the caller's. With `keeps_apart` nothing is shown that another caller has begun.
    """

    caller: Caller
    ledger: Ledger
    keeps_apart: bool = False
    begins: bool = False
    name: str | None = None
    context_id: str | None = None
    _slots: dict[str, int] = field(default_factory=dict[str, int])

    def event(self, event: StreamEvent) -> StreamEvent:
        """An event as the caller gets it."""
        match event:
            case Message():
                return self.message(event)
            case Task():
                return self.task(event)
            case StatusUpdate():
                name, context_id = self._known_as(event.task_id), self._context(event.context_id, event.task_id)
                status = self._status(event.status, name, context_id)
                return structs.replace(event, task_id=name, context_id=context_id, status=status)
            case ArtifactUpdate():
                name, context_id = self._known_as(event.task_id), self._context(event.context_id, event.task_id)
                artifact = self._in_slot(event.artifact)
                return structs.replace(event, task_id=name, context_id=context_id, artifact=artifact)

    def task(self, task: Task) -> Task:
        """A task as the caller gets it."""
        name, context_id = self._known_as(task.id), self._context(task.context_id, task.id)
        return structs.replace(
            task,
            id=name,
            context_id=context_id,
            status=self._status(task.status, name, context_id),
            artifacts=tuple(self._in_slot(artifact) for artifact in task.artifacts),
            history=tuple(self._of_task(message, name, context_id) for message in task.history),
        )

    def message(self, message: Message) -> Message:
        """A direct reply as the caller gets it; 0.1 knows only tasks, and this one by its own name for it."""
        if message.context_id is not None:
            message = structs.replace(message, context_id=self._context(message.context_id, ""))
        return message if self.name is None else structs.replace(message, task_id=self.name)

    def _known_as(self, remote_id: str) -> str:
        _check_length(remote_id)
        tasks = self.ledger.tasks
        if self.keeps_apart and tasks.is_anothers(self.caller, remote_id):
            raise InvalidAgentResponseError("The agent answers with a task that another caller has begun")
        known = tasks.name_of(self.caller, remote_id)
        if self.begins and (known is None or self.name not in (None, known)):
            tasks.write(self.caller, self.name or remote_id, remote_id)
            return self.name or remote_id
        return known or remote_id

    def _context(self, said: str | None, remote_id: str) -> str:
        """The task's context, which 0.1 says once at most: what it said, else what the caller did."""
        if said is not None:
            _check_length(said)
            self.context_id = self._context_known_as(said) if self.keeps_apart else said
        self.context_id = self.context_id or remote_id
        return self.context_id

    def _context_known_as(self, remote_id: str) -> str:
        contexts = self.ledger.contexts
        known = contexts.name_of(self.caller, remote_id)
        if known is None and self.begins and not contexts.is_anothers(self.caller, remote_id):
            contexts.write(self.caller, remote_id, remote_id)
        return known or remote_id

    def _status(self, status: TaskStatus, name: str, context_id: str) -> TaskStatus:
        message = status.message and self._of_task(status.message, name, context_id)
        return structs.replace(status, message=message)

    def _of_task(self, message: Message, name: str, context_id: str) -> Message:
        """A message of the task's, with the caller's names where it has any."""
        references = tuple(
            self.ledger.tasks.name_of(self.caller, remote_id) or remote_id for remote_id in message.reference_task_ids
        )
        mark = mark_of(self.caller) if self.keeps_apart else ""
        return structs.replace(
            message,
            message_id=message.message_id.removeprefix(mark),
            task_id=message.task_id and name,
            context_id=message.context_id and context_id,
            reference_task_ids=references,
        )

    def _in_slot(self, artifact: Artifact) -> Artifact:
        """The artifact with the index that 0.1 demands, in the order of appearance."""
        if self.caller.version is not Version.V0_1 or artifact.index is not None:
            return artifact
        slot = self._slots.setdefault(artifact.artifact_id, len(self._slots))
        return structs.replace(artifact, index=slot)


def mark_of(caller: Caller) -> str:
    """What stands before a caller's ids of messages at an agent that cannot tell callers apart."""
    return f"{hashlib.sha256(repr((caller.tenant, caller.name)).encode()).hexdigest()[:16]}."


def _check_length(remote_id: str) -> None:
    if len(remote_id) > LONGEST_ID:
        raise InvalidAgentResponseError(f"The agent's ids have more than {LONGEST_ID} characters")
