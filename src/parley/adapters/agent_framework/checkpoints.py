"""Checkpoints of workflows of Microsoft Agent Framework, kept in the states of a task.

A state holds what a checkpoint changes in the one before, and what was said since then. Values that are not JSON are
pickled, as the framework does it; only types of the framework and those that are declared are read back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args, get_type_hints

from agent_framework import AgentResponse, InMemoryCheckpointStorage, WorkflowCheckpoint
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value

from parley.adapters.adapter import Checkpoint, Piece
from parley.adapters.agent_framework.differences import changed_by, difference_of
from parley.adapters.agent_framework.messages import usage_of
from parley.adapters.agent_framework.narration import WorkflowNarration
from parley.adapters.piece_queue import PieceQueue
from parley.protocol.jsonvalue import JsonObject, JsonValue


class WorkflowCheckpoints(InMemoryCheckpointStorage):
    """The storage of one run, and what the states of its task say."""

    def __init__(self, states: tuple[JsonValue, ...], answers: JsonObject, allowed_types: frozenset[str]) -> None:
        super().__init__()
        self.queue = PieceQueue()
        self.answers: JsonObject = {}
        self.text = ""
        self.usage: JsonObject = {}
        self.failure: Exception | None = None
        self._allowed_types = allowed_types
        self._encoded: Any = None
        for state in states:
            match state:
                case {"checkpoint": difference, "text": str(text), "usage": dict(usage)}:
                    self._encoded, self.answers = changed_by(self._encoded, difference), {}
                    self.text, self.usage = self.text + text, usage
                case {"answers": dict(given)}:
                    self.answers = given
                case _:
                    pass
        self.answers = answers or self.answers
        self._recorded_text = len(self.text)
        self.narration = WorkflowNarration()

    def count(self, response: AgentResponse[Any]) -> None:
        """Add the tokens of an agent's response to the usage. Each of its messages came from one model call."""
        calls = sum(message.role == "assistant" for message in response.messages)
        self.usage = usage_of(response.usage_details or {}, calls, self.usage)

    def say(self, *pieces: Piece) -> None:
        """Report what is said, and note its text."""
        self.text += "".join(piece for piece in pieces if isinstance(piece, str))
        self.queue.put(*pieces)

    async def latest(self) -> WorkflowCheckpoint | None:
        """The last checkpoint of the task, which is then in this storage."""
        if self._encoded is None:
            return None
        decoded = decode_checkpoint_value(self._encoded, allowed_types=self._allowed_types)
        checkpoint = WorkflowCheckpoint.from_dict(decoded)
        await super().save(checkpoint)
        return checkpoint

    async def save(self, checkpoint: WorkflowCheckpoint) -> str:
        """Keep a checkpoint, and wait until it is in the log."""
        try:
            encoded = encode_checkpoint_value(checkpoint.to_dict())
            decode_checkpoint_value(encoded, allowed_types=self._allowed_types)
        except Exception as exc:
            self.failure = exc  # the framework only logs it
            raise
        state: Any = {
            "checkpoint": difference_of(self._encoded, encoded),
            "text": self.text[self._recorded_text :],
            "usage": dict(self.usage),
        }
        self._encoded, self._recorded_text, self.failure = encoded, len(self.text), None
        self.narration.begin_segment()
        await self.queue.put(Checkpoint(state)).wait()
        return await super().save(checkpoint)


def type_names(kinds: Iterable[Any]) -> frozenset[str]:
    """The names of types, and of those in their arguments and annotations, by which the framework lets them be read."""
    names = {"types:GenericAlias"}  # of such as `list[str]`, which may be the type of a response

    def add(kind: Any) -> None:
        for argument in get_args(kind):
            add(argument)
        name = f"{kind.__module__}:{kind.__qualname__}" if isinstance(kind, type) else ""
        if name and name not in names and kind.__module__ != "builtins":
            names.add(name)
            try:
                members = get_type_hints(kind)
            except (NameError, TypeError):  # an annotation that only type checkers can read
                return
            for member in members.values():
                add(member)

    for kind in kinds:
        add(kind)
    return frozenset(names)
