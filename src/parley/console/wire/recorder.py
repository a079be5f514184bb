"""Records the conversations of one app as entries of the wire: an agent of this server, or one behind a proxy.

It is a `ConversationObserver` of the app, which sees the side of callers. The other side of a proxy comes as the lines
of its `Trace`. Both run inside requests, so they only note what was sent; the JSON is made later. The observer is there
only while a page looks.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from parley.console.wire.entry import MOST_BODY, Show, Shown, WireEntry
from parley.console.wire.ring import WireRing
from parley.console.wire.weight import weight_of
from parley.protocol.cards import ApiKeyScheme, Binding
from parley.protocol.errors import A2AError, wire_name
from parley.protocol.events import StreamEvent
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version
from parley.proxy.forwarding import current_request
from parley.proxy.trace import Direction, Trace, TraceLine
from parley.proxy.trace_json import show_error, show_event, show_headers, show_request, show_result
from parley.server.app import App
from parley.server.telemetry.call import Call
from parley.stores.interface import Owner

CALLER_TO_SERVER: Final = "caller → server"
SERVER_TO_CALLER: Final = "server → caller"

MOST_EXCHANGES = 1_000
"""Exchanges of callers of a proxy that its calls to the agent can be assigned to."""


@dataclass(frozen=True, slots=True)
class _RecordedExchange:
    number: int
    begun: float
    owner: Owner
    caller: str

    @property
    def milliseconds(self) -> float:
        return round((time.monotonic() - self.begun) * 1_000, 3)


def _shown_name(identity: str) -> str:
    """The name of a caller for people: `token:ada` → `ada`."""
    scheme, _, subject = identity.partition(":")
    return unquote(subject) or scheme


class WireRecorder:
    """The conversations of one app. `agent` and `session` are set for a remote agent of one session."""

    def __init__(
        self, ring: WireRing, app: App, *, trace: Trace | None = None, agent: str = "", session: str | None = None
    ) -> None:
        self._ring = ring
        self._app = app
        self._trace = trace
        self._agent = agent
        self._session = session
        self._observing = app.observing(self)
        self._is_attached = False
        self._exchanges: WeakKeyDictionary[Call, _RecordedExchange] = WeakKeyDictionary()
        self._by_request: OrderedDict[int, _RecordedExchange] = OrderedDict()
        """Exchanges of a proxy, by the numbers of its callers' requests."""
        self._key_headers = set[str]()
        is_proxy = trace is not None
        self._in = Direction.CALLER_TO_PROXY.value if is_proxy else CALLER_TO_SERVER
        self._out = Direction.PROXY_TO_CALLER.value if is_proxy else SERVER_TO_CALLER

    def attach(self) -> None:
        """Begin to record."""
        if not self._is_attached:
            self._is_attached = True
            self._observing = self._app.observing(self)
            self._observing.__enter__()
            if self._trace is not None:
                self._trace.add_writer(self.traced)

    def detach(self) -> None:
        """Stop recording."""
        if self._is_attached:
            self._is_attached = False
            self._observing.__exit__(None, None, None)
            if self._trace is not None:
                self._trace.remove_writer(self.traced)
            self._exchanges.clear()
            self._by_request.clear()

    # --- the side of callers; see `ConversationObserver` --------------------------------------------------------------

    def requested(self, call: Call, request: Request) -> None:
        """A request was decoded."""

        self._note_key_headers()

        def show() -> Shown:
            what, body = show_request(call.operation, request, call.version, call.binding)
            return Shown(what, show_headers(call.headers, self._key_headers), body)

        exchange = self._begin(call, request.tenant)
        self._record(self._in, "request", call, exchange, request, show, what=call.operation.name)

    def _note_key_headers(self) -> None:
        """Remember which headers carry API keys now. Those of before a reload stay: callers may still send them."""
        if (security := self._app.shared.security) is not None:
            schemes = security.schemes.values()
            self._key_headers.update(one.name.lower() for one in schemes if isinstance(one, ApiKeyScheme))

    def answered(self, call: Call, result: Result) -> None:
        """A request was answered."""
        name = call.operation.name

        def show() -> Shown:
            return Shown(name, body=show_result(call.operation, result, call.version, call.binding))

        self._reply("reply", call, result, show, what=name)

    def streamed(self, call: Call, event: StreamEvent) -> None:
        """An event is sent on the stream of a request."""
        name = type(event).__name__
        self._reply(
            "event", call, event, lambda: Shown(name, body=show_event(event, call.version, call.binding)), what=name
        )

    def failed(self, call: Call, error: BaseException) -> None:
        """A request was refused, or its stream was cut off."""
        name = wire_name(error) if isinstance(error, A2AError) else type(error).__name__
        shown = Shown(name, body=show_error(error, call.version, call.binding))  # now: an error holds frames
        self._reply("error", call, shown.body, lambda: shown, what=name)

    def refused(self, binding: Binding, error: A2AError) -> None:
        """A request was refused before it was decoded. Only operators see it: its caller is not known."""
        shown = Shown(wire_name(error), body=show_error(error, Version.V1_0, binding))
        number = self._ring.next_number()
        self._ring.append(
            WireEntry(
                number=number,
                exchange=number,
                at=datetime.now(UTC),
                direction=self._out,
                kind="error",
                operation="",
                agent=self._agent,
                version="",
                binding=binding,
                caller="",
                owner=None,
                session=self._session,
                weight=weight_of(shown.body),
                milliseconds=None,
                show=lambda: shown,
                what=shown.what,
            )
        )

    def _begin(self, call: Call, tenant: str | None) -> _RecordedExchange:
        """The exchange of a call, which begins when the first of it is seen."""
        exchange = self._exchanges.get(call)
        if exchange is None:
            identity = call.identity
            owner = Owner(identity.tenant or tenant or "", identity.name)
            if call.caller is not None:
                owner = call.caller.owner
            exchange = _RecordedExchange(self._ring.last + 1, time.monotonic(), owner, _shown_name(identity.name))
            self._exchanges[call] = exchange
            if self._trace is not None:
                self._by_request[current_request().number] = exchange
                if len(self._by_request) > MOST_EXCHANGES:
                    self._by_request.popitem(last=False)
        return exchange

    def _reply(self, kind: str, call: Call, sent: object, show: Show, *, what: str) -> None:
        self._record(self._out, kind, call, self._begin(call, None), sent, show, what=what)

    def _record(
        self, direction: str, kind: str, call: Call, exchange: _RecordedExchange, sent: object, show: Show, *, what: str
    ) -> None:
        weight = weight_of(sent)
        self._ring.append(
            WireEntry(
                number=self._ring.next_number(),
                exchange=exchange.number,
                at=datetime.now(UTC),
                direction=direction,
                kind=kind,
                operation=call.operation.name,
                agent=self._agent or call.agent,
                version=call.version,
                binding=call.binding,
                caller=exchange.caller,
                owner=exchange.owner,
                session=self._session,
                weight=weight,
                milliseconds=None if kind == "request" else exchange.milliseconds,
                show=show if weight <= MOST_BODY else None,
                what=what,
            )
        )

    # --- the side of the agent, behind a proxy ------------------------------------------------------------------------

    def traced(self, line: TraceLine) -> None:
        """A line of the proxy's trace. Those of the callers' side are recorded above."""
        is_push = line.kind == "push"
        if line.direction in (Direction.CALLER_TO_PROXY, Direction.PROXY_TO_CALLER) and not is_push:
            return
        exchange = self._by_request.get(line.exchange)
        number = self._ring.next_number()
        weight = weight_of(line.body)
        shown = Shown(line.what, line.headers, line.body if weight <= MOST_BODY else None)
        self._ring.append(
            WireEntry(
                number=number,
                exchange=number if exchange is None else exchange.number,
                at=datetime.now(UTC),
                direction=line.direction,
                kind=line.kind,
                operation=line.operation,
                agent=self._agent,
                version=line.version,
                binding=line.binding,
                caller="" if exchange is None else exchange.caller,
                owner=None if exchange is None else exchange.owner,
                session=self._session,
                weight=weight,
                milliseconds=None if exchange is None or line.kind == "request" else exchange.milliseconds,
                show=lambda: shown,
                what=line.what,
            )
        )
