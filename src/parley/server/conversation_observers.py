"""Several observers of conversations as one: a proxy's trace, and pages of the console that look at the wire."""

from __future__ import annotations

from collections.abc import Sequence

from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError
from parley.protocol.events import StreamEvent
from parley.protocol.requests import Request, Result
from parley.server.contracts import ConversationObserver
from parley.server.telemetry.call import Call


def joined_observers(observers: Sequence[ConversationObserver]) -> ConversationObserver | None:
    """One observer that reports to all of these; None if there are none, so that calls take the quick path."""
    if len(observers) < 2:
        return next(iter(observers), None)
    return _JoinedObservers(tuple(observers))


class _JoinedObservers:
    def __init__(self, observers: tuple[ConversationObserver, ...]) -> None:
        self._observers = observers

    def requested(self, call: Call, request: Request) -> None:
        for observer in self._observers:
            observer.requested(call, request)

    def answered(self, call: Call, result: Result) -> None:
        for observer in self._observers:
            observer.answered(call, result)

    def streamed(self, call: Call, event: StreamEvent) -> None:
        for observer in self._observers:
            observer.streamed(call, event)

    def failed(self, call: Call, error: BaseException) -> None:
        for observer in self._observers:
            observer.failed(call, error)

    def refused(self, binding: Binding, error: A2AError) -> None:
        for observer in self._observers:
            observer.refused(binding, error)
