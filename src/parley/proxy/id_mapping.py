"""Maps callers' names for tasks and contexts to the agent's ids in requests, and back in replies.

If `isolates_callers`, all callers share the proxy's credentials, so the agent cannot tell them apart. The proxy then
gives each caller only the tasks that it created here, and contexts of its own; everything else is unknown to it. Ids of
messages get a prefix for each caller, because an agent may accept a message id only once.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TypeVar
from uuid import uuid4

from msgspec import structs

from parley.engine.caller import Caller
from parley.protocol import requests as r
from parley.protocol.errors import InvalidAgentResponseError, InvalidParamsError, TaskNotFoundError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.messages import Message
from parley.protocol.tasks import Artifact, Task, TaskStatus
from parley.protocol.versions import Version
from parley.proxy.ledger import Ledger
from parley.proxy.upstream import Upstream

MAX_ID = 1_024
"""Characters of an id that the agent makes. The proxy stores ids, and every event repeats them."""

R = TypeVar("R", bound=r.Request)
T = TypeVar(
    "T",
    r.GetTaskRequest,
    r.CancelTaskRequest,
    r.SubscribeToTaskRequest,
    r.CreatePushConfigRequest,
    r.GetPushConfigRequest,
    r.ListPushConfigsRequest,
    r.DeletePushConfigRequest,
)


class IdMapping:
    """Maps requests of callers to requests to the agent, and makes the views that map its replies."""

    def __init__(self, upstream: Upstream, ledger: Ledger, *, isolates_callers: bool = False) -> None:
        self.ledger = ledger
        self.isolates_callers = isolates_callers
        self._upstream = upstream

    def view(self, caller: Caller, *, creates: bool = False, context_id: str | None = None) -> CallerView:
        """A caller's view of the agent's replies."""
        return CallerView(caller, self.ledger, self.isolates_callers, creates, context_id=context_id)

    def for_task(self, request: T, caller: Caller) -> T:
        """A request about a task, with the agent's id of the task.

        Raises:
            TaskNotFoundError: the task belongs to another caller.
        """
        return structs.replace(self.for_tenant(request, caller), task_id=self.remote_id(request.task_id, caller))

    def remote_id(self, name: str, caller: Caller) -> str:
        """The agent's id of a task. Raises TaskNotFoundError if the task belongs to another caller."""
        entry = self.ledger.tasks.find(caller, name)
        if entry is None and self.isolates_callers:
            raise TaskNotFoundError.for_task(name)
        return entry.remote_id if entry else name

    def for_tenant(self, request: R, caller: Caller) -> R:
        """A request with the tenant that the agent expects."""
        fixed, wanted = self._upstream.client.interface.tenant, caller.tenant or None
        has_tenants = self._upstream.version is Version.V1_0
        if self.isolates_callers and not has_tenants:
            wanted = None  # the proxy itself isolates the tenants
        if wanted is not None and (not has_tenants or fixed not in (None, wanted)):
            raise InvalidParamsError("The agent behind the proxy does not have this tenant", path="$.tenant")
        return structs.replace(request, tenant=wanted or fixed)

    def for_list(self, request: r.ListTasksRequest, caller: Caller) -> r.ListTasksRequest:
        """A request for a list, with the agent's id of the context."""
        request = self.for_tenant(request, caller)
        if not self.isolates_callers or request.context_id is None:
            return request
        entry = self.ledger.contexts.find(caller, request.context_id)
        return structs.replace(request, context_id=entry.remote_id if entry else str(uuid4()))  # or an unused id

    def for_message(self, message: Message, caller: Caller) -> Message:
        """A message with the agent's ids of its context and of the tasks that it refers to."""
        references = tuple(self.remote_id(name, caller) for name in message.reference_task_ids)
        message = structs.replace(message, reference_task_ids=references)
        if self.isolates_callers and message.message_id:
            message = structs.replace(message, message_id=f"{message_prefix(caller)}{message.message_id}")
        if not self.isolates_callers or message.context_id is None:
            return message
        contexts = self.ledger.contexts
        if contexts.find(caller, message.context_id) is None:
            contexts.write(caller, message.context_id, str(uuid4()))
        entry = contexts.find(caller, message.context_id)
        return structs.replace(message, context_id=entry and entry.remote_id)


