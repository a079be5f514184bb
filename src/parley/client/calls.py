"""Makes the calls to one agent: over the best interface that works, with credentials, repeated where that is safe.

Safe to repeat are: requests that were not sent; temporary refusals (429, or 503 with Retry-After); reading, listing,
subscribing, deleting; and a send to an agent that handles the same message once, while it remembers the message. All
other calls are made once, because they may have arrived. Credentials for one interface never go to another. Spec: 1.0
sections 3.3.1 and 8.3.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from uuid import uuid4

from msgspec import structs
from opentelemetry import propagate

from parley.client.errors import ClientError, ForbiddenTargetError, UnreachableError
from parley.client.options import Bounds, Retries, Timeouts
from parley.client.transports.http import retry_after_of
from parley.client.transports.transport import CallOptions, ReceivedEvent, Transport
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCard, AgentExtension, AgentInterface, Binding
from parley.protocol.errors import (
    A2AError,
    LocalProtocolError,
    PeerProtocolError,
    PermissionDeniedError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from parley.protocol.extensions import CURSOR, IDEMPOTENT_SEND
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result, SendMessageRequest
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.wire.idempotency_key import HEADER, write_idempotency_key

R = TypeVar("R")

LONGEST_RETRY_AFTER = 60.0
"""Seconds. If the agent asks for a longer pause, the caller gets its error instead."""

REMEMBERED_SECONDS = 600.0
"""How long an agent with idempotent sends remembers a message, unless its card says so: Parley's default."""

ALWAYS_SAFE = frozenset(
    {
        ops.GET_TASK,
        ops.LIST_TASKS,
        ops.SUBSCRIBE_TO_TASK,
        ops.GET_PUSH_CONFIG,
        ops.LIST_PUSH_CONFIGS,
        ops.DELETE_PUSH_CONFIG,
        ops.GET_EXTENDED_CARD,
    }
)


RETURN_SECONDS = 300.0
"""After which the first interface is tried again. If it still does not answer, that costs a call some seconds."""


