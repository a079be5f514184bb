"""Requests as the agent needs them: its ids for the caller's names, its tenants, and no way to what is another's.

With `keeps_apart` the agent sees one caller, the proxy, whoever calls. Each caller is then kept to the tasks that it
has begun here, and its contexts are its own whatever it calls them: what the ledger does not know as the caller's is
not there. Ids of messages get a mark, because an agent may take the same message of one sender once.
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
from parley.proxy.ledger import Ledger
from parley.proxy.translating import View, mark_of
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
    """From what a caller says to what the agent understands, and back."""

    def __init__(self, upstream: Upstream, ledger: Ledger, *, keeps_apart: bool = False) -> None:
        self.ledger = ledger
        self.keeps_apart = keeps_apart
        self._upstream = upstream

    def view(self, caller: Caller, *, begins: bool = False, context_id: str | None = None) -> View:
        """How a caller sees what the agent says."""
        return View(caller, self.ledger, self.keeps_apart, begins, context_id=context_id)

    def of_task(self, request: T, caller: Caller) -> T:
        """A request about a task, with the agent's id of it.

        Raises:
            TaskNotFoundError: it is another caller's.
        """
        return structs.replace(self.of_tenant(request, caller), task_id=self.remote_id(request.task_id, caller))

    def remote_id(self, name: str, caller: Caller) -> str:
        """The agent's id of a task. Raises TaskNotFoundError: it is another caller's."""
        entry = self.ledger.tasks.find(caller, name)
        if entry is None and self.keeps_apart:
            raise TaskNotFoundError.for_task(name)
        return entry.remote_id if entry else name

    def of_tenant(self, request: R, caller: Caller) -> R:
        """The request with the tenant that the agent knows."""
        fixed, wanted = self._upstream.client.interface.tenant, caller.tenant or None
        has_tenants = self._upstream.version is Version.V1_0
        if self.keeps_apart and not has_tenants:
            wanted = None  # they are kept apart here
        if wanted is not None and (not has_tenants or fixed not in (None, wanted)):
            raise InvalidParamsError("The agent behind the proxy does not have this tenant", path="$.tenant")
        return structs.replace(request, tenant=wanted or fixed)

    def of_list(self, request: r.ListTasksRequest, caller: Caller) -> r.ListTasksRequest:
        """A request for a list, with the agent's id of the context."""
        request = self.of_tenant(request, caller)
        if not self.keeps_apart or request.context_id is None:
            return request
        entry = self.ledger.contexts.find(caller, request.context_id)
        return structs.replace(request, context_id=entry.remote_id if entry else str(uuid4()))  # which nothing has

    def of_message(self, message: Message, caller: Caller) -> Message:
        """A message in the context that is meant, with the agent's ids of the tasks that it refers to."""
        references = tuple(self.remote_id(name, caller) for name in message.reference_task_ids)
        message = structs.replace(message, reference_task_ids=references)
        if self.keeps_apart and message.message_id:
            message = structs.replace(message, message_id=f"{mark_of(caller)}{message.message_id}")
        if not self.keeps_apart or message.context_id is None:
            return message
        contexts = self.ledger.contexts
        if contexts.find(caller, message.context_id) is None:
            contexts.write(caller, message.context_id, str(uuid4()))
        entry = contexts.find(caller, message.context_id)
        return structs.replace(message, context_id=entry and entry.remote_id)
