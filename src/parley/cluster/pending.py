"""Hints that wait to be sent: of several about the same thing, one is kept.

They are bounded in number. When there are more, or while there is no connection, all of them are replaced by one
`LookHint`, so that a process that publishes without end needs no more memory than one that does not publish at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from parley.cluster.hints import AnyHint, Hint, HintKind, LookHint, SentHint
from parley.stores.interface import TaskKey

MAX_PENDING = 10_000
"""About 3 MB. Looking everywhere costs a process less than following so many hints."""


class Pending:
    """Hints that wait to be sent."""

    def __init__(self, limit: int = MAX_PENDING) -> None:
        self._limit = limit
        self._events: dict[TaskKey, int] = {}
        self._others: dict[SentHint, None] = {}
        self._must_look = False

    def __bool__(self) -> bool:
        """Whether a hint waits."""
        return bool(self._events or self._others or self._must_look)

    def add(self, hint: SentHint) -> None:
        """Keep a hint until it is taken. Of the hints about a task's events, the one with the highest number stays."""
        if self._must_look:
            return
        if isinstance(hint, Hint) and hint.kind is HintKind.EVENTS:
            if hint.seq > self._events.get(hint.key, -1):
                self._events[hint.key] = hint.seq
        else:
            self._others[hint] = None
        if len(self._events) + len(self._others) > self._limit:
            self.lose_all()

    def lose_all(self) -> None:
        """Replace everything by one hint to look."""
        self._events.clear()
        self._others.clear()
        self._must_look = True

    def take(self) -> Sequence[AnyHint]:
        """Remove the hints that wait, and return them."""
        if self._must_look:
            self._must_look = False
            return [LookHint()]
        taken: list[AnyHint] = [*self._others]
        taken += [Hint(HintKind.EVENTS, key, seq) for key, seq in self._events.items()]
        self._events.clear()
        self._others.clear()
        return taken