class Authenticator(Protocol):
    """Adds credentials to requests. They go only to the interface's own origin."""

    async def apply(self, options: CallOptions, interface: AgentInterface) -> CallOptions:
        """The same request with credentials."""
        ...

    async def renew(self, error: UnauthenticatedError | PermissionDeniedError) -> bool:
        """Get other credentials after a refusal. Return True if there are any."""
        ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt, as an interceptor sees it."""

    operation: Operation
    request: Request
    options: CallOptions
    interface: AgentInterface
    version: Version


Interceptor = Callable[[Attempt], Awaitable[Attempt]]
"""Called before each attempt; what it returns is sent instead."""


@dataclass(frozen=True, slots=True)
class _Call:
    """One call, over any number of attempts. `new_task` is the id of the task that a send in 0.1 begins."""

    operation: Operation
    request: Request
    new_task: str | None = None
    after: str | None = None
    on_document: Callable[[bytes], None] | None = None


@dataclass(slots=True)
class Calls:
    """The calls to one agent. `interfaces` are tried in order; the first that works is used for a while."""

    card: AgentCard
    interfaces: Sequence[tuple[AgentInterface, Version]]
    connect: Callable[[AgentInterface, Version], Transport]
    authenticator: Authenticator | None = None
    interceptors: Sequence[Interceptor] = ()
    extensions: Sequence[str] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)
    bounds: Bounds = field(default_factory=Bounds)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    is_closed: bool = False
    _transports: dict[int, Transport] = field(default_factory=dict[int, Transport])
    _current: int = 0
    _switched_at: float = 0.0

    # --- calls --------------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        """The transport in use. Raises LocalProtocolError after `close`."""
        return self._transport(self._current)

    def _transport(self, index: int) -> Transport:
        if self.is_closed:
            raise LocalProtocolError("The client is closed: use it within its `async with`")
        transport = self._transports.get(index)
        if transport is None:
            transport = self._transports[index] = self.connect(*self.interfaces[index])
        return transport

    async def call(
        self, operation: Operation, request: Request, *, on_document: Callable[[bytes], None] | None = None
    ) -> Result:
        """Make a call, and repeat it where that is safe. Raises what the last attempt raised.

        `on_document` gets the JSON of each result as it arrived, if the binding has JSON.
        """
        call = _Call(operation, request, self._new_task(request), on_document=on_document)
        return await self._with_retries(operation, lambda index: self._call_once(call, index))

    async def stream(
        self, operation: Operation, request: Request, *, after: str | None = None
    ) -> AsyncGenerator[ReceivedEvent]:
        """Start a stream, and repeat that where it is safe until the first event. Later errors are raised."""
        call = _Call(operation, request, self._new_task(request), after)

        async def begin(index: int) -> tuple[AsyncGenerator[ReceivedEvent], ReceivedEvent | None]:
            transport, attempt = await self._prepare(call, index)
            events = transport.stream(attempt.operation, attempt.request, attempt.options)
            try:
                first = await anext(events, None)
                if first is None and after is None:
                    raise UnreachableError("The stream ended before its first event")
                return events, first
            except BaseException:
                await events.aclose()
                raise

        events, first = await self._with_retries(operation, begin)
        async with aclosing(events):
            if first is None:
                return
            yield first
            async for received in events:
                yield received

    def declares(self, uri: str) -> bool:
        """Whether the card declares an extension."""
        return self._declared(uri) is not None

    def _declared(self, uri: str) -> AgentExtension | None:
        return next((extension for extension in self.card.capabilities.extensions if extension.uri == uri), None)

    async def close(self) -> None:
        """Close all connections, for good."""
        self.is_closed = True
        for transport in self._transports.values():
            await transport.close()

    # --- one attempt --------------------------------------------------------------------------------------------------

    async def _call_once(self, call: _Call, index: int) -> Result:
        transport, attempt = await self._prepare(call, index)
        result = await transport.call(attempt.operation, attempt.request, attempt.options)
        task_id = getattr(attempt.request, "task_id", None)
        if task_id is not None and isinstance(result, Task) and result.id != task_id:
            raise PeerProtocolError(f"The agent answers with another task: {result.id[:50]}")
        return result

    async def _prepare(self, call: _Call, index: int) -> tuple[Transport, Attempt]:
        """The transport and the request of an attempt."""
        transport, operation = self._transport(index), call.operation
        headers = self._headers(transport, operation)
        request = self._with_tenant(call.request, transport)
        if isinstance(request, SendMessageRequest) and request.idempotency_key is not None:
            headers[HEADER] = write_idempotency_key(request.idempotency_key)
            request = structs.replace(request, idempotency_key=None)  # no dialect has a member for it
        timeout = self._timeout(operation)
        options = CallOptions(headers, {}, timeout, self.timeouts.quiet, call.after, call.on_document)
        if self.authenticator is not None:
            options = await self.authenticator.apply(options, transport.interface)
        request = _with_task_id(request, call.new_task, transport.version)
        attempt = Attempt(operation, request, options, transport.interface, transport.version)
        for intercept in self.interceptors:
            attempt = await intercept(attempt)
        return transport, attempt

    def _timeout(self, operation: Operation) -> float:
        """Seconds that a reply may take: fewer for reads, which start no work."""
        is_read = operation in ALWAYS_SAFE and not operation.streams
        return min(self.timeouts.read, self.timeouts.reply) if is_read else self.timeouts.reply

    def _new_task(self, request: Request) -> str | None:
        """An id for the task that a send may begin, the same for all attempts, if one of them may speak 0.1."""
        is_send = isinstance(request, SendMessageRequest)
        return str(uuid4()) if is_send and any(version is Version.V0_1 for _, version in self.interfaces) else None

    def _with_tenant(self, request: Any, transport: Transport) -> Any:
        """The request with the tenant of the interface, unless the caller chose a tenant itself."""
        if request.tenant is not None and all(request.tenant != interface.tenant for interface, _ in self.interfaces):
            return request
        return structs.replace(request, tenant=transport.interface.tenant)

    def _headers(self, transport: Transport, operation: Operation) -> dict[str, str]:
        headers: dict[str, str] = {}
        propagate.inject(headers)  # the caller's trace, if there is one
        is_1_0 = transport.version is Version.V1_0
        if transport.version is not Version.V0_3:
            # Without the header, servers assume 0.3. Older servers ignore it, but newer ones have methods that exist in
            # several versions.
            headers["a2a-version"] = transport.version.value
        extensions = list(self.extensions)
        if operation.streams and transport.interface.binding == Binding.GRPC and self.declares(CURSOR):
            extensions.append(CURSOR)  # over HTTP the number is always in the frame
        if extensions:
            headers["a2a-extensions" if is_1_0 else "x-a2a-extensions"] = ", ".join(dict.fromkeys(extensions))
        return headers

    # --- retries ------------------------------------------------------------------------------------------------------

    async def _with_retries(self, operation: Operation, attempt: Callable[[int], Awaitable[R]]) -> R:
        """The result of the first successful attempt, over any interface."""
        pause = self.retries.first_pause
        has_renewed = False
        attempts = unusable_count = 0
        begun = self.clock()
        sent_to: int | None = None  # the interface where a send may have arrived: only that one knows it as a repeat
        offset = 0  # offset to the interface in use, if that broke twice for this call; other calls keep it
        first: ClientError | A2AError | None = None  # why the interface in use failed: more useful than later errors
        self._return_to_first(begun)
        while True:
            index = (self._current + offset) % len(self.interfaces) if sent_to is None else sent_to
            try:
                return await attempt(index)
            except (UnauthenticatedError, PermissionDeniedError) as error:
                if has_renewed or self.authenticator is None or not await self.authenticator.renew(error):
                    raise
                has_renewed = True
                continue
            except (ClientError, A2AError) as error:
                # An interface of an older version, tried in the place of one that failed, may lack the operation.
                is_lacking = first is not None and isinstance(error, UnsupportedOperationError)
                is_unusable = sent_to is None and (is_lacking or _is_unusable(error))
                if is_unusable:
                    first = first or error
                    if offset:
                        offset += 1
                    else:
                        self._switch_from(index)
                    unusable_count += 1
                    if unusable_count < len(self.interfaces):
                        continue
                    error = first if is_lacking else error
                attempts += 1
                unusable_count = 0
                retry_after = retry_after_of(error)
                has_no_more = attempts >= self.retries.attempts or retry_after > LONGEST_RETRY_AFTER
                seconds = self.clock() - begun + retry_after
                is_too_late = sent_to is not None and not self._is_idempotent(operation, seconds)
                if has_no_more or is_too_late or not self._may_repeat(operation, error, seconds):
                    reason = (first or error) if is_unusable else error
                    raise reason from reason.__cause__
                first = None
                if _may_have_arrived(error):
                    if operation not in ALWAYS_SAFE:
                        sent_to = index
                    elif attempts > 1:
                        offset += 1
            await self.sleep(max(retry_after, pause * random.uniform(0.5, 1.0)))
            pause = min(pause * 2, self.retries.longest_pause)

    def _switch_from(self, index: int) -> None:
        """Use the next interface for now, unless another call has already switched."""
        if self._current == index:
            self._current = (index + 1) % len(self.interfaces)
            self._switched_at = self.clock()

    def _return_to_first(self, now: float) -> None:
        """Use the first interface again after a while: the others may offer less."""
        if self._current != 0 and now - self._switched_at > RETURN_SECONDS:
            self._current = 0

    def _may_repeat(self, operation: Operation, error: Exception, seconds: float) -> bool:
        """Whether another attempt is safe, `seconds` after the first."""
        if isinstance(error, RateLimitedError):
            return True  # it was refused, so it had no effect
        is_safe = operation in ALWAYS_SAFE or self._is_idempotent(operation, seconds)
        # Gateways also answer 503 when a request arrived and its answer was lost, but then without Retry-After.
        return isinstance(error, UnavailableError | UnreachableError) and (is_safe or not _may_have_arrived(error))

    def _is_idempotent(self, operation: Operation, seconds: float) -> bool:
        return operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE) and self.is_repeat(seconds)

    def is_repeat(self, seconds: float) -> bool:
        """Whether the agent declares idempotent sends, and still remembers a message `seconds` after it was sent."""
        declared = self._declared(IDEMPOTENT_SEND)
        if declared is None:
            return False
        remembered = declared.params.get("seconds", REMEMBERED_SECONDS)
        if not isinstance(remembered, int | float):
            return False
        # The next attempt takes some time to arrive.
        return seconds + self.retries.longest_pause + self.timeouts.connect < remembered


def _is_unusable(error: Exception) -> bool:
    """Whether an interface cannot be called, so that the call had no effect."""
    is_unreachable = isinstance(error, UnreachableError) and not error.was_sent
    return is_unreachable or isinstance(error, ForbiddenTargetError | VersionNotSupportedError)


def _may_have_arrived(error: Exception) -> bool:
    """Whether the request may have arrived, although there is no answer."""
    if isinstance(error, UnavailableError):
        return retry_after_of(error) == 0
    return isinstance(error, UnreachableError) and error.was_sent


def _with_task_id(request: Any, new_task: str | None, version: Version) -> Any:
    """The request for a version: in 0.1 callers choose the ids of tasks; in others such an id would be unknown."""
    if version is not Version.V0_1 or not isinstance(request, SendMessageRequest):
        return request
    message = structs.replace(request.message, task_id=request.message.task_id or new_task)
    return structs.replace(request, message=message, caller_names_task=True)
