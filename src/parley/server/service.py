"""One agent being served: the checks that every call passes, whatever its binding, and then the engine.

Every binding decodes a request, calls `answer` or `follow` here, and encodes the result. The order of the checks is
the same for all: address, credentials, rate, extensions, capabilities, tenant. No task is looked up before the caller
is authenticated, and a task that the caller may not see is reported as not found. Bindings authenticate before they
read the body; the other checks follow when the request is decoded.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any

from msgspec import structs

from parley.agents.agent import Agent
from parley.engine.caller import Caller
from parley.engine.sealed_answers import masked_answer
from parley.protocol import operations as ops
from parley.protocol.authorization import without_credential
from parley.protocol.cards import AgentCard, Binding
from parley.protocol.errors import (
    A2AError,
    ExtendedCardNotConfiguredError,
    InvalidParamsError,
    PermissionDeniedError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
)
from parley.protocol.negotiation import activate_extensions, read_extensions
from parley.protocol.operations import Needs, Operation
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest, Request, Result, SendMessageRequest
from parley.protocol.versions import Version
from parley.server.app_resources import AppResources
from parley.server.bindings.failures import Header
from parley.server.call_stream import CallStream, record_task_ids
from parley.server.contracts import ConversationObserver, EventStream, Operations, WebhookDeliveries
from parley.server.pages.cards import Cards
from parley.server.security.credentials import Identity
from parley.server.telemetry.call import Call
from parley.wire.idempotency_key import HEADER, read_idempotency_key
from parley.wire.rest import RESERVED_TENANTS

EXTENSION_HEADERS: Mapping[Version, str] = {
    Version.V0_1: "x-a2a-extensions",
    Version.V0_2: "x-a2a-extensions",
    Version.V0_3: "x-a2a-extensions",
    Version.V1_0: "a2a-extensions",
}

WEBHOOK_IN_SEND: Mapping[Version, str] = {
    Version.V0_1: "$.pushNotification",
    Version.V0_2: "$.configuration.pushNotificationConfig",
    Version.V0_3: "$.configuration.pushNotificationConfig",
    Version.V1_0: "$.configuration.taskPushNotificationConfig",
}
"""The JSON path of the webhook in a send, for error messages."""


def extension_headers(call: Call) -> tuple[Header, ...]:
    """The header that says which extensions are active, if any."""
    if not call.extensions:
        return ()
    return ((EXTENSION_HEADERS[call.version].encode(), ", ".join(call.extensions).encode()),)


NOTHING = Needs.NOTHING  # Python finds a member of an enum in its class ten times slower than a name of the module

METHODS: Mapping[Operation, str] = {
    ops.SEND_MESSAGE: "send_message",
    ops.GET_TASK: "get_task",
    ops.LIST_TASKS: "list_tasks",
    ops.CANCEL_TASK: "cancel_task",
    ops.CREATE_PUSH_CONFIG: "create_push_config",
    ops.GET_PUSH_CONFIG: "get_push_config",
    ops.LIST_PUSH_CONFIGS: "list_push_configs",
    ops.DELETE_PUSH_CONFIG: "delete_push_config",
}
"""The methods of `Operations` that return one result."""


class Service:
    """An agent, its operations, and the checks on its callers."""

    __slots__ = ("_demands_extensions", "_extensions", "_operations", "agent_id", "cards", "shared")

    def __init__(self, agent: Agent, operations: Operations, cards: Cards, shared: AppResources) -> None:
        self.agent_id = agent.id
        self.cards = cards
        self.shared = shared
        self._operations = operations
        self._extensions = (*agent.extensions, *shared.extensions)
        self._demands_extensions = any(extension.required for extension in agent.extensions)

    async def created_in(self, task_id: str, identity: Identity) -> Version | None:
        """The dialect in which a task was created, if the caller has such a task in its own tenant."""
        return await self._operations.created_in(task_id, caller_of(identity, Version.V0_3, None))

    @property
    def deliveries(self) -> WebhookDeliveries | None:
        """The operations on the deliveries to webhooks; None if another server delivers."""
        return self._operations.deliveries

    def caller_of(self, identity: Identity, tenant: str | None) -> Caller:
        """The caller of an operation beside A2A, in the tenant of its credentials or else the one that it names.

        Raises:
            PermissionDeniedError, InvalidParamsError: the caller may not act for this tenant, or none has this name.
        """
        return caller_of(identity, Version.V1_0, tenant)

    # --- calls --------------------------------------------------------------------------------------------------------

    async def answer(self, call: Call, request: Request) -> Result:
        """Run an operation and return its result.

        Raises:
            A2AError: the call was refused or failed.
        """
        with (
            self._observed(call, request) as observed,
            self.shared.throttle.admit(call.identity.name, call.address),
        ):
            caller = self._admit(call, request)
            request = _with_idempotency_key(request, call)
            if observed is not None:
                observed.show(await self._shown(request, caller))
            if call.operation is ops.GET_EXTENDED_CARD:
                result = await self._extended_card(call, caller)
            else:
                result = await getattr(self._operations, METHODS[call.operation])(request, caller)
            record_task_ids(call, result)
            if self.shared.conversation_observer is not None:
                self.shared.conversation_observer.answered(call, result)
            return result

    async def _extended_card(self, call: Call, caller: Caller) -> AgentCard:
        if self.shared.find_extended_card is None:
            await self.cards.prepare(call.base_url, everything=True)
            return self.cards.card(call.base_url, everything=True)
        return await self.cards.published(await self.shared.find_extended_card(caller), call.base_url)

    def follow(self, call: Call, request: Request) -> CallStream:
        """Run a streaming operation: a stream of its events, after the call's cursor if it has one."""
        start = partial(self._start_stream, call, request)
        return CallStream(call, start, self.shared)

    async def _start_stream(self, call: Call, request: Any, contexts: ExitStack) -> EventStream:
        observed = contexts.enter_context(self._observed(call, request))
        contexts.enter_context(self.shared.throttle.admit_stream(call.identity.name, call.address))
        with self.shared.throttle.admit(call.identity.name, call.address):
            caller = self._admit(call, request)
            request = _with_idempotency_key(request, call)
            if observed is not None:
                observed.show(await self._shown(request, caller))
        begin = self._operations.subscribe_to_task
        if call.operation is ops.SEND_STREAMING_MESSAGE:
            begin = self._operations.send_streaming_message
        return begin(request, caller, after=call.after)

    def refused(self, binding: Binding, error: A2AError) -> None:
        """Report a request that was refused before it was decoded."""
        self.shared.refused(self.agent_id, binding, error)

    def _observed(self, call: Call, request: Request) -> AbstractContextManager[_ObservedCall | None]:
        """A context that reports a call to the observers; without any it costs nothing.

        What it yields, if anything, must be shown the request when the call is admitted.
        """
        if self.shared.conversation_observer is None and self.shared.find_extended_card is None:
            return _NO_OBSERVER if self.shared.observer is None else self.shared.observer.call(call)
        return self._observed_by_all(call, request)

    @contextmanager
    def _observed_by_all(self, call: Call, request: Request) -> Generator[_ObservedCall | None]:
        with ExitStack() as stack:
            observed = None
            if self.shared.observer is not None:
                stack.enter_context(self.shared.observer.call(call))
            if self.shared.conversation_observer is not None:
                observed = stack.enter_context(_ObservedCall(self.shared.conversation_observer, call, request))
            # A remote agent may refuse credentials that this server has only forwarded.
            if self.shared.find_extended_card is not None:
                stack.enter_context(self.shared.counting_refusals(call.address))
            yield observed

    async def _shown(self, request: Request, caller: Caller) -> Request:
        """An admitted request as observers see it: without a credential, and without an answer that may be one."""
        if not isinstance(request, SendMessageRequest) or request.message.task_id is None:
            return _shown_of(request, is_masked=False)
        try:
            is_answer = await self._operations.answers_demand(request, caller)
        except A2AError:  # it is not known; the call will find the same
            is_answer = True
        return _shown_of(request, is_masked=is_answer)

    def _admit(self, call: Call, request: Any) -> Caller:
        """Check a call and return its caller. Raises A2AError if the call is refused."""
        if "a2a-extensions" in call.headers or "x-a2a-extensions" in call.headers or self._demands_extensions:
            requested = read_extensions(
                call.headers[name] for name in ("a2a-extensions", "x-a2a-extensions") if name in call.headers
            )
            call.extensions = activate_extensions(self._extensions, requested)
        self._check_capability(call)
        self._check_lengths(request, call.version)
        call.task_id = getattr(request, "task_id", None)
        if isinstance(request, SendMessageRequest):
            self._check_push_config(request.configuration.push_config, WEBHOOK_IN_SEND[call.version], call.version)
            call.task_id, call.context_id = request.message.task_id, request.message.context_id
        elif isinstance(request, CreatePushConfigRequest):
            path = "$" if call.version is Version.V1_0 else "$.pushNotificationConfig"
            self._check_push_config(request.config, path, call.version)
        call.caller = caller = caller_of(call.identity, call.version, request.tenant)
        return caller

    def _check_lengths(self, request: Any, version: Version) -> None:
        """Refuse long ids, which every event repeats, and messages with too many parts."""
        limits = self.shared.limits
        if isinstance(request, SendMessageRequest):
            message, config = request.message, request.configuration.push_config
            if len(message.parts) > limits.parts:
                raise InvalidParamsError(f"A message may have up to {limits.parts} parts", path="$.message.parts")
            is_0_1 = version is Version.V0_1
            names = (
                ("tenant", "$.tenant", request.tenant),
                ("task id", "$.id" if is_0_1 else "$.message.taskId", message.task_id),
                ("context id", "$.sessionId" if is_0_1 else "$.message.contextId", message.context_id),
                ("message id", "$.message.messageId", message.message_id),
            )
        else:
            config = getattr(request, "config", None)
            names = (
                ("tenant", "$.tenant", request.tenant),
                ("task id", "$.id", getattr(request, "task_id", None)),
                ("context id", "$.contextId", getattr(request, "context_id", None)),
                ("webhook id", "$.id", getattr(request, "id", None)),
            )
        if config is not None:
            names = (*names, ("webhook id", "$.pushNotificationConfig.id", config.id))
        for name, path, value in names:
            if value and len(value) > limits.id_characters:
                raise InvalidParamsError(f"The {name} may have up to {limits.id_characters} characters", path=path)

    def _check_capability(self, call: Call) -> None:
        """Refuse what the card does not declare."""
        needs = call.operation.needs
        if needs is NOTHING:
            return
        match needs:
            case Needs.STREAMING if not self.cards.has_streaming:
                raise UnsupportedOperationError("The agent does not stream; send without streaming")
            case Needs.PUSH if not self.cards.has_push:
                raise PushNotificationNotSupportedError
            case Needs.EXTENDED_CARD if not self.cards.has_extended:
                if call.version is Version.V0_3:  # 0.3 has no other error for it
                    raise ExtendedCardNotConfiguredError
                raise UnsupportedOperationError("The agent has no extended card")
            case Needs.EXTENDED_CARD if self.shared.security is not None and not call.identity.name:
                # 1.0 section 3.1.11: even where anonymous callers may send messages
                raise self.shared.security.authentication_required()
            case _:
                pass

    def _check_push_config(self, config: PushConfig | None, path: str, version: Version) -> None:
        if config is None:
            return
        if self.shared.check_webhook is None or not self.cards.has_push:
            raise PushNotificationNotSupportedError
        self.shared.check_webhook(config, path, version)