@dataclass(slots=True)
class CallerView:
    """One caller's view of the agent's replies.

    `name` is the caller's own name for the task, if it chose one. `creates` says that a task in the reply becomes the
    caller's. If `isolates_callers`, a task of another caller is an error.
    """

    caller: Caller
    ledger: Ledger
    isolates_callers: bool = False
    creates: bool = False
    name: str | None = None
    context_id: str | None = None
    _artifact_indexes: dict[str, int] = field(default_factory=dict[str, int])

    def event(self, event: StreamEvent) -> StreamEvent:
        """An event for the caller."""
        match event:
            case Message():
                return self.message(event)
            case Task():
                return self.task(event)
            case StatusUpdate():
                name, context_id = self._names(event.task_id, event.context_id)
                status = self._status(event.status, name, context_id)
                return structs.replace(event, task_id=name, context_id=context_id, status=status)
            case ArtifactUpdate():
                name, context_id = self._names(event.task_id, event.context_id)
                artifact = self._indexed(event.artifact)
                return structs.replace(event, task_id=name, context_id=context_id, artifact=artifact)

    def task(self, task: Task) -> Task:
        """A task for the caller."""
        name, context_id = self._names(task.id, task.context_id)
        return structs.replace(
            task,
            id=name,
            context_id=context_id,
            status=self._status(task.status, name, context_id),
            artifacts=tuple(self._indexed(artifact) for artifact in task.artifacts),
            history=tuple(self._task_message(message, name, context_id) for message in task.history),
        )

    def message(self, message: Message) -> Message:
        """A direct reply for the caller. 0.1 only has tasks, so it gets the caller's name for one."""
        if message.context_id is not None:
            message = structs.replace(message, context_id=self._context(message.context_id, ""))
        return message if self.name is None else structs.replace(message, task_id=self.name)

    def _names(self, remote_id: str, context_id: str | None) -> tuple[str, str]:
        """The caller's names of a task and of its context."""
        _check_length(remote_id)
        tasks = self.ledger.tasks
        if self.isolates_callers and tasks.belongs_to_another(self.caller, remote_id):
            raise InvalidAgentResponseError("The agent answered with a task of another caller")
        name = tasks.name_of(self.caller, remote_id)
        if self.creates and (name is None or self.name not in (None, name)):
            name = self.name or remote_id
            tasks.write(self.caller, name, remote_id)
        return name or remote_id, self._context(context_id, remote_id)

    def _context(self, context_id: str | None, default: str) -> str:
        """The caller's name of a context. 0.1 names it once at most: in the task, or in the caller's message."""
        if context_id is not None:
            _check_length(context_id)
            self.context_id = self._context_name(context_id) if self.isolates_callers else context_id
        self.context_id = self.context_id or default
        return self.context_id

    def _context_name(self, remote_id: str) -> str:
        contexts = self.ledger.contexts
        name = contexts.name_of(self.caller, remote_id)
        if name is None and self.creates and not contexts.belongs_to_another(self.caller, remote_id):
            contexts.write(self.caller, remote_id, remote_id)
        return name or remote_id

    def _status(self, status: TaskStatus, name: str, context_id: str) -> TaskStatus:
        message = status.message and self._task_message(status.message, name, context_id)
        return structs.replace(status, message=message)

    def _task_message(self, message: Message, name: str, context_id: str) -> Message:
        """A message of a task, with the caller's names."""
        references = tuple(
            self.ledger.tasks.name_of(self.caller, remote_id) or remote_id for remote_id in message.reference_task_ids
        )
        prefix = message_prefix(self.caller) if self.isolates_callers else ""
        return structs.replace(
            message,
            message_id=message.message_id.removeprefix(prefix),
            task_id=message.task_id and name,
            context_id=message.context_id and context_id,
            reference_task_ids=references,
        )

    def _indexed(self, artifact: Artifact) -> Artifact:
        """The artifact with the index that 0.1 requires, in the order of appearance."""
        if self.caller.version is not Version.V0_1 or artifact.index is not None:
            return artifact
        index = self._artifact_indexes.setdefault(artifact.artifact_id, len(self._artifact_indexes))
        return structs.replace(artifact, index=index)


def message_prefix(caller: Caller) -> str:
    """The prefix of a caller's message ids, for an agent that cannot tell callers apart."""
    return f"{hashlib.sha256(repr((caller.tenant, caller.name)).encode()).hexdigest()[:16]}."


def _check_length(remote_id: str) -> None:
    if len(remote_id) > MAX_ID:
        raise InvalidAgentResponseError(f"The agent sent an id of more than {MAX_ID} characters")
