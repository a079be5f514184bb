"""Hints: the processes on one store tell each other that there is something new in it.

A hint carries no data. It may be lost, duplicated or late; the change itself is in the store, and is found there
without the hint a little later. Engines on a store that is not shared need none. There are three types: a `Hint` is
about a task, a `RecordsHint` about the records of a tenant, and a `LookHint` says that other hints were lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import Protocol, TypeAlias

from msgspec import Struct

from parley.stores.interface import TaskKey

logger = logging.getLogger(__name__)


class HintKind(StrEnum):
    """What there is to look for, about a task."""

    EVENTS = "events"
    """The task has events up to `seq`."""
    INBOX = "inbox"
    """The worker that holds the task has something in its inbox."""
    OUTBOX = "outbox"
    """The task has a new webhook."""
    WORK = "work"
    """The task waits for any worker that has room."""


class Hint(Struct, frozen=True, gc=False):
    """A task has something new."""

    kind: HintKind
    key: TaskKey
    seq: int = 0


class RecordsHint(Struct, frozen=True, gc=False):
    """Records of a collection of a tenant have changed; the empty tenant is that of the host.

    The processes of a host learn from it that agents, tenants or stops were changed by another one.
    """

    collection: str
    tenant: str
    id: str = ""
    """The record, in collections where each reader waits for one of them."""


class LookHint(Struct, frozen=True, gc=False):
    """Hints may have been lost: look now for everything that a hint could have been about.

    Carriers make it, when a connection is back or too many hints waited to be sent; others do not publish it.
    """


AnyHint: TypeAlias = Hint | RecordsHint | LookHint
SentHint: TypeAlias = Hint | RecordsHint
Listener: TypeAlias = Callable[[AnyHint], None]


class Hints(Protocol):
    """What carries hints between the processes on one store: `async with hints: …`."""

    async def __aenter__(self) -> Hints:
        """Begin to carry hints. A lost connection is not an error: it is logged, and tried again."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Stop, quickly; what was not sent yet may get lost."""
        ...

    def publish(self, hint: SentHint) -> None:
        """Notify the listeners of all processes, possibly including the sender's. This neither waits nor raises."""
        ...

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with every hint, on its event loop, until the returned function is called."""
        ...

    def problem(self) -> str | None:
        """Why hints do not flow now, in a sentence for operators; None if they do."""
        ...

    def lag(self) -> float | None:
        """The seconds that the last probe took from being published to being heard here.

        None before the first one, and while hints do not flow.
        """
        ...


class Listeners:
    """The listeners of one carrier."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}

    def add(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with every hint until the returned function is called."""
        self._listeners[listener] = None

        def stop() -> None:
            self._listeners.pop(listener, None)

        return stop

    def tell(self, hint: AnyHint) -> None:
        """Call all listeners. The error of one is logged, and the others are called all the same."""
        for listener in tuple(self._listeners):
            try:
                listener(hint)
            except Exception:  # here the handling of a hint ends
                logger.exception("A hint could not be followed")


class LocalHints:
    """Hints between engines that share an event loop."""

    def __init__(self) -> None:
        self._listeners = Listeners()

    async def __aenter__(self) -> LocalHints:
        """There is nothing to open."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """There is nothing to close."""

    def publish(self, hint: SentHint) -> None:
        """Tell all listeners, at once."""
        self._listeners.tell(hint)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a listener with every hint until the returned function is called."""
        return self._listeners.add(listener)

    def problem(self) -> str | None:
        """None: nothing can fail."""
        return None

    def lag(self) -> float | None:
        """0: listeners are called at once."""
        return 0.0
