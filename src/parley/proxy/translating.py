"""How the agent's tasks look to one caller: under its names for them, with what its dialect needs, and its errors."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec import structs

from parley.client.errors import ClientError, CredentialsError
from parley.engine.caller import Caller
from parley.protocol.errors import (
    A2AError,
    InvalidAgentResponseError,
    InvalidParamsError,
    LocalProtocolError,
    PeerProtocolError,
    UnauthenticatedError,
    UnavailableError,
)
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.messages import Message
from parley.protocol.tasks import Artifact, Task, TaskStatus
from parley.protocol.versions import Version
from parley.proxy.ledger import Ledger


@dataclass(slots=True)
class View:
    """One caller's view of what the agent says. `name` is what it calls the task, if it has named it itself."""

    caller: Caller
    ledger: Ledger
    name: str | None = None
    context_id: str | None = None
    _slots: dict[str, int] = field(default_factory=dict[str, int])

    def event(self, event: StreamEvent) -> StreamEvent:
        """An event as the caller gets it. A task that is seen for the first time is remembered."""
        match event:
            case Message():
                return self.message(event)
            case Task():
                return self.task(event)
            case StatusUpdate():
                name, context_id = self._known_as(event.task_id), self._context(event.context_id, event.task_id)
                status = self._status(event.status, name)
                return structs.replace(event, task_id=name, context_id=context_id, status=status)
            case ArtifactUpdate():
                name, context_id = self._known_as(event.task_id), self._context(event.context_id, event.task_id)
                artifact = self._in_slot(event.artifact)
                return structs.replace(event, task_id=name, context_id=context_id, artifact=artifact)

    def task(self, task: Task) -> Task:
        """A task as the caller gets it."""
        name = self._known_as(task.id)
        return structs.replace(
            task,
            id=name,
            context_id=self._context(task.context_id, task.id),
            status=self._status(task.status, name),
            artifacts=tuple(self._in_slot(artifact) for artifact in task.artifacts),
            history=tuple(_of_task(message, name) for message in task.history),
        )

    def message(self, message: Message) -> Message:
        """A direct reply as the caller gets it; 0.1 knows only tasks, and this one by its own name for it."""
        return message if self.name is None else structs.replace(message, task_id=self.name)

    def _known_as(self, remote_id: str) -> str:
        entry = self.ledger.find(self.caller, self.name or remote_id)
        if entry is None or entry.remote_id != remote_id:
            if self.name is None and self.ledger.owns(self.caller, remote_id):
                return self.ledger.name_of(self.caller, remote_id)
            self.ledger.write(self.caller, self.name or remote_id, remote_id)
        return self.ledger.name_of(self.caller, remote_id)

    def _context(self, said: str | None, remote_id: str) -> str:
        """The task's context, which 0.1 says once at most: what it said, else what the caller did."""
        self.context_id = said or self.context_id or remote_id
        return self.context_id

    def _status(self, status: TaskStatus, name: str) -> TaskStatus:
        return structs.replace(status, message=status.message and _of_task(status.message, name))

    def _in_slot(self, artifact: Artifact) -> Artifact:
        """The artifact with the index that 0.1 demands, in the order of appearance."""
        if self.caller.version is not Version.V0_1 or artifact.index is not None:
            return artifact
        slot = self._slots.setdefault(artifact.artifact_id, len(self._slots))
        return structs.replace(artifact, index=slot)


def _of_task(message: Message, name: str) -> Message:
    return message if message.task_id in (None, name) else structs.replace(message, task_id=name)


@contextmanager
def translated_errors(*, are_credentials_ours: bool) -> Generator[None]:
    """What the agent reports passes as it is; what happens on the way to it becomes an error that callers know."""
    try:
        yield
    except UnauthenticatedError as error:
        if are_credentials_ours:
            raise UnavailableError("The agent does not accept the proxy's own credentials") from error
        raise
    except A2AError:
        raise
    except CredentialsError as error:
        if are_credentials_ours:
            raise UnavailableError("The proxy lacks the credentials that the agent demands") from error
        raise UnauthenticatedError(str(error)) from error
    except ClientError as error:
        raise UnavailableError(f"The agent behind the proxy: {error}") from error
    except PeerProtocolError as error:
        raise InvalidAgentResponseError(f"The agent behind the proxy speaks no A2A: {error}") from error
    except LocalProtocolError as error:
        raise InvalidParamsError(f"The agent's dialect cannot say this: {error}") from error
