"""Makes the calls of one agent: over the best interface that works, with credentials, and again where that is safe.

What is safe: whatever never left this side; whatever the agent refused for now (429, or 503 with Retry-After); reading,
listing, subscribing, deleting; and a send to an agent that says it takes the same message once, while it remembers the
message. All else is tried once, because nobody can tell whether it arrived. Credentials that were made for one
interface never go to another. Spec: 1.0 sections 3.3.1 and 8.3.
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
    VersionNotSupportedError,
)
from parley.protocol.extensions import CURSOR, IDEMPOTENT_SEND
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result, SendMessageRequest
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

R = TypeVar("R")

LONGEST_RETRY_AFTER = 60.0
"""Seconds. An agent that asks for more patience is not waited for; the caller gets its error."""

REMEMBERED_SECONDS = 600.0
"""How long an agent that takes a message once remembers it, unless its card says so: Parley's own default."""

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


COME_BACK_SECONDS = 300.0
"""After which an interface that was left is tried again. One that swallows connections costs a call some seconds."""


class Authenticator(Protocol):
    """What proves who the caller is. Credentials go to the interface's own origin and nowhere else."""

    async def apply(self, options: CallOptions, interface: AgentInterface) -> CallOptions:
        """The same request with credentials."""
        ...

    async def renew(self, error: UnauthenticatedError | PermissionDeniedError) -> bool:
        """Try to get better credentials after a refusal; whether there are any."""
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
"""Called before each attempt with what is about to be sent; what it returns is sent instead."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a caller wants, however many attempts it takes. `new_task` is the name of a task that 0.1 would begin."""

    operation: Operation
    request: Request
    new_task: str | None = None
    after: str | None = None


