"""Traces the conversation on both sides of a proxy, each side in its own dialect and with secrets masked.

A caller's request and the calls to the agent that it causes share a number. Notifications have the number 0.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TextIO

import msgspec
from msgspec import Struct, structs

from parley.client.transports.transport import CallOptions, ReceivedEvent, Transport
from parley.engine.sealed_answers import masked_answer
from parley.engine.webhooks.deliveries import Sender
from parley.engine.webhooks.notifications import Notification
from parley.protocol.authorization import without_credential
from parley.protocol.cards import AgentInterface, ApiKeyScheme, Binding, SecurityScheme
from parley.protocol.errors import A2AError, wire_name
from parley.protocol.events import StreamEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result, SendMessageRequest
from parley.protocol.versions import Version
from parley.proxy.demands import Demands
from parley.proxy.forwarding import current_request
from parley.proxy.trace_json import show_error, show_event, show_headers, show_request, show_result
from parley.server.telemetry.call import Call

logger = logging.getLogger(__name__)


class Direction(StrEnum):
    """The sender and the receiver of what a line shows."""

    CALLER_TO_PROXY = "caller → proxy"
    PROXY_TO_AGENT = "proxy → agent"
    AGENT_TO_PROXY = "agent → proxy"
    PROXY_TO_CALLER = "proxy → caller"


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A call to the agent, as `Call` is one from a caller."""

    operation: Operation
    version: Version
    binding: Binding | str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class TraceLine(Struct, frozen=True, omit_defaults=True):
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


TraceWriter = Callable[[TraceLine], None]
"""Receives each line. A writer that raises OSError or ValueError is removed."""

Clock = Callable[[], datetime]


def json_writer(out: TextIO) -> TraceWriter:
    """A writer of one JSON object per line."""

    def write(line: TraceLine) -> None:
        out.write(msgspec.json.encode(line).decode() + "\n")
        out.flush()

    return write


class Trace:
    """Sends a line to its writers for everything that is sent. It observes the server and the client's transports.

    Writers may come and go. While there are none, nothing is encoded.
    """

    def __init__(self, *writers: TraceWriter, now: Clock = lambda: datetime.now(UTC)) -> None:
        self._writers = list(writers)
        self._now = now
        self._secrets: set[str] = set()
        self.demands = Demands()

    def add_writer(self, writer: TraceWriter) -> None:
        """Send lines to one more writer from now on."""
        self._writers.append(writer)

    def remove_writer(self, writer: TraceWriter) -> None:
        """Send no more lines to a writer; one that has failed is gone already."""
        if writer in self._writers:
            self._writers.remove(writer)

    def mask(self, schemes: Iterable[SecurityScheme]) -> None:
        """Mask the headers in which these schemes carry keys."""
        self._secrets.update(scheme.name.lower() for scheme in schemes if isinstance(scheme, ApiKeyScheme))

    def connecting(
        self, connect: Callable[[AgentInterface, Version], Transport]
    ) -> Callable[[AgentInterface, Version], Transport]:
        """The same function, but its transports are traced."""
        return lambda interface, version: TracedTransport(connect(interface, version), self)

    # --- requests and replies of both sides; see `ConversationObserver` -----------------------------------------------

    def requested(self, call: Call | AgentCall, request: Request) -> None:
        """A caller has sent a request, or the proxy sends one to the agent."""
        if isinstance(call, AgentCall):  # one of a caller comes as it may be shown
            request = self._shown(request)
        if not self._writers:
            return
        what, body = show_request(call.operation, request, call.version, call.binding)
        direction = Direction.CALLER_TO_PROXY if isinstance(call, Call) else Direction.PROXY_TO_AGENT
        self._write_call(direction, "request", call, what, body)

    def answered(self, call: Call | AgentCall, result: Result) -> None:
        """A request was answered."""
        if isinstance(call, AgentCall):
            self.demands.note(result)
        if not self._writers:
            return
        body = show_result(call.operation, result, call.version, call.binding)
        self._write_call(_back(call), "reply", call, call.operation.name, body)

    def streamed(self, call: Call | AgentCall, event: StreamEvent) -> None:
        """An event was sent on the stream of a request."""
        if isinstance(call, AgentCall):
            self.demands.note(event)
        if not self._writers:
            return
        body = show_event(event, call.version, call.binding)
        self._write_call(_back(call), "event", call, type(event).__name__, body)

    def failed(self, call: Call | AgentCall, error: BaseException) -> None:
        """A request was refused, or its stream was cut off."""
        if not self._writers:
            return
        body = show_error(error, call.version, call.binding)
        self._write_call(_back(call), "error", call, _name(error), body)

    def refused(self, binding: Binding, error: A2AError) -> None:
        """A request was refused before it was decoded."""
        if not self._writers:
            return
        body, number, way = (
            show_error(error, Version.V1_0, binding),
            current_request().number,
            Direction.PROXY_TO_CALLER,
        )
        self._write(TraceLine(self._time, number, way, "error", "", "?", binding, _name(error), {}, body))

    def notified(self, direction: Direction, event: StreamEvent, version: Version) -> None:
        """The agent has called the proxy's webhook, or the proxy a caller's."""
        if direction is Direction.AGENT_TO_PROXY:
            self.demands.note(event)
        if not self._writers:
            return
        body = show_event(event, version, Binding.JSONRPC)
        self._write(TraceLine(self._time, 0, direction, "push", "", version, "webhook", type(event).__name__, {}, body))

    def _shown(self, request: Request) -> Request:
        if not isinstance(request, SendMessageRequest) or request.message.task_id is None:
            return request
        if not self.demands.is_answer(request.message.task_id, request.message):
            return request
        return structs.replace(request, message=masked_answer(without_credential(request.message)))

    def _write_call(self, direction: Direction, kind: str, call: Call | AgentCall, what: str, body: JsonValue) -> None:
        headers = show_headers(call.headers, self._secrets) if kind == "request" else {}
        number, name, binding = current_request().number, call.operation.name, str(call.binding)
        self._write(TraceLine(self._time, number, direction, kind, name, call.version, binding, what, headers, body))

    @property
    def _time(self) -> str:
        return self._now().isoformat(timespec="milliseconds")

    def _write(self, line: TraceLine) -> None:
        for write in tuple(self._writers):
            try:
                write(line)
            except (OSError, ValueError) as error:  # a full disk must not end the conversation
                self._writers.remove(write)
                logger.error("A trace output failed and is no longer written: %s", error)


