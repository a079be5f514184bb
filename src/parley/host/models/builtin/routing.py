"""The way of a request through its agents: which clauses are called next, and what has come of the others.

Nothing is remembered between the calls of a turn. The results of earlier rounds are assigned again, in their order, to
the clauses that were called in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from parley.host.models.builtin.clauses import Clause
from parley.host.models.builtin.references import with_earlier
from parley.host.models.builtin.replies import single_line
from parley.host.models.model import CommandResult

MOST_CHILDREN = 16
"""Of one `/parallel`."""
MOST_ROUNDS = 5
"""Of a turn's six model calls, the last one has to be the answer."""

_NO_RESULT = CommandResult("agent", "", "the host returned no result", ok=False)


class ClauseState(Enum):
    """What has come of a clause."""

    WITHOUT_AGENT = auto()
    READY = auto()
    """It can be called."""
    WAITING = auto()
    """It refers to a clause that has not been answered."""
    WITHOUT_INPUT = auto()
    """It refers to an earlier result, and there is none."""
    DONE = auto()
    FAILED = auto()


class Routing:
    """The clauses of a request, and the results of those that were called."""

    def __init__(self, clauses: Sequence[Clause], results: Sequence[CommandResult], *, previous: str) -> None:
        self.clauses = clauses
        self.outcomes: dict[int, CommandResult] = {}
        """The results by the positions of their clauses."""
        self._previous = previous
        self._left = [result for result in results if result.name in ("agent", "parallel", "a2a")]
        self._rounds = 0
        while self._left and (called := self._next_round()):
            self._assign(called)

    def states(self) -> list[ClauseState]:
        """The states of all clauses, in their order."""
        states: list[ClauseState] = []
        for position, clause in enumerate(self.clauses):
            states.append(self._state(position, clause, states))
        return states

    def _state(self, position: int, clause: Clause, before: Sequence[ClauseState]) -> ClauseState:
        if clause.entry is None:
            return ClauseState.WITHOUT_AGENT
        if position in self.outcomes:
            return ClauseState.DONE if self.outcomes[position].ok else ClauseState.FAILED
        if not clause.needs_earlier or position == 0:
            return ClauseState.READY
        if ClauseState.READY in before or ClauseState.WAITING in before:
            return ClauseState.WAITING
        has_input = ClauseState.DONE in before or (self._previous and ClauseState.FAILED not in before)
        return ClauseState.READY if has_input else ClauseState.WITHOUT_INPUT

    def commands(self) -> str:
        """The commands that call the next agents, a line each; empty if none is left to be called."""
        called = self._next_round()
        local = [place for place in called if not self._is_remote(place)]
        lines = [f"/agent {self._message(place)}" for place in local]
        if len(lines) > 1:
            lines = ["/parallel", *lines, "/endparallel"]
        lines += [f"/a2a call {self._message(place)}" for place in called if self._is_remote(place)]
        return "".join(f"{line}\n" for line in lines)

    def _next_round(self) -> list[int]:
        """The positions to be called next: local agents first, because one command calls all of them."""
        if self._rounds >= MOST_ROUNDS:
            return []
        ready = [place for place, state in enumerate(self.states()) if state is ClauseState.READY]
        return sorted(ready[:MOST_CHILDREN], key=self._is_remote)

    def _assign(self, called: Sequence[int]) -> None:
        """Give the clauses of a round their results. A `/parallel` that was refused has one result for all of them."""
        self._rounds += 1
        local = [place for place in called if not self._is_remote(place)]
        if self._left[0].name == "parallel":
            self.outcomes |= dict.fromkeys(local, self._left.pop(0))
        for place in called:
            if place not in self.outcomes:
                self.outcomes[place] = self._left.pop(0) if self._left else _NO_RESULT

    def _is_remote(self, position: int) -> bool:
        entry = self.clauses[position].entry
        return entry is not None and entry.is_remote

    def _message(self, position: int) -> str:
        """The agent and the text for it, on one line; with the results that the text refers to."""
        clause = self.clauses[position]
        name = clause.entry.id if clause.entry is not None else ""
        earlier = [
            self.outcomes[place].body for place in sorted(self.outcomes) if place < position and self._is_done(place)
        ]
        if not earlier and self._previous:
            earlier = [self._previous]
        text = with_earlier(clause.text, earlier) if clause.needs_earlier and earlier else clause.text
        return f"{name} {single_line(text)}"

    def _is_done(self, position: int) -> bool:
        return self.outcomes[position].ok
