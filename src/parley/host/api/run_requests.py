"""Requests that begin work: what their bodies hold, which agent they mean, and how they begin.

An agent is named by the path or the body, or defined in the body for this request only (`agent_def`). Everything that
can be refused is refused here, before the stream that answers the request begins.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from parley.host.api.message_parts import MessageInput, parts_of
from parley.host.api.metrics import RequestRoute
from parley.host.api.route import ApiCall, ApiReply
from parley.host.api.submission import RequestOptions, submit
from parley.host.budget_limits import BudgetLimit
from parley.host.constitution import (
    INDEX,
    Constitution,
    InvalidConstitutionError,
    is_agent_id,
    read_constitution,
    render,
)
from parley.host.data.agents import AgentNotFoundError
from parley.host.errors import BadRequest
from parley.host.origin import RunOrigin, Surface, owner_name
from parley.host.priorities import PriorityInput, level_of
from parley.host.when_busy import WhenBusy
from parley.protocol.errors import InvalidParamsError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.push import PushConfig
from parley.stores.interface import Owner, TaskKey
from parley.wire.idempotency_key import HEADER, MAX_KEY, read_idempotency_key

RUN_HEADERS = {
    "Idempotency-Key": (
        f"A request with the same key within a day joins the first one. At most {MAX_KEY} printable ASCII characters."
    )
}

STREAMED_EVENTS = ApiReply(
    None,
    description="The events of the request, from the first to `done`.",
    content_type="text/event-stream",
)

ChannelInput: TypeAlias = Literal["", "text", "voice"]


class MessageBody(Struct, frozen=True):
    """A message to an agent."""

    message: MessageInput
    agent_def: JsonObject | None = None
    """The constitution of an agent that exists for this request only."""
    original_query: str = ""
    """What the user asked, if the message is something else that was made of it."""
    channel: ChannelInput = ""
    budget: BudgetLimit | None = None
    """What the request may use, with everything that its agents delegate."""
    when_busy: WhenBusy | None = None
    """What becomes of it while another request of its conversation is at work; null: what the agent does by default."""
    priority: PriorityInput | None = None
    """How urgent it is among the requests of the tenant; null: what the agent's constitution says."""


async def begin_run(
    call: ApiCall[Any],
    body: MessageBody,
    *,
    named: str | None,
    route: RequestRoute,
    surface: Surface,
    conversation: int = 0,
    draft_of: str = "",
    webhook: PushConfig | None = None,
) -> str:
    """Begin a request, or find the one that has its key. Returns its id.

    `named` is the agent that the path or the body names, and `draft_of` the author whose draft of it is to work.

    Raises:
        BadRequest, AgentNotFoundError, InvalidConstitutionError: the request is not valid.
        RateLimitedError, UnavailableError, TaskBusyError: it is not taken now.
    """
    host, tenant = call.host, call.tenant
    key, parts = idempotency_key(call), parts_of(body.message)
    defined = None if body.agent_def is None else inline_constitution(body.agent_def, named=named)
    agent_id = INDEX.id if defined is not None or named is None else named
    if not is_agent_id(agent_id):
        raise AgentNotFoundError(f"no agent '{agent_id}' for this tenant")
    origin = RunOrigin(
        surface=surface,
        conversation=conversation,
        channel=body.channel if body.channel != "text" else "",
        original_query=body.original_query,
        agent_def=None if defined is None else render(defined),
        draft_of=draft_of,
        principal=call.principal.name,
    )
    began = monotonic()
    level = None if body.priority is None else level_of(body.priority, path="$.priority")
    request_id, is_new = await submit(
        host,
        tenant,
        parts,
        agent_id=agent_id,
        origin=origin,
        idempotency_key=key,
        options=RequestOptions(budget=body.budget, when_busy=body.when_busy, priority=level, webhook=webhook),
    )
    if key is not None:
        call.metrics.key_used(is_new=is_new)
    if is_new:
        call.metrics.started(TaskKey(Owner(tenant.id, owner_name(tenant.id)), request_id), route, began)
    return request_id


def inline_constitution(agent_def: JsonObject, *, named: str | None, path: str = "$.agent_def") -> Constitution:
    """The constitution of an agent that is defined in a body; it must be the agent that is named, if one is.

    Raises:
        InvalidConstitutionError: it is not valid, has another id, or the master's.
    """
    constitution = constitution_in(agent_def, id=named, path=path)
    if constitution.id == INDEX.id:
        raise InvalidConstitutionError(f"'{INDEX.id}' is reserved for the master agent", f"{path}.id")
    return constitution


def constitution_in(value: JsonObject, *, id: str | None = None, path: str = "$") -> Constitution:
    """The constitution in a JSON object that stands at a path of the body.

    Raises:
        InvalidConstitutionError: it is not valid; the path is that in the body.
    """
    try:
        return read_constitution(value, id=id)
    except InvalidConstitutionError as error:
        raise InvalidConstitutionError(error.reason, path + error.path[1:]) from None


def idempotency_key(call: ApiCall[Any]) -> str | None:
    """The key of a request that may be sent again. Raises BadRequest."""
    value = call.request.headers.get(HEADER)
    try:
        return None if value is None else read_idempotency_key(value)
    except InvalidParamsError as error:
        raise BadRequest(error.message) from None
