"""What an executor of a2a-sdk is told of its message and caller. `sdk` is the module for the installed version."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import Any

from a2a.auth.user import User
from a2a.server.agent_execution import RequestContext
from a2a.server.context import ServerCallContext
from msgspec import structs

from parley.agents.turn import Turn
from parley.engine.caller import Caller
from parley.protocol.messages import Message
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import Task

sdk: Any = import_module(
    "parley.adapters.a2a_sdk.v0_3" if version("a2a-sdk").startswith("0.") else "parley.adapters.a2a_sdk.v1"
)


class CallerUser(User):
    """The caller as the SDK knows it."""

    def __init__(self, caller: Caller) -> None:
        self._name = caller.name

    @property
    def is_authenticated(self) -> bool:
        """Whether the server knows who the caller is."""
        return bool(self._name)

    @property
    def user_name(self) -> str:
        """The caller's name."""
        return self._name


async def request_context(
    turn: Turn, configuration: SendConfiguration, message: Message, known: Task | None
) -> RequestContext:
    """What `execute` is called with. `known` is the task so far; None for a new one."""
    caller = turn.caller
    call_context = ServerCallContext(
        state={"scopes": sorted(caller.scopes), "claims": caller.claims},
        user=CallerUser(caller),
        tenant=caller.tenant,  # 0.3 has none, and ignores it
        requested_extensions=set(message.extensions),
    )
    message = structs.replace(message, task_id=turn.task_id, context_id=turn.context.id)
    # Parley does not keep the metadata of requests, only that of messages.
    request = SendMessageRequest(message, configuration, message.metadata)
    referred = message.reference_task_ids
    related = [task for task in await turn.context.tasks() if task.id in referred] if referred else []
    context: RequestContext = sdk.request_context(request, known, related, call_context)
    return context
