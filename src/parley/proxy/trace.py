"""The conversation as it happens, on both sides of a proxy: what each said, in the dialect that it speaks.

Each line belongs to an exchange, which has a number: a caller's request and all that came of it. Between the caller's
request and its answer stand the calls of the agent, translated. What the agent tells by itself, and what goes on of
it, has the number 0. Secrets are masked.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

import msgspec
from msgspec import Struct

from parley.client.transports.transport import CallOptions, ReceivedEvent, Transport
from parley.engine.deliveries import Sender
from parley.engine.notifications import Notification
from parley.protocol.cards import AgentInterface, ApiKeyScheme, Binding, SecurityScheme
from parley.protocol.errors import A2AError, wire_name
from parley.protocol.events import StreamEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version
from parley.proxy.forwarding import brought
from parley.proxy.spelling import show_error, show_event, show_headers, show_request, show_result
from parley.server.telemetry.observer import Call

logger = logging.getLogger(__name__)


class Way(StrEnum):
    """From whom to whom."""

    ASKED = "caller → proxy"
    CALLED = "proxy → agent"
    HEARD = "agent → proxy"
    ANSWERED = "proxy → caller"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of the agent, and how: what a `Call` is on the caller's side."""

    operation: Operation
    version: Version
    binding: Binding | str


class Line(Struct, frozen=True, omit_defaults=True):
    """One thing that was said."""

    time: str
    exchange: int
    way: Way
    kind: str
    operation: str
    version: str
    binding: str
    what: str
    headers: dict[str, str] = {}
    body: JsonValue = None


Write = Callable[[Line], None]
"""Somebody who is told. One that raises OSError or ValueError is told nothing more."""

Clock = Callable[[], datetime]


def json_writer(out: TextIO) -> Write:
    """Writes one JSON object a line."""

    def write(line: Line) -> None:
        out.write(msgspec.json.encode(line).decode() + "\n")
        out.flush()

    return write


class Trace:
    """Tells writers of everything that is said. It is the tap of the server, and listens at the client's transports."""

    def __init__(self, *writers: Write, now: Clock = lambda: datetime.now(UTC)) -> None:
        self._writers = list(writers)
        self._now = now
        self._secrets: set[str] = set()

    def mask(self, schemes: Iterable[SecurityScheme]) -> None:
        """Show no values of the headers that these schemes put keys into."""
        self._secrets.update(scheme.name.lower() for scheme in schemes if isinstance(scheme, ApiKeyScheme))

    # --- the caller's side --------------------------------------------------------------------------------------------

    def requested(self, call: Call, request: Request) -> None:
        """A caller asks."""
        what, body = show_request(call.operation, request, call.version, call.binding)
        self.write(Way.ASKED, "request", call, what, body, call.headers)

    def answered(self, call: Call, result: Result) -> None:
        """It is answered."""
        body = show_result(call.operation, result, call.version, call.binding)
        self.write(Way.ANSWERED, "reply", call, call.operation.name, body)

    def streamed(self, call: Call, event: StreamEvent) -> None:
        """It is told of an event."""
        body = show_event(event, call.version, call.binding)
        self.write(Way.ANSWERED, "event", call, type(event).__name__, body)

    def failed(self, call: Call, error: BaseException) -> None:
        """It is refused."""
        body = show_error(error, call.version, call.binding)
        self.write(Way.ANSWERED, "error", call, _name(error), body)

    def refused(self, binding: Binding, error: A2AError) -> None:
        """A request is refused that was not understood, so nobody knows what it was."""
        body = show_error(error, Version.V1_0, binding)
        self._tell(Line(self._time, brought().number, Way.ANSWERED, "error", "", "?", binding, _name(error), {}, body))

    def delivered(self, notification: Notification) -> None:
        """Its webhook is told of something."""
        self._push(Way.ANSWERED, notification.event, notification.version)

    # --- the agent's side ---------------------------------------------------------------------------------------------

    def listening(
        self, connect: Callable[[AgentInterface, Version], Transport]
    ) -> Callable[[AgentInterface, Version], Transport]:
        """The same way to connect, with an ear on the line."""
        return lambda interface, version: TracedTransport(connect(interface, version), self)

    def notified(self, event: StreamEvent, version: Version) -> None:
        """The agent tells the proxy's webhook of something."""
        self._push(Way.HEARD, event, version)

    def _push(self, way: Way, event: StreamEvent, version: Version) -> None:
        body = show_event(event, version, Binding.JSONRPC)
        self._tell(Line(self._time, 0, way, "push", "", version, "webhook", type(event).__name__, {}, body))

    def write(
        self, way: Way, kind: str, asked: Call | Asked, what: str, body: JsonValue, headers: Mapping[str, str] = {}
    ) -> None:
        """Tell the writers of one thing."""
        shown = show_headers(headers, self._secrets)
        number, name = brought().number, asked.operation.name
        self._tell(Line(self._time, number, way, kind, name, asked.version, str(asked.binding), what, shown, body))

    @property
    def _time(self) -> str:
        return self._now().isoformat(timespec="milliseconds")

    def _tell(self, line: Line) -> None:
        for write in tuple(self._writers):
            try:
                write(line)
            except (OSError, ValueError) as error:  # a full disk must not end the conversation
                self._writers.remove(write)
                logger.error("The trace goes on without one that could not be written: %s", error)


