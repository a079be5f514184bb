"""Traces the conversation on both sides of a proxy, each in its own dialect.

Each line has the number of its exchange: a caller's request and everything that follows from it. The calls to the agent
are between the caller's request and its answer. Notifications of the agent have the number 0. Secrets are masked.
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
from parley.engine.webhooks.deliveries import Sender
from parley.engine.webhooks.notifications import Notification
from parley.protocol.cards import AgentInterface, ApiKeyScheme, Binding, SecurityScheme
from parley.protocol.errors import A2AError, wire_name
from parley.protocol.events import StreamEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version
from parley.proxy.forwarding import forwarded_parts
from parley.proxy.trace_format import show_error, show_event, show_headers, show_request, show_result
from parley.server.telemetry.observer import Call

logger = logging.getLogger(__name__)


class Direction(StrEnum):
    """The sender and the receiver."""

    CALLER_TO_PROXY = "caller → proxy"
    PROXY_TO_AGENT = "proxy → agent"
    AGENT_TO_PROXY = "agent → proxy"
    PROXY_TO_CALLER = "proxy → caller"


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A call to the agent; `Call` is its counterpart on the caller's side."""

    operation: Operation
    version: Version
    binding: Binding | str


class Line(Struct, frozen=True, omit_defaults=True):
    """One request, reply, event, error or notification."""

    time: str
    exchange: int
    direction: Direction
    kind: str
    operation: str
    version: str
    binding: str
    what: str
    headers: dict[str, str] = {}
    body: JsonValue = None


Write = Callable[[Line], None]
"""Writes a line. A writer that raises OSError or ValueError is removed."""

Clock = Callable[[], datetime]


def json_writer(out: TextIO) -> Write:
    """A writer of one JSON object per line."""

    def write(line: Line) -> None:
        out.write(msgspec.json.encode(line).decode() + "\n")
        out.flush()

    return write


class Trace:
    """Passes the conversation to writers: it observes the server, and wraps the client's transports."""

    def __init__(self, *writers: Write, now: Clock = lambda: datetime.now(UTC)) -> None:
        self._writers = list(writers)
        self._now = now
        self._secrets: set[str] = set()

    def mask(self, schemes: Iterable[SecurityScheme]) -> None:
        """Mask the headers of these API keys."""
        self._secrets.update(scheme.name.lower() for scheme in schemes if isinstance(scheme, ApiKeyScheme))

    # --- the caller's side --------------------------------------------------------------------------------------------

    def requested(self, call: Call, request: Request) -> None:
        """A caller's request has arrived."""
        what, body = show_request(call.operation, request, call.version, call.binding)
        self.write(Direction.CALLER_TO_PROXY, "request", call, what, body, call.headers)

    def answered(self, call: Call, result: Result) -> None:
        """The request was answered."""
        body = show_result(call.operation, result, call.version, call.binding)
        self.write(Direction.PROXY_TO_CALLER, "reply", call, call.operation.name, body)

    def streamed(self, call: Call, event: StreamEvent) -> None:
        """An event was sent to the caller."""
        body = show_event(event, call.version, call.binding)
        self.write(Direction.PROXY_TO_CALLER, "event", call, type(event).__name__, body)

    def failed(self, call: Call, error: BaseException) -> None:
        """The request failed."""
        body = show_error(error, call.version, call.binding)
        self.write(Direction.PROXY_TO_CALLER, "error", call, _error_name(error), body)

    def refused(self, binding: Binding, error: A2AError) -> None:
        """A request was refused because it could not be decoded."""
        body = show_error(error, Version.V1_0, binding)
        self._write_line(
            Line(
                self._time,
                forwarded_parts().number,
                Direction.PROXY_TO_CALLER,
                "error",
                "",
                "?",
                binding,
                _error_name(error),
                {},
                body,
            )
        )

    def delivered(self, notification: Notification) -> None:
        """A caller's webhook was notified."""
        self._push(Direction.PROXY_TO_CALLER, notification.event, notification.version)

    # --- the agent's side ---------------------------------------------------------------------------------------------

    def traced(
        self, connect: Callable[[AgentInterface, Version], Transport]
    ) -> Callable[[AgentInterface, Version], Transport]:
        """The same function, whose transports are traced."""
        return lambda interface, version: TracedTransport(connect(interface, version), self)

    def notified(self, event: StreamEvent, version: Version) -> None:
        """The agent has notified the proxy."""
        self._push(Direction.AGENT_TO_PROXY, event, version)

    def _push(self, direction: Direction, event: StreamEvent, version: Version) -> None:
        body = show_event(event, version, Binding.JSONRPC)
        self._write_line(Line(self._time, 0, direction, "push", "", version, "webhook", type(event).__name__, {}, body))

    def write(
        self,
        direction: Direction,
        kind: str,
        asked: Call | AgentCall,
        what: str,
        body: JsonValue,
        headers: Mapping[str, str] = {},
    ) -> None:
        """Write one line."""
        shown = show_headers(headers, self._secrets)
        number, name = forwarded_parts().number, asked.operation.name
        self._write_line(
            Line(self._time, number, direction, kind, name, asked.version, str(asked.binding), what, shown, body)
        )

    @property
    def _time(self) -> str:
        return self._now().isoformat(timespec="milliseconds")

    def _write_line(self, line: Line) -> None:
        for write in tuple(self._writers):
            try:
                write(line)
            except (OSError, ValueError) as error:  # a full disk must not end the conversation
                self._writers.remove(write)
                logger.error("A trace could not be written and is ended: %s", error)


