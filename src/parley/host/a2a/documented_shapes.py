"""The operations of a hosted agent, for callers whose token allows them, in the shapes that the host documents.

Real 1.0 is answered as everywhere else. For older methods, a task's history ends with the agent's reply, its metadata
names the agent, and its streams are those of `documented_streams`.
"""

from __future__ import annotations

from functools import partial
from typing import Protocol

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.operations import AgentOperations
from parley.host.a2a.deliveries import HostedDeliveries
from parley.host.a2a.documented_streams import DocumentedStream, TaskReplay
from parley.host.a2a.late_stream import LateStream
from parley.host.access.principal import principal_of, require_scope
from parley.host.access.scopes import Scope
from parley.host.approvals.decisions import stamped
from parley.host.approvals.desk import ApprovalDesk
from parley.host.data.access_tokens import AccessTokens
from parley.host.draft_access import naming_principal
from parley.host.orchestration.narration import PREFIX
from parley.host.watched_stream import WatchedStream
from parley.protocol import requests as r
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.server.contracts import EventStream


class Admission(Protocol):
    """What is looked up before a message is taken, if other processes share the store."""

    @property
    def is_needed(self) -> bool:
        """Whether there may be other processes."""
        ...

    async def check(self, program_id: str, message: Message, caller: Caller) -> None:
        """Look at a message. Raises A2AError."""
        ...


