"""Makes the calls of one agent: over the best interface that works, with credentials, and again where that is safe.

What is safe: whatever never left this side; whatever the agent refused for now (429, or 503 with Retry-After); reading,
listing, subscribing, deleting; and a send to an agent that says it takes the same message once. All else is tried once,
because nobody can tell whether it arrived. Credentials that were made for one interface never go to another. Spec: 1.0
sections 3.3.1 and 8.3.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from msgspec import structs
from opentelemetry import propagate

from parley.client.errors import ClientError, ForbiddenTargetError, UnreachableError
from parley.client.http import retry_after_of
from parley.client.options import Retries, Timeouts
from parley.client.transport import Received, Sent, Transport
from parley.protocol import operations as ops
from parley.protocol.cards import AgentCard, AgentInterface, Binding
from parley.protocol.errors import (
    A2AError,
    PeerProtocolError,
    RateLimitedError,
    UnauthenticatedError,
    UnavailableError,
    VersionNotSupportedError,
)
from parley.protocol.extensions import CURSOR, IDEMPOTENT_SEND
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.tasks import Task
from parley.protocol.versions import Version

R = TypeVar("R")

LONGEST_RETRY_AFTER = 60.0
"""Seconds. An agent that asks for more patience is not waited for; the caller gets its error."""

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


class Authenticator(Protocol):
    """What proves who the caller is. Credentials go to the interface's own origin and nowhere else."""

    async def apply(self, sent: Sent, interface: AgentInterface) -> Sent:
        """The same request with credentials."""
        ...

    async def renew(self, error: UnauthenticatedError) -> bool:
        """Try to get better credentials after a refusal; whether there are any."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """One attempt, as an interceptor sees it: it may change what is sent, and look at what comes back."""

    operation: Operation
    request: Request
    sent: Sent
    interface: AgentInterface
    version: Version


Interceptor = Callable[[Step], Awaitable[Step]]
"""Called before each attempt with what is about to be sent; what it returns is sent instead."""


@dataclass(slots=True)
class Calls:
    """The calls of one agent. `interfaces` are tried in order; the first that can be reached stays."""

    card: AgentCard
    interfaces: Sequence[tuple[AgentInterface, Version]]
    connect: Callable[[AgentInterface, Version], Transport]
    authenticator: Authenticator | None = None
    interceptors: Sequence[Interceptor] = ()
    extensions: Sequence[str] = ()
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _transports: dict[int, Transport] = field(default_factory=dict[int, Transport])
    _current: int = 0

    # --- what is asked ------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        """The way to the interface that is in use."""
        transport = self._transports.get(self._current)
        if transport is None:
            transport = self._transports[self._current] = self.connect(*self.interfaces[self._current])
        return transport

    async def call(self, operation: Operation, request: Request) -> Result:
        """Ask, and ask again where that is safe. Raises what the last attempt raised."""
        return await self._persist(operation, lambda: self._call_once(operation, request))

    async def stream(
        self, operation: Operation, request: Request, *, after: str | None = None
    ) -> AsyncGenerator[Received]:
        """Ask for a stream, again where that is safe until it begins; what breaks later is raised."""

        async def begin() -> tuple[AsyncGenerator[Received], Received | None]:
            transport, step = await self._prepare(operation, request, after)
            events = transport.stream(step.operation, step.request, step.sent)
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
        return any(extension.uri == uri for extension in self.card.capabilities.extensions)

    async def close(self) -> None:
        """Close all connections."""
        for transport in self._transports.values():
            await transport.close()

    # --- one attempt --------------------------------------------------------------------------------------------------

    async def _call_once(self, operation: Operation, request: Request) -> Result:
        transport, step = await self._prepare(operation, request, None)
        result = await transport.call(step.operation, step.request, step.sent)
        asked = getattr(step.request, "task_id", None)
        if asked is not None and isinstance(result, Task) and result.id != asked:
            raise PeerProtocolError(f"The agent answers with another task: {result.id[:50]}")
        return result

    async def _prepare(self, operation: Operation, request: Request, after: str | None) -> tuple[Transport, Step]:
        """What is sent, and over what: another call may choose another interface meanwhile."""
        transport = self.transport
        headers = self._headers(transport, operation)
        sent = Sent(headers, {}, self.timeouts.reply, self.timeouts.quiet, after)
        if self.authenticator is not None:
            sent = await self.authenticator.apply(sent, transport.interface)
        step = Step(operation, self._addressed(request, transport), sent, transport.interface, transport.version)
        for intercept in self.interceptors:
            step = await intercept(step)
        return transport, step

    def _addressed(self, request: Any, transport: Transport) -> Any:
        """The request with the tenant of the interface, unless the caller has chosen one of its own."""
        if request.tenant is not None and all(request.tenant != face.tenant for face, _ in self.interfaces):
            return request
        return structs.replace(request, tenant=transport.interface.tenant)

    def _headers(self, transport: Transport, operation: Operation) -> dict[str, str]:
        headers: dict[str, str] = {}
        propagate.inject(headers)  # the trace that the caller is in, if it is in one
        is_1_0 = transport.version is Version.V1_0
        if is_1_0:
            headers["a2a-version"] = transport.version.value
        extensions = list(self.extensions)
        if operation.streams and transport.interface.binding == Binding.GRPC and self.declares(CURSOR):
            extensions.append(CURSOR)  # over HTTP the number is in the frame, unasked
        if extensions:
            headers["a2a-extensions" if is_1_0 else "x-a2a-extensions"] = ", ".join(dict.fromkeys(extensions))
        return headers

    # --- and again ----------------------------------------------------------------------------------------------------

    async def _persist(self, operation: Operation, attempt: Callable[[], Awaitable[R]]) -> R:
        pause = self.retries.first_pause
        has_renewed = False
        attempts = unreached = 0
        while True:
            used = self._current
            try:
                return await attempt()
            except UnauthenticatedError as error:
                if has_renewed or self.authenticator is None or not await self.authenticator.renew(error):
                    raise
                has_renewed = True
                continue
            except (ClientError, A2AError) as error:
                if self._leaves(used, error):
                    unreached += 1
                    if unreached < len(self.interfaces):
                        continue
                attempts += 1
                unreached = 0
                asked = retry_after_of(error)
                has_no_more = attempts >= self.retries.attempts or asked > LONGEST_RETRY_AFTER
                if has_no_more or not self._may_repeat(operation, error):
                    raise
            await self.sleep(max(asked, pause * random.uniform(0.5, 1.0)))
            pause = min(pause * 2, self.retries.longest_pause)

    def _leaves(self, used: int, error: Exception) -> bool:
        """Whether an interface is of no use, so that the next is taken: nothing has happened there."""
        is_unreachable = isinstance(error, UnreachableError) and not error.was_sent
        if not is_unreachable and not isinstance(error, ForbiddenTargetError | VersionNotSupportedError):
            return False
        if self._current == used:  # or another call has left it already
            self._current = (used + 1) % len(self.interfaces)
        return True

    def _may_repeat(self, operation: Operation, error: Exception) -> bool:
        if isinstance(error, RateLimitedError):
            return True  # it was refused, so nothing has happened
        is_safe = operation in ALWAYS_SAFE or self._takes_messages_once(operation)
        if isinstance(error, UnavailableError):
            # Proxies say the same of a request that has arrived and whose answer was lost, but not when to come back.
            return is_safe or retry_after_of(error) > 0
        return isinstance(error, UnreachableError) and (is_safe or not error.was_sent)

    def _takes_messages_once(self, operation: Operation) -> bool:
        return operation in (ops.SEND_MESSAGE, ops.SEND_STREAMING_MESSAGE) and self.declares(IDEMPOTENT_SEND)