def _error_name(error: BaseException) -> str:
    return wire_name(error) if isinstance(error, A2AError) else type(error).__name__


class TracedSender:
    """A sender of notifications that traces each one that was delivered."""

    def __init__(self, inner: Sender, trace: Trace) -> None:
        self._inner = inner
        self._trace = trace

    async def send(self, notification: Notification) -> None:
        """Send a notification; see `Sender`."""
        await self._inner.send(notification)
        self._trace.delivered(notification)


class TracedTransport:
    """A transport whose calls are traced."""

    def __init__(self, inner: Transport, trace: Trace) -> None:
        self.interface = inner.interface
        self.version = inner.version
        self._inner = inner
        self._trace = trace

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """Call once and return the answer; see `Transport`."""
        asked = self._ask(operation, request, options)
        try:
            result = await self._inner.call(operation, request, options)
        except Exception as error:
            self._fail(asked, error)
            raise
        body = show_result(operation, result, asked.version, asked.binding)
        self._trace.write(Direction.AGENT_TO_PROXY, "reply", asked, operation.name, body)
        return result

    async def stream(
        self, operation: Operation, request: Request, options: CallOptions
    ) -> AsyncGenerator[ReceivedEvent]:
        """Call once and yield the events; see `Transport`."""
        asked = self._ask(operation, request, options)
        try:
            async with aclosing(self._inner.stream(operation, request, options)) as events:
                async for received in events:
                    body = show_event(received.event, asked.version, asked.binding)
                    self._trace.write(Direction.AGENT_TO_PROXY, "event", asked, type(received.event).__name__, body)
                    yield received
        except Exception as error:
            self._fail(asked, error)
            raise

    async def close(self) -> None:
        """Close the connections."""
        await self._inner.close()

    def _ask(self, operation: Operation, request: Request, options: CallOptions) -> AgentCall:
        asked = AgentCall(operation, self.version, self.interface.binding)
        what, body = show_request(operation, request, asked.version, asked.binding)
        self._trace.write(Direction.PROXY_TO_AGENT, "request", asked, what, body, options.headers)
        return asked

    def _fail(self, asked: AgentCall, error: Exception) -> None:
        body = show_error(error, asked.version, asked.binding)
        self._trace.write(Direction.AGENT_TO_PROXY, "error", asked, _error_name(error), body)
