"""Turns callers' requests into requests to the agent: with its ids, its tenants, and access only to the caller's tasks.

With `isolates_callers` the agent sees the proxy as its only caller. Each caller can then reach only the tasks that it
started here, and its contexts are separate even if two callers choose the same name: for a caller, nothing exists that
the ledger does not list as its own. Message ids get a prefix, because an agent may accept the same id only once.
"""

from __future__ import annotations

from typing import TypeVar
from uuid import uuid4

from msgspec import structs

from parley.engine.caller import Caller
from parley.protocol import requests as r
from parley.protocol.errors import InvalidParamsError, TaskNotFoundError
from parley.protocol.messages import Message
from parley.protocol.versions import Version
from parley.proxy.caller_view import CallerView, message_id_prefix
from parley.proxy.ledger import Ledger
from parley.proxy.upstream import Upstream

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


class Addressing:
    """Maps requests of callers to requests to the agent."""

    def __init__(self, upstream: Upstream, ledger: Ledger, *, isolates_callers: bool = False) -> None:
        self.ledger = ledger
        self.isolates_callers = isolates_callers
        self._upstream = upstream

    def view(self, caller: Caller, *, begins: bool = False, context_id: str | None = None) -> CallerView:
        """A caller's view of the agent's answers."""
        return CallerView(caller, self.ledger, self.isolates_callers, begins, context_id=context_id)

    def of_task(self, request: T, caller: Caller) -> T:
        """A request about a task, with the agent's id of it.

        Raises:
            TaskNotFoundError: it belongs to another caller.
        """
        return structs.replace(self.of_tenant(request, caller), task_id=self.remote_id(request.task_id, caller))

    def remote_id(self, name: str, caller: Caller) -> str:
        """The agent's id of a task. Raises TaskNotFoundError: it belongs to another caller."""
        entry = self.ledger.tasks.find(caller, name)
        if entry is None and self.isolates_callers:
            raise TaskNotFoundError.for_task(name)
        return entry.remote_id if entry else name

    def of_tenant(self, request: R, caller: Caller) -> R:
        """The request with the tenant that the agent knows."""
        fixed, wanted = self._upstream.client.interface.tenant, caller.tenant or None
        has_tenants = self._upstream.version is Version.V1_0
        if self.isolates_callers and not has_tenants:
            wanted = None  # the proxy isolates them
        if wanted is not None and (not has_tenants or fixed not in (None, wanted)):
            raise InvalidParamsError("The agent behind the proxy does not have this tenant", path="$.tenant")
        return structs.replace(request, tenant=wanted or fixed)

    def of_list(self, request: r.ListTasksRequest, caller: Caller) -> r.ListTasksRequest:
        """A request for a list, with the agent's id of the context."""
        request = self.of_tenant(request, caller)
        if not self.isolates_callers or request.context_id is None:
            return request
        entry = self.ledger.contexts.find(caller, request.context_id)
        return structs.replace(request, context_id=entry.remote_id if entry else str(uuid4()))  # unknown to the agent

    def of_message(self, message: Message, caller: Caller) -> Message:
        """The message with the agent's ids of its context and of the tasks that it refers to."""
        references = tuple(self.remote_id(name, caller) for name in message.reference_task_ids)
        message = structs.replace(message, reference_task_ids=references)
        if self.isolates_callers and message.message_id:
            message = structs.replace(message, message_id=f"{message_id_prefix(caller)}{message.message_id}")
        if not self.isolates_callers or message.context_id is None:
            return message
        contexts = self.ledger.contexts
        if contexts.find(caller, message.context_id) is None:
            contexts.write(caller, message.context_id, str(uuid4()))
        entry = contexts.find(caller, message.context_id)
        return structs.replace(message, context_id=entry and entry.remote_id)