def _back(call: Call | AgentCall) -> Direction:
    return Direction.PROXY_TO_CALLER if isinstance(call, Call) else Direction.AGENT_TO_PROXY


def _name(error: BaseException) -> str:
    return wire_name(error) if isinstance(error, A2AError) else type(error).__name__


class TracedSender:
    """A sender of notifications that traces those that were delivered."""

    def __init__(self, inner: Sender, trace: Trace) -> None:
        self._inner = inner
        self._trace = trace

    async def send(self, notification: Notification) -> None:
        """Call a webhook; see `Sender`."""
        await self._inner.send(notification)
        self._trace.notified(Direction.PROXY_TO_CALLER, notification.event, notification.version)


class TracedTransport:
    """A transport whose requests and replies are traced."""

    def __init__(self, inner: Transport, trace: Trace) -> None:
        self.interface = inner.interface
        self.version = inner.version
        self._inner = inner
        self._trace = trace

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """Send a request and return its result; see `Transport`."""
        call = self._requested(operation, request, options)
        try:
            result = await self._inner.call(operation, request, options)
        except Exception as error:
            self._trace.failed(call, error)
            raise
        self._trace.answered(call, result)
        return result

    async def stream(
        self, operation: Operation, request: Request, options: CallOptions
    ) -> AsyncGenerator[ReceivedEvent]:
        """Send a request and stream its events; see `Transport`."""
        call = self._requested(operation, request, options)
        try:
            async with aclosing(self._inner.stream(operation, request, options)) as events:
                async for received in events:
                    self._trace.streamed(call, received.event)
                    yield received
        except Exception as error:
            self._trace.failed(call, error)
            raise

    async def close(self) -> None:
        """Close the connections."""
        await self._inner.close()

    def _requested(self, operation: Operation, request: Request, options: CallOptions) -> AgentCall:
        call = AgentCall(operation, self.version, self.interface.binding, options.headers)
        self._trace.requested(call, request)
        return call
