"""Checkpoints of workflows of Microsoft Agent Framework, kept in the states of a task.

A state holds what a checkpoint changes in the one before, and what was said since then. Values that are not JSON are
pickled, as the framework does it; only types of the framework and those that are declared are read back.
"""

from __future__ import annotations

from typing import Any

from agent_framework import AgentResponse, InMemoryCheckpointStorage, WorkflowCheckpoint
from agent_framework._workflows._checkpoint_encoding import decode_checkpoint_value, encode_checkpoint_value

from parley.adapters.adapter import Checkpoint
from parley.adapters.agent_framework.messages import usage_of
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
                case {"checkpoint": change, "text": str(text), "usage": dict(usage)}:
                    self._encoded, self.answers = _changed(self._encoded, change), {}
                    self.text, self.usage = self.text + text, usage
                case {"answers": dict(given)}:
                    self.answers = given
                case _:
                    pass
        self.answers = answers or self.answers
        self._recorded_text = len(self.text)

    def count(self, response: AgentResponse[Any]) -> None:
        """Add the tokens of an agent's response to the usage. Each of its messages came from one model call."""
        calls = sum(message.role == "assistant" for message in response.messages)
        self.usage = usage_of(response.usage_details or {}, calls, self.usage)

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
            "checkpoint": _change(self._encoded, encoded),
            "text": self.text[self._recorded_text :],
            "usage": dict(self.usage),
        }
        self._encoded, self._recorded_text, self.failure = encoded, len(self.text), None
        await self.queue.put(Checkpoint(state)).wait()
        return await super().save(checkpoint)


def _change(old: Any, new: Any) -> Any:
    """What makes one JSON value of another: a new value, or changes of an object's members."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return {"value": new}
    changed = {name: _change(old.get(name), value) for name, value in new.items() if old.get(name, ...) != value}
    return {"members": changed, "removed": [name for name in old if name not in new]}


def _changed(old: Any, change: Any) -> Any:
    if "value" in change:
        return change["value"]
    kept = {name: value for name, value in old.items() if name not in change["removed"]}
    return {**kept, **{name: _changed(kept.get(name), each) for name, each in change["members"].items()}}