@dataclass(slots=True)
class Calls:
    """The calls of one agent. `interfaces` are tried in order; the first that can be reached stays for a while."""

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
    _left_at: float = 0.0

    # --- what is asked ------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        """The way to the interface that is in use. Raises LocalProtocolError once all is closed."""
        return self._transport(self._current)

    def _transport(self, place: int) -> Transport:
        if self.is_closed:
            raise LocalProtocolError("The client is closed: use it within its `async with`")
        transport = self._transports.get(place)
        if transport is None:
            transport = self._transports[place] = self.connect(*self.interfaces[place])
        return transport

    async def call(self, operation: Operation, request: Request) -> Result:
        """Ask, and ask again where that is safe. Raises what the last attempt raised."""
        asked = _Asked(operation, request, self._new_task(request))
        return await self._persist(operation, lambda place: self._call_once(asked, place))

    async def stream(
        self, operation: Operation, request: Request, *, after: str | None = None
    ) -> AsyncGenerator[ReceivedEvent]:
        """Ask for a stream, again where that is safe until it begins; what breaks later is raised."""
        asked = _Asked(operation, request, self._new_task(request), after)

        async def begin(place: int) -> tuple[AsyncGenerator[ReceivedEvent], ReceivedEvent | None]:
            transport, attempt = await self._prepare(asked, place)
            events = transport.stream(attempt.operation, attempt.request, attempt.options)
            try:
                first = await anext(events, None)
                if first is None and after is None:
                    raise UnreachableError("The stream ended before its first event")
                return events, first
            except BaseException:
                await events.aclose()
                raise

        events, first = await self._persist(operation, begin)
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
        """Close all connections; nothing can be called any more."""
        self.is_closed = True
        for transport in self._transports.values():
            await transport.close()

    # --- one attempt --------------------------------------------------------------------------------------------------

    async def _call_once(self, asked: _Asked, place: int) -> Result:
        transport, attempt = await self._prepare(asked, place)
        result = await transport.call(attempt.operation, attempt.request, attempt.options)
        task_id = getattr(attempt.request, "task_id", None)
        if task_id is not None and isinstance(result, Task) and result.id != task_id:
            raise PeerProtocolError(f"The agent answers with another task: {result.id[:50]}")
        return result

    async def _prepare(self, asked: _Asked, place: int) -> tuple[Transport, Attempt]:
        """What is sent, and over what."""
        transport, operation = self._transport(place), asked.operation
        headers = self._headers(transport, operation)
        options = CallOptions(headers, {}, self._patience(operation), self.timeouts.quiet, asked.after)
        if self.authenticator is not None:
            options = await self.authenticator.apply(options, transport.interface)
        request = _naming_task(self._addressed(asked.request, transport), asked.new_task, transport.version)
        attempt = Attempt(operation, request, options, transport.interface, transport.version)
        for intercept in self.interceptors:
            attempt = await intercept(attempt)
        return transport, attempt

    def _patience(self, operation: Operation) -> float:
        """How many seconds a reply may take: longer where somebody works for it."""
        is_read = operation in ALWAYS_SAFE and not operation.streams
        return min(self.timeouts.read, self.timeouts.reply) if is_read else self.timeouts.reply

    def _new_task(self, request: Request) -> str | None:
        """A name for the task that a send may begin, the same for all its attempts, if one may go to 0.1."""
        is_send = isinstance(request, SendMessageRequest)
        return str(uuid4()) if is_send and any(version is Version.V0_1 for _, version in self.interfaces) else None

    def _addressed(self, request: Any, transport: Transport) -> Any:
        """The request with the tenant of the interface, unless the caller has chosen one of its own."""
        if request.tenant is not None and all(request.tenant != face.tenant for face, _ in self.interfaces):
            return request
        return structs.replace(request, tenant=transport.interface.tenant)

    def _headers(self, transport: Transport, operation: Operation) -> dict[str, str]:
        headers: dict[str, str] = {}
        propagate.inject(headers)  # the trace that the caller is in, if it is in one
        is_1_0 = transport.version is Version.V1_0
        if transport.version is not Version.V0_3:
            # Who says nothing speaks 0.3. Before that nobody knew the header, but some methods of today's servers exist
            # in several dialects.
            headers["a2a-version"] = transport.version.value
        extensions = list(self.extensions)
        if operation.streams and transport.interface.binding == Binding.GRPC and self.declares(CURSOR):
            extensions.append(CURSOR)  # over HTTP the number is in the frame, unasked
        if extensions:
            headers["a2a-extensions" if is_1_0 else "x-a2a-extensions"] = ", ".join(dict.fromkeys(extensions))
        return headers

    # --- and again ----------------------------------------------------------------------------------------------------

    async def _persist(self, operation: Operation, attempt: Callable[[int], Awaitable[R]]) -> R:
        """What an attempt gives, over whichever interface it takes."""
        pause = self.retries.first_pause
        has_renewed = False
        attempts = unreached = 0
        begun = self.clock()
        bound: int | None = None  # where a send may have arrived: only there is it known for the same
        aside = 0  # how far from the interface in use, which broke twice on this call and may be well for others
        first: Exception | None = None  # why the interface in use is of no use; what is wrong with the others says less
        self._come_back(begun)
        while True:
            place = (self._current + aside) % len(self.interfaces) if bound is None else bound
            try:
                return await attempt(place)
            except (UnauthenticatedError, PermissionDeniedError) as error:
                if has_renewed or self.authenticator is None or not await self.authenticator.renew(error):
                    raise
                has_renewed = True
                continue
            except (ClientError, A2AError) as error:
                is_of_no_use = bound is None and _is_of_no_use(error)
                if is_of_no_use:
                    first = first or error
                    if aside:
                        aside += 1
                    else:
                        self._leave(place)
                    unreached += 1
                    if unreached < len(self.interfaces):
                        continue
                attempts += 1
                unreached = 0
                asked = retry_after_of(error)
                has_no_more = attempts >= self.retries.attempts or asked > LONGEST_RETRY_AFTER
                seconds = self.clock() - begun + asked
                is_forgotten = bound is not None and not self._takes_message_once(operation, seconds)
                if has_no_more or is_forgotten or not self._may_repeat(operation, error, seconds):
                    reason = (first or error) if is_of_no_use else error
                    raise reason from reason.__cause__
                first = None
                if _may_have_arrived(error):
                    if operation not in ALWAYS_SAFE:
                        bound = place
                    elif attempts > 1:
                        aside += 1
            await self.sleep(max(asked, pause * random.uniform(0.5, 1.0)))
            pause = min(pause * 2, self.retries.longest_pause)

    def _leave(self, place: int) -> None:
        """Take the next interface for now, unless another call has left this one already."""
        if self._current == place:
            self._current = (place + 1) % len(self.interfaces)
            self._left_at = self.clock()

    def _come_back(self, now: float) -> None:
        """Try the best interface again, if it was left a while ago: the others may offer less."""
        if self._current != 0 and now - self._left_at > COME_BACK_SECONDS:
            self._current = 0

    def _may_repeat(self, operation: Operation, error: Exception, seconds: float) -> bool:
        """Whether another attempt is safe so many seconds after the first."""
        if isinstance(error, RateLimitedError):
            return True  # it was refused, so nothing has happened
        is_safe = operation in ALWAYS_SAFE or self._takes_message_once(operation, seconds)
        # Proxies say 503 also of a request that has arrived and whose answer was lost, but not when to come back.
        return isinstance(error, UnavailableError | UnreachableError) and (is_safe or not _may_have_arrived(error))

    def _takes_message_once(self, operation: Operation, seconds: float) -> bool:
        """Whether the agent says that it takes the same message once, and still remembers the one that it may have."""
        declared = self._declared(IDEMPOTENT_SEND)
        if declared is None or operation not in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE):
            return False
        remembered = declared.params.get("seconds", REMEMBERED_SECONDS)
        if not isinstance(remembered, int | float):
            return False
        # The next attempt takes its time to get there.
        return seconds + self.retries.longest_pause + self.timeouts.connect < remembered


def _is_of_no_use(error: Exception) -> bool:
    """Whether an interface cannot be called, so that nothing has happened there."""
    is_unreachable = isinstance(error, UnreachableError) and not error.was_sent
    return is_unreachable or isinstance(error, ForbiddenTargetError | VersionNotSupportedError)


def _may_have_arrived(error: Exception) -> bool:
    """Whether the agent may have got what was sent, although it did not answer."""
    if isinstance(error, UnavailableError):
        return retry_after_of(error) == 0
    return isinstance(error, UnreachableError) and error.was_sent


def _naming_task(request: Any, new_task: str | None, version: Version) -> Any:
    """The request as the dialect has it: in 0.1 callers name their tasks; to others such a name is unknown."""
    if version is not Version.V0_1 or not isinstance(request, SendMessageRequest):
        return request
    message = structs.replace(request.message, task_id=request.message.task_id or new_task)
    return structs.replace(request, message=message, caller_names_task=True)
