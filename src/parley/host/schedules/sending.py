"""The message of a tick: the same message to the same task, however often it is sent, and so one run.

The ids are made of the schedule and the tick. A second send finds the task of the first: in the log, or, if both are
sent at the same moment, by the engine's own rule that the same message gets the same task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable

from msgspec import structs

from parley.engine.caller import Caller
from parley.engine.engine import Engine
from parley.host.access.principal import PRINCIPAL
from parley.host.access.scopes import Scope
from parley.host.data.agents import AgentNotFoundError
from parley.host.data.conversations import ConversationNotFoundError, Conversations, context_id_of
from parley.host.data.errors import InvalidValueError
from parley.host.data.schedule import PendingTick, Schedule, StoredSchedule
from parley.host.data.stops import AgentStoppedError
from parley.host.data.tenant import Tenant
from parley.host.origin import RunOrigin, metadata_of, owner_name
from parley.protocol.errors import ContentTypeNotSupportedError, InvalidParamsError, PermissionDeniedError
from parley.protocol.jsonvalue import JsonObject
from parley.protocol.messages import DataPart, Message, Part, Role, TextPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.tasks import TaskState
from parley.stores.interface import Owner, TaskKey

AT_WORK = (TaskState.SUBMITTED, TaskState.WORKING)
"""States of a run that the next one would overlap with. A run that waits for a person is not at work."""


class ScheduledMessages:
    """Sends the messages of schedules to the agents of their tenants."""

    def __init__(
        self,
        engine: Engine,
        conversations: Conversations,
        *,
        tenant: Callable[[str], Tenant | None],
        find_program: Callable[[str, str], Awaitable[str | None]],
    ) -> None:
        """`tenant` finds one that is not disabled, and `find_program` the engine's id of a tenant's agent.

        The agent may be one that another process has just created.
        """
        self._engine = engine
        self._conversations = conversations
        self._tenant = tenant
        self._find_program = find_program

    async def send(self, stored: StoredSchedule, pending: PendingTick) -> None:
        """Begin the run of a tick, unless it has begun before.

        Raises:
            NotFoundError, A2AError: the message is refused.
            StoreError: it is not known whether the run has begun.
        """
        schedule, tenant_id = stored.schedule, stored.tenant
        if await self.has_begun(tenant_id, pending.task_id):
            return
        program_id = await self._find_program(tenant_id, schedule.agent_id)
        if self._tenant(tenant_id) is None:
            raise PermissionDeniedError("The tenant is disabled.")
        if program_id is None:
            raise AgentNotFoundError(f"no agent '{schedule.agent_id}' for this tenant")
        await self._prepare_conversation(stored, pending)
        request = SendMessageRequest(
            _message(tenant_id, schedule, pending), SendConfiguration(return_immediately=True), caller_names_task=True
        )
        await self._engine.agent(program_id).send_message(request, caller_of(tenant_id, schedule.id))

    async def has_begun(self, tenant_id: str, task_id: str) -> bool:
        """Whether a run has begun, whatever has become of it."""
        return await self._engine.store.tasks.head(_key(tenant_id, task_id)) is not None

    async def in_conversation(self, stored: StoredSchedule, pending: PendingTick) -> PendingTick:
        """A tick with its conversation: a number for a new one, if the schedule says so."""
        match stored.schedule.conversation:
            case "none":
                return pending
            case "new":
                number = await self._conversations.take_number(stored.tenant)
                return structs.replace(pending, conversation=number, is_new_conversation=True)
            case number:
                return structs.replace(pending, conversation=number)

    async def is_at_work(self, tenant_id: str, task_id: str) -> bool:
        """Whether a run has not ended, and does not wait for a person."""
        head = await self._engine.store.tasks.head(_key(tenant_id, task_id)) if task_id else None
        return head is not None and head.state in AT_WORK

    async def check(self, tenant_id: str, schedule: Schedule) -> None:
        """Refuse a schedule whose message could not be sent now.

        Raises:
            AgentNotFoundError: the tenant has no such agent.
            InvalidValueError: the agent does not take such a message.
        """
        program_id = await self._find_program(tenant_id, schedule.agent_id)
        program = None if program_id is None else self._engine.find_program(program_id)
        if program is None:
            raise AgentNotFoundError(f"no agent '{schedule.agent_id}' for this tenant")
        try:
            program.admit(_message(tenant_id, schedule, PendingTick(0, "", "")), caller_of(tenant_id, schedule.id))
        except AgentStoppedError:
            pass  # it may go on before the first tick
        except (ContentTypeNotSupportedError, InvalidParamsError) as error:
            raise InvalidValueError(error.message, "$.message" if schedule.data is None else "$.data") from None

    async def _prepare_conversation(self, stored: StoredSchedule, pending: PendingTick) -> None:
        if pending.is_new_conversation:
            await self._conversations.create_numbered(
                stored.tenant,
                pending.conversation,
                title=stored.schedule.name,
                agent_id=stored.schedule.agent_id,
                origin="schedule",
            )
        elif pending.conversation:
            try:
                await self._conversations.get(stored.tenant, pending.conversation)
            except ConversationNotFoundError:
                raise ConversationNotFoundError(f"there is no conversation {pending.conversation} any more") from None


def task_id_of(stored: StoredSchedule, name: str) -> str:
    """The id of the task of a tick, or of another run that has a name. A schedule that is created again has others."""
    seed = f"schedule {stored.tenant}/{stored.id}/{stored.sort} {name}"
    return hashlib.sha256(seed.encode()).hexdigest()[:16]


def caller_of(tenant_id: str, schedule_id: str) -> Caller:
    """A schedule as the caller of an agent."""
    claims: JsonObject = {PRINCIPAL: _principal(tenant_id, schedule_id)}
    return Caller(owner_name(tenant_id), tenant_id, scopes=frozenset({Scope.CALL}), claims=claims)


def _principal(tenant_id: str, schedule_id: str) -> str:
    return f"schedule:{tenant_id}/{schedule_id}"


def _message(tenant_id: str, schedule: Schedule, pending: PendingTick) -> Message:
    parts: tuple[Part, ...] = (TextPart(schedule.message),)
    if schedule.data is not None:
        parts += (DataPart(schedule.data),)
    principal = _principal(tenant_id, schedule.id)
    origin = RunOrigin(surface="schedule", conversation=pending.conversation, principal=principal)
    return Message(
        message_id=hashlib.sha256(f"schedule {pending.task_id}".encode()).hexdigest()[:32],
        role=Role.USER,
        parts=parts,
        context_id=context_id_of(pending.conversation) if pending.conversation else None,
        task_id=pending.task_id or None,
        metadata=metadata_of(origin),
    )


def _key(tenant_id: str, task_id: str) -> TaskKey:
    return TaskKey(Owner(tenant_id, owner_name(tenant_id)), task_id)