class HostedOperations:
    """The operations on the tasks of one agent of a tenant. All raise A2AError."""

    __slots__ = ("_admission", "_agent_id", "_approvals", "_operations", "_tokens")

    def __init__(
        self,
        operations: AgentOperations,
        agent_id: str,
        approvals: ApprovalDesk,
        tokens: AccessTokens,
        admission: Admission,
    ) -> None:
        self._operations = operations
        self._admission = admission
        self._agent_id = agent_id
        self._approvals = approvals
        self._tokens = tokens

    async def send_message(self, request: r.SendMessageRequest, caller: Caller) -> Task | Message:
        """Process a message and return its result."""
        request, sender = await self._routed(_admitted(request, caller), caller)
        result = await self._operations.send_message(request, sender)
        return self._shaped(result, caller, request.configuration.history_length)

    async def get_task(self, request: r.GetTaskRequest, caller: Caller) -> Task:
        """Read a task."""
        require_scope(caller, Scope.READ)
        return self._shaped(await self._operations.get_task(request, caller), caller, request.history_length)

    async def cancel_task(self, request: r.CancelTaskRequest, caller: Caller) -> Task:
        """Cancel a task."""
        require_scope(caller, Scope.CALL)
        return self._shaped(await self._operations.cancel_task(request, caller), caller, None)

    def send_streaming_message(
        self, request: r.SendMessageRequest, caller: Caller, *, after: int | None
    ) -> EventStream:
        """Process a message and stream the events of its task."""
        request = _admitted(request, caller)
        stream: EventStream
        if request.message.task_id is None and not self._admission.is_needed:
            stream = self._operations.send_streaming_message(request, caller, after=after)
        else:
            stream = LateStream(partial(self._answer_streaming, request, caller, after))
        allowed = Scope.CALL if Scope.CALL in caller.scopes else Scope.APPROVE
        return self._watched(stream if _is_real(caller) else DocumentedStream(stream), caller, allowed)

    async def _answer_streaming(self, request: r.SendMessageRequest, caller: Caller, after: int | None) -> EventStream:
        request, sender = await self._routed(request, caller)
        return self._operations.send_streaming_message(request, sender, after=after)

    async def _routed(self, request: r.SendMessageRequest, caller: Caller) -> tuple[r.SendMessageRequest, Caller]:
        """A message and its sender; instead of a decision for another task, what continues the one it was sent to."""
        continuing = await self._approvals.decide_for(request.message, caller)
        if continuing is None:
            if self._admission.is_needed:
                await self._admission.check(self._operations.agent_id, request.message, caller)
                if type(self._operations) is AgentOperations:  # messages to drafts name their author
                    request = structs.replace(request, message=naming_principal(request.message, caller))
            return request, caller
        sender = structs.replace(caller, claims={}, scopes=frozenset[str]())
        return structs.replace(request, message=continuing), sender

    def subscribe_to_task(self, request: r.SubscribeToTaskRequest, caller: Caller, *, after: int | None) -> EventStream:
        """Stream the events of a task; for callers of old methods, from its beginning."""
        require_scope(caller, Scope.READ)
        if _is_real(caller):
            return self._watched(self._operations.subscribe_to_task(request, caller, after=after), caller, Scope.READ)
        return self._watched(TaskReplay(self._operations, request, caller, after), caller, Scope.READ)

    def _watched(self, stream: EventStream, caller: Caller, scope: Scope) -> EventStream:
        """A stream that ends when the token of its reader does."""
        principal = principal_of(caller.tenant, caller.scopes, caller.claims)
        return WatchedStream(stream, self._tokens, principal, scope)

    # --- as everywhere ------------------------------------------------------------------------------------------------

    async def list_tasks(self, request: r.ListTasksRequest, caller: Caller) -> r.TaskPage:
        """Read one page of the caller's tasks."""
        require_scope(caller, Scope.READ)
        return await self._operations.list_tasks(request, caller)

    async def created_in(self, task_id: str, caller: Caller) -> Version | None:
        """The dialect in which a task was created, or None if that is unknown."""
        return await self._operations.created_in(task_id, caller)

    async def answers_demand(self, request: r.SendMessageRequest, caller: Caller) -> bool:
        """Whether a message for a task may answer a demand for authorization."""
        return await self._operations.answers_demand(_admitted(request, caller), caller)

    @property
    def deliveries(self) -> HostedDeliveries:
        """The deliveries to webhooks."""
        return HostedDeliveries(self._operations.deliveries)

    async def create_push_config(self, request: r.CreatePushConfigRequest, caller: Caller) -> PushConfig:
        """Register a webhook."""
        _check_webhooks(caller)
        return await self._operations.create_push_config(request, caller)

    async def get_push_config(self, request: r.GetPushConfigRequest, caller: Caller) -> PushConfig:
        """Read one webhook."""
        _check_webhooks(caller)
        return await self._operations.get_push_config(request, caller)

    async def list_push_configs(self, request: r.ListPushConfigsRequest, caller: Caller) -> r.PushConfigPage:
        """List all webhooks of a task."""
        _check_webhooks(caller)
        return await self._operations.list_push_configs(request, caller)

    async def delete_push_config(self, request: r.DeletePushConfigRequest, caller: Caller) -> None:
        """Remove a webhook."""
        require_scope(caller, Scope.CALL)
        await self._operations.delete_push_config(request, caller)

    def _shaped(self, result: Task | Message, caller: Caller, history_length: int | None) -> Task:
        assert isinstance(result, Task)  # a host keeps a task of every message
        metadata = {f"{PREFIX}agent_id": self._agent_id, **result.metadata}
        history, reply = result.history, result.status.message
        if not _is_real(caller):
            if is_terminal(result.status.state):
                history = (*history, reply) if reply is not None else history
                if history_length is not None:
                    history = history[max(len(history) - history_length, 0) :]
            elif result.status.state is TaskState.WORKING:  # a message of progress is not the reply
                return structs.replace(
                    result, metadata=metadata, status=structs.replace(result.status, message=None), history=()
                )
        return structs.replace(result, metadata=metadata, history=history)


def _admitted(request: r.SendMessageRequest, caller: Caller) -> r.SendMessageRequest:
    """A request that its caller may make, and that names the caller if it goes on with a task.

    A token that may only approve can still send to a task, whose agent sees to it that this is a decision.
    """
    if request.message.task_id is None or Scope.APPROVE not in caller.scopes:
        require_scope(caller, Scope.CALL)
    if request.configuration.push_config is not None:
        _check_webhooks(caller)
    if request.message.task_id is None:
        return request
    return structs.replace(request, message=stamped(request.message, caller))


def _check_webhooks(caller: Caller) -> None:
    """Refuse callers that may not read what a webhook is told, or that may only read: a webhook has credentials."""
    require_scope(caller, Scope.READ)
    require_scope(caller, Scope.CALL)


def _is_real(caller: Caller) -> bool:
    return caller.version is Version.V1_0
