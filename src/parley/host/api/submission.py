"""A request of the native API as a message to an agent of the tenant.

The host chooses the id of the task, so that a key of the caller (`Idempotency-Key`) can be kept for it before anything
begins: the same key gets the same request, also if the host crashed in between.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from msgspec import to_builtins

from parley.host.budget_limits import BUDGET, BudgetLimit
from parley.host.data.agents import AgentNotFoundError
from parley.host.data.conversations import context_id_of
from parley.host.data.tenant import Tenant
from parley.host.origin import RunOrigin, host_caller, metadata_of
from parley.host.priorities import priority_metadata
from parley.host.when_busy import WhenBusy, when_busy_metadata
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import Message, Part, Role
from parley.protocol.push import PushConfig
from parley.protocol.requests import SendConfiguration, SendMessageRequest

if TYPE_CHECKING:
    from parley.host.host import Host


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """How a request is worked on, and where its end is told."""

    budget: BudgetLimit | None = None
    when_busy: WhenBusy | None = None
    priority: int | None = None
    """A level from 0 to 9."""
    webhook: PushConfig | None = None

    @property
    def metadata(self) -> JsonObject:
        """What the message of the request says of it."""
        budget: JsonObject = {} if self.budget is None else {BUDGET: to_builtins(self.budget)}
        return budget | when_busy_metadata(self.when_busy) | priority_metadata(self.priority)


async def submit(
    host: Host,
    tenant: Tenant,
    parts: tuple[Part, ...],
    *,
    agent_id: str,
    origin: RunOrigin,
    idempotency_key: str | None = None,
    options: RequestOptions | None = None,
) -> tuple[str, bool]:
    """Begin a request, or find the one that has this key. Returns its id, and whether it is new.

    Raises:
        AgentNotFoundError: the tenant has no such agent.
        RateLimitedError, UnavailableError, InvalidParamsError, TaskBusyError: the message is not taken.
    """
    program_id = await host.find_program(tenant.id, agent_id)
    if program_id is None:
        raise AgentNotFoundError(f"no agent '{agent_id}' for this tenant")
    request_id = host.new_id()
    send = partial(_send, host, tenant, program_id, parts, origin, options or RequestOptions())
    if idempotency_key is None:
        await send(request_id)
        return request_id, True
    # One at a time: a second caller with the same key must find the task of the first.
    lock = host.submissions.setdefault((tenant.id, idempotency_key), asyncio.Lock())
    async with lock:
        request_id = await host.idempotency.claim(tenant.id, idempotency_key, request_id, host.clock.now())
        is_new = await host.views.head(tenant.id, request_id) is None
        if is_new:
            await send(request_id)
        return request_id, is_new


async def _send(
    host: Host,
    tenant: Tenant,
    program_id: str,
    parts: tuple[Part, ...],
    origin: RunOrigin,
    options: RequestOptions,
    request_id: str,
) -> None:
    message = Message(
        message_id=hashlib.sha256(f"native {request_id}".encode()).hexdigest()[:32],
        role=Role.USER,
        parts=parts,
        context_id=context_id_of(origin.conversation) if origin.conversation else None,
        task_id=request_id,
        metadata=metadata_of(origin) | options.metadata,
    )
    configuration = SendConfiguration(push_config=options.webhook, return_immediately=True)
    request = SendMessageRequest(message, configuration, caller_names_task=True)
    await host.admission.check(program_id, message, host_caller(tenant.id))
    await host.engine.agent(program_id).send_message(request, host_caller(tenant.id))
