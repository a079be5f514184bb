"""One agent being served: who may ask what of it, whatever binding the question came by.

Every binding decodes a request, calls `answer` or `follow` here, and encodes what comes back. The order of the gates is
the same everywhere: address, credentials, rate, extensions, capabilities, tenant, and then the engine. Nothing is
looked up before the caller is known, and what the caller may not see does not exist. Bindings authenticate before they
read a body; the other gates come when the request is understood.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, aclosing, contextmanager, nullcontext
from typing import Any

from parley.engine.caller import Caller
from parley.engine.views import Batch
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCard, AgentExtension, Binding
from parley.protocol.errors import (
    A2AError,
    ExtendedCardNotConfiguredError,
    InvalidParamsError,
    PermissionDeniedError,
    PushNotificationNotSupportedError,
    UnauthenticatedError,
    UnsupportedOperationError,
)
from parley.protocol.negotiation import activate_extensions, read_extensions
from parley.protocol.operations import Needs, Operation
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest, Request, Result, SendMessageRequest
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.server.bindings.cursor import CURSOR, add_cursors
from parley.server.bindings.failures import Header
from parley.server.contracts import Doorkeeper, Operations, Tap
from parley.server.limits import ServerLimits
from parley.server.pages.cards import Cards
from parley.server.security.credentials import ANONYMOUS, Credentials, Identity
from parley.server.security.requirements import was_refused
from parley.server.security.throttle import Throttle
from parley.server.telemetry.observer import Call, Observer
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
"""Where a send has its webhook, for errors that must name the place."""


def extension_headers(call: Call) -> tuple[Header, ...]:
    """The header that says which extensions are active, if any."""
    if not call.extensions:
        return ()
    return ((EXTENSION_HEADERS[call.version].encode(), ", ".join(call.extensions).encode()),)


CheckWebhook = Callable[[PushConfig, str], None]
"""Raises InvalidParamsError for a webhook that is not to be called; the text is the JSON path to it."""

FindExtendedCard = Callable[[Caller], Awaitable[AgentCard]]
"""The card that an agent elsewhere shows to a caller."""


class Service:
    """An agent, its engine, and the rules for its callers."""

    def __init__(
        self,
        engine: Operations,
        cards: Cards,
        *,
        security: Doorkeeper | None,
        throttle: Throttle,
        limits: ServerLimits,
        extensions: tuple[AgentExtension, ...] = (),
        observer: Observer | None = None,
        check_webhook: CheckWebhook | None = None,
        find_extended_card: FindExtendedCard | None = None,
        tap: Tap | None = None,
    ) -> None:
        """`find_extended_card` is for agents elsewhere; `tap` listens to everything that is said."""
        self.engine = engine
        self.cards = cards
        self.limits = limits
        self.agent_id = engine.program.id
        self._security = security
        self._throttle = throttle
        self._extensions = (*extensions, *cards.extensions)
        self._demands_extensions = any(extension.required for extension in extensions)
        self._observer = observer
        self._check_webhook = check_webhook
        self._find_extended_card = find_extended_card
        self._is_elsewhere = find_extended_card is not None
        self._tap = tap
        self._verbs: dict[Operation, Callable[[Any, Caller], Awaitable[Result]]] = {
            ops.SEND_MESSAGE: engine.send_message,
            ops.GET_TASK: engine.get_task,
            ops.LIST_TASKS: engine.list_tasks,
            ops.CANCEL_TASK: engine.cancel_task,
            ops.CREATE_PUSH_CONFIG: engine.webhooks.create_push_config,
            ops.GET_PUSH_CONFIG: engine.webhooks.get_push_config,
            ops.LIST_PUSH_CONFIGS: engine.webhooks.list_push_configs,
            ops.DELETE_PUSH_CONFIG: engine.webhooks.delete_push_config,
        }

    # --- who asks -----------------------------------------------------------------------------------------------------

    async def authenticate(self, credentials: Callable[[], Credentials], address: str) -> Identity:
        """Who asks.

        Raises:
            UnauthenticatedError, PermissionDeniedError: the credentials are missing, bad or not enough.
            RateLimitedError: too many credentials from this address were bad.
            UnavailableError: they cannot be checked now.
        """
        if self._security is None:
            return ANONYMOUS
        self._throttle.check_address(address)
        with self._guesses_counted(address):
            return await self._security.authenticate(credentials())

    @contextmanager
    def _guesses_counted(self, address: str) -> Generator[None]:
        """Credentials that are refused count against the address that brought them."""
        try:
            yield
        except UnauthenticatedError as error:
            if was_refused(error):
                self._throttle.refuse(address)
            raise

    async def created_in(self, task_id: str, identity: Identity) -> Version | None:
        """The dialect in which a task was created, if the caller has such a task in its own tenant."""
        return await self.engine.created_in(task_id, _caller(identity, Version.V0_3, None))

    # --- what is asked ------------------------------------------------------------------------------------------------

    async def answer(self, call: Call, request: Request) -> Result:
        """Do what is asked once, and give the result.

        Raises:
            A2AError: the reason why not.
        """
        with self._watched(call, request), self._throttle.admit(call.identity.name, call.address):
            caller = self._admit(call, request)
            if call.operation is ops.GET_EXTENDED_CARD:
                result = await self._extended_card(call, caller)
            else:
                result = await self._verbs[call.operation](request, caller)
            _name_task(call, result)
            if self._tap is not None:
                self._tap.answered(call, result)
            return result

    async def _extended_card(self, call: Call, caller: Caller) -> AgentCard:
        if self._find_extended_card is None:
            return self.cards.card(call.base_url, everything=True)
        return self.cards.published(await self._find_extended_card(caller), call.base_url)

    async def follow(self, call: Call, request: Any) -> AsyncGenerator[Batch]:
        """Do what is asked and give the events that come of it, from the call's cursor on where it has one.

        Raises:
            A2AError: the reason why not, before the first event; or why the stream was cut.
        """
        with self._watched(call, request), self._throttle.admit_stream(call.identity.name, call.address):
            with self._throttle.admit(call.identity.name, call.address):
                caller = self._admit(call, request)
            begin = self.engine.subscribe_to_task
            if call.operation is ops.SEND_STREAMING_MESSAGE:
                begin = self.engine.send_streaming_message
            async with aclosing(begin(request, caller, after=call.after)) as batches:
                del request  # a message may be large, and its stream long
                batch = await anext(batches, None)
                if batch is None:
                    return
                _name_task(call, batch[0][1])
                marks = CURSOR.uri in call.extensions
                with self._observer.stream(call) if self._observer else _UNWATCHED:
                    while batch is not None:
                        self._tell(call, batch)
                        if marks:
                            add_cursors(batch)
                        yield batch
                        batch = await anext(batches, None)

    def refused(self, binding: Binding, error: A2AError) -> None:
        """Tell who watches of a request that was refused before it was understood."""
        if self._observer is not None:
            self._observer.refused(self.agent_id, binding, error)
        if self._tap is not None:
            self._tap.refused(binding, error)

    def _watched(self, call: Call, request: Request) -> AbstractContextManager[None]:
        """A block around a call, for all who want to know of it; it costs nothing where nobody does."""
        if self._tap is None and not self._is_elsewhere:
            return _UNWATCHED if self._observer is None else self._observer.call(call)
        return self._watched_by_all(call, request)

    @contextmanager
    def _watched_by_all(self, call: Call, request: Request) -> Generator[None]:
        with ExitStack() as stack:
            if self._observer is not None:
                stack.enter_context(self._observer.call(call))
            if self._tap is not None:
                stack.enter_context(_listening(self._tap, call, request))
            if self._is_elsewhere:  # such an agent may refuse the credentials that the door has let pass
                stack.enter_context(self._guesses_counted(call.address))
            yield

    def _tell(self, call: Call, batch: Batch) -> None:
        if self._tap is not None:
            for _, event in batch:
                self._tap.told(call, event)

    def _admit(self, call: Call, request: Any) -> Caller:
        """The caller, if it may ask this here and now."""
        if "a2a-extensions" in call.headers or "x-a2a-extensions" in call.headers or self._demands_extensions:
            requested = read_extensions(
                call.headers[name] for name in ("a2a-extensions", "x-a2a-extensions") if name in call.headers
            )
            call.extensions = activate_extensions(self._extensions, requested)
        self._check_capability(call)
        self._check_lengths(request, call.version)
        call.task_id = getattr(request, "task_id", None)
        if isinstance(request, SendMessageRequest):
            self._check_webhook_of(request.configuration.push_config, WEBHOOK_IN_SEND[call.version])
            call.task_id, call.context_id = request.message.task_id, request.message.context_id
        elif isinstance(request, CreatePushConfigRequest):
            self._check_webhook_of(request.config, "$" if call.version is Version.V1_0 else "$.pushNotificationConfig")
        call.caller = caller = _caller(call.identity, call.version, request.tenant)
        return caller

    def _check_lengths(self, request: Any, version: Version) -> None:
        """Refuse names that would make every event long, and messages of too many parts."""
        names = [
            ("tenant", "$.tenant", request.tenant),
            ("task's id", "$.id", getattr(request, "task_id", None)),
            ("context's id", "$.contextId", getattr(request, "context_id", None)),
            ("webhook's id", "$.id", getattr(request, "id", None)),
        ]
        config = getattr(request, "config", None)
        if isinstance(request, SendMessageRequest):
            message, config = request.message, request.configuration.push_config
            if len(message.parts) > self.limits.parts:
                raise InvalidParamsError(f"A message may have {self.limits.parts} parts", path="$.message.parts")
            is_0_1 = version is Version.V0_1
            names.append(("task's id", "$.id" if is_0_1 else "$.message.taskId", message.task_id))
            names.append(("context's id", "$.sessionId" if is_0_1 else "$.message.contextId", message.context_id))
            names.append(("message's id", "$.message.messageId", message.message_id))
        if config is not None:
            names.append(("webhook's id", "$.pushNotificationConfig.id", config.id))
        for name, path, value in names:
            if value and len(value) > self.limits.id_bytes:
                raise InvalidParamsError(f"The {name} may have {self.limits.id_bytes} characters", path=path)

    def _check_capability(self, call: Call) -> None:
        """Refuse what the card does not declare."""
        match call.operation.needs:
            case Needs.STREAMING if not self.cards.has_streaming:
                raise UnsupportedOperationError("The agent does not stream; send without streaming")
            case Needs.PUSH if not self.cards.has_push:
                raise PushNotificationNotSupportedError
            case Needs.EXTENDED_CARD if not self.cards.has_extended:
                if call.version is Version.V0_3:  # which has no other word for it
                    raise ExtendedCardNotConfiguredError
                raise UnsupportedOperationError("The agent has no extended card")
            case Needs.EXTENDED_CARD if self._security is not None and not call.identity.name:
                raise self._security.demand()  # 1.0 section 3.1.11: also where strangers may send messages
            case _:
                pass

    def _check_webhook_of(self, config: PushConfig | None, path: str) -> None:
        if config is None:
            return
        if not self.cards.has_push:
            raise PushNotificationNotSupportedError
        if self._check_webhook is not None:
            self._check_webhook(config, path)


_UNWATCHED = nullcontext()  # one for all: it holds nothing


@contextmanager
def _listening(tap: Tap, call: Call, request: Request) -> Generator[None]:
    tap.asked(call, request)
    try:
        yield
    except Exception as error:
        tap.failed(call, error)
        raise


def _name_task(call: Call, result: object) -> None:
    if isinstance(result, Task):
        call.task_id, call.context_id = result.id, result.context_id


def _caller(identity: Identity, version: Version, tenant: str | None) -> Caller:
    """The caller within the tenant it names, or the one its credentials bind it to."""
    if identity.tenant is not None:
        if tenant and tenant != identity.tenant:
            raise PermissionDeniedError("The caller may not act for this tenant")
        tenant = identity.tenant
    if tenant in RESERVED_TENANTS:
        raise InvalidParamsError(f"No tenant can be called {tenant!r}", path="$.tenant")
    return Caller(identity.name, tenant or "", identity.scopes, identity.claims, version)


def cursor_in(headers: Mapping[str, str]) -> int | None:
    """The number of the last event that the caller has got, if it says so.

    Raises:
        InvalidParamsError: it is no number of an event.
    """
    text = headers.get("last-event-id", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 15:
        return int(text)
    raise InvalidParamsError("Last-Event-ID must be the id of an event of this task")