def _with_idempotency_key(request: Request, call: Call) -> Request:
    """A send with the key that came in its header. Raises InvalidParamsError if the key is too long or odd."""
    if HEADER not in call.headers or not isinstance(request, SendMessageRequest):
        return request
    return structs.replace(request, idempotency_key=read_idempotency_key(call.headers[HEADER]))


_NO_OBSERVER = nullcontext()  # shared: it has no state


class _ObservedCall:
    """A context that reports a call to an observer of conversations: its request, once, and its failure.

    If the call is refused before `show`, a message for a task is reported with masks: nothing is read to find out
    whether it answers a demand for authorization.
    """

    __slots__ = ("_call", "_observer", "_request")

    def __init__(self, observer: ConversationObserver, call: Call, request: Request) -> None:
        self._observer = observer
        self._call = call
        self._request: Request | None = request

    def __enter__(self) -> _ObservedCall:
        return self

    def show(self, request: Request) -> None:
        """Report the request as it may be shown."""
        self._request = None
        self._observer.requested(self._call, request)

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        if not isinstance(exc, Exception):
            return
        if self._request is not None:
            self.show(_shown_of(self._request, is_masked=True))
        self._observer.failed(self._call, exc)


def _shown_of(request: Request, *, is_masked: bool) -> Request:
    """A request without a credential in its message's metadata; if `is_masked`, with masks in a message for a task."""
    if not isinstance(request, SendMessageRequest):
        return request
    message = without_credential(request.message)
    if is_masked and message.task_id is not None:
        message = masked_answer(message)
    return request if message is request.message else structs.replace(request, message=message)


def caller_of(identity: Identity, version: Version, tenant: str | None) -> Caller:
    """The caller, in the tenant of its credentials or else the tenant that the request names."""
    if identity.tenant is not None:
        if tenant and tenant != identity.tenant:
            raise PermissionDeniedError("The caller may not act for this tenant")
        tenant = identity.tenant
    if tenant in RESERVED_TENANTS:
        raise InvalidParamsError(f"Invalid tenant: {tenant!r} is reserved", path="$.tenant")
    return Caller(identity.name, tenant or "", identity.scopes, identity.claims, version)