def _name(error: BaseException) -> str:
    return wire_name(error) if isinstance(error, A2AError) else type(error).__name__


class TracedSender:
    """A sender of notifications that tells a trace of each that its webhook has taken."""

    def __init__(self, inner: Sender, trace: Trace) -> None:
        self._inner = inner
        self._trace = trace

    async def send(self, notification: Notification) -> None:
        """Tell a webhook something; see `Sender`."""
        await self._inner.send(notification)
        self._trace.delivered(notification)


class TracedTransport:
    """A transport that tells a trace of what goes over it."""

    def __init__(self, inner: Transport, trace: Trace) -> None:
        self._inner = inner
        self._trace = trace

    @property
    def interface(self) -> AgentInterface:
        """Where the agent is."""
        return self._inner.interface

    @property
    def version(self) -> Version:
        """The dialect that is spoken."""
        return self._inner.version

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """Ask once and give the answer; see `Transport`."""
        asked = self._ask(operation, request, options)
        try:
            result = await self._inner.call(operation, request, options)
        except Exception as error:
            self._fail(asked, error)
            raise
        body = show_result(operation, result, asked.version, asked.binding)
        self._trace.write(Way.HEARD, "reply", asked, operation.name, body)
        return result

    async def stream(
        self, operation: Operation, request: Request, options: CallOptions
    ) -> AsyncGenerator[ReceivedEvent]:
        """Ask once and give the events; see `Transport`."""
        asked = self._ask(operation, request, options)
        try:
            async with aclosing(self._inner.stream(operation, request, options)) as events:
                async for received in events:
                    body = show_event(received.event, asked.version, asked.binding)
                    self._trace.write(Way.HEARD, "event", asked, type(received.event).__name__, body)
                    yield received
        except Exception as error:
            self._fail(asked, error)
            raise

    async def close(self) -> None:
        """Close the connections."""
        await self._inner.close()

    def _ask(self, operation: Operation, request: Request, options: CallOptions) -> Asked:
        asked = Asked(operation, self.version, self.interface.binding)
        what, body = show_request(operation, request, asked.version, asked.binding)
        self._trace.write(Way.CALLED, "request", asked, what, body, options.headers)
        return asked

    def _fail(self, asked: Asked, error: Exception) -> None:
        body = show_error(error, asked.version, asked.binding)
        self._trace.write(Way.HEARD, "error", asked, _name(error), body)
