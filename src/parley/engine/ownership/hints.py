"""Hints: engines tell each other that there is something new in the store.

A hint carries no data. It may be lost, duplicated or late; the change itself is in the store, and is found there
without the hint a little later. Engines on a store that is not shared need none.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from parley.stores.interface import TaskKey


class HintKind(StrEnum):
    """What there is to look for."""

    EVENTS = "events"
    """The task has events up to `seq`."""
    INBOX = "inbox"
    """The worker that holds the task has something in its inbox."""
    OUTBOX = "outbox"
    """The task has a new webhook."""


class Hint(Struct, frozen=True, gc=False):
    """Where to look."""

    kind: HintKind
    key: TaskKey
    seq: int = 0


Listener: TypeAlias = Callable[[Hint], None]


class Hints(Protocol):
    """What carries hints between the engines on one store."""

    def publish(self, hint: Hint) -> None:
        """Notify the listeners of all engines, possibly including the sender's. This neither waits nor raises."""
        ...

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with every hint, on its event loop, until the returned function is called."""
        ...


class LocalHints:
    """Hints between engines that share an event loop."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}

    def publish(self, hint: Hint) -> None:
        """Tell all listeners, at once."""
        for listener in tuple(self._listeners):
            listener(hint)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with every hint until the returned function is called."""
        self._listeners[listener] = None

        def stop() -> None:
            self._listeners.pop(listener, None)

        return stop
