"""The tokens that a task takes. Each checkpoint holds those since the last one, so a repeated run counts none twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from parley.protocol.jsonvalue import JsonObject


class RunUsage:
    """The usage of a task so far."""

    def __init__(self, states: Sequence[Any]) -> None:
        self.total, self._new = Counter[str](), Counter[str]()
        for state in states:
            self.total.update(state.get("usage", {}))

    def add(self, used: dict[str, Any]) -> None:
        """Count a model call, with the tokens that CrewAI has counted."""
        tokens = {"inputTokens": used.get("prompt_tokens"), "outputTokens": used.get("completion_tokens")}
        for counter in (self.total, self._new):
            counter.update({"requests": 1, **{name: count or 0 for name, count in tokens.items()}})

    def take_new(self) -> JsonObject:
        """The usage that is in no state yet, as a member of a state."""
        new, self._new = self._new, Counter[str]()
        return {"usage": dict(new)} if new else {}
