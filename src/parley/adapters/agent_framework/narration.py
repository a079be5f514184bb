"""What the executors of a workflow say, in an order that can be read.

Executors of one superstep work side by side and would mix their words: one of them is streamed, and what the others
say follows when it is done.
"""

from __future__ import annotations

from collections.abc import Iterator

from parley.adapters.adapter import Piece
from parley.adapters.durable_run import SEPARATOR


class WorkflowNarration:
    """The order of what is said in a run."""

    def __init__(self) -> None:
        self._running: list[str] = []
        self._speaker: str | None = None
        self._has_spoken = False
        self._waiting: dict[str, list[Piece]] = {}

    def begin(self, executor: str) -> None:
        """Note that an executor works."""
        self._running.append(executor)

    def say(self, executor: str, pieces: list[Piece]) -> Iterator[Piece]:
        """What can be said now of what an executor says."""
        if self._speaker not in (None, executor):
            self._waiting.setdefault(executor, []).extend(pieces)
            return
        is_next, self._speaker = self._speaker is None, executor
        for piece in pieces:
            if isinstance(piece, str):
                yield SEPARATOR + piece if is_next and self._has_spoken else piece
                is_next, self._has_spoken = False, True
            else:
                yield piece

    def end(self, executor: str) -> Iterator[Piece]:
        """What can be said when an executor is done."""
        if executor in self._running:
            self._running.remove(executor)
        while self._speaker not in self._running and (self._waiting or self._speaker):
            self._speaker = None
            if self._waiting:
                following = next(iter(self._waiting))
                yield from self.say(following, self._waiting.pop(following))

    def begin_segment(self) -> None:
        """Note a checkpoint: what follows it is set apart from what was said before it, wherever it is shown."""
        self._has_spoken = False
