"""What CrewAI has finished, as JSON: its results by their keys, and the answers of models."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec
from crewai.utilities.agent_utils import extract_tool_call_info, is_tool_call_list
from pydantic import BaseModel

from parley.protocol.jsonvalue import JsonObject, JsonValue


class FinishedWork:
    """The results that the states of earlier runs of a task hold."""

    def __init__(self, states: Sequence[Any]) -> None:
        self._results: dict[str, list[JsonObject]] = defaultdict(list)
        for state in states:
            if "key" in state:
                self._results[state["key"]].append(state)

    def has(self, key: str) -> bool:
        """Whether a result under a key was not taken yet."""
        return bool(self._results[key])

    def take(self, key: str) -> JsonObject | None:
        """What was recorded under a key and not taken yet, oldest first."""
        return self._results[key].pop(0) if self._results[key] else None


def is_json(value: object) -> bool:
    """Whether a value is the same after it was stored as JSON."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return False


def digest(value: object) -> str:
    """A short name for a value, which equal values share."""
    return hashlib.blake2b(msgspec.json.encode(value, enc_hook=str, order="sorted"), digest_size=12).hexdigest()


def tool_key(tool: str, arguments: Any) -> str:
    """The key of a tool call; CrewAI has its arguments as a dict or as JSON."""
    if isinstance(arguments, str):
        with suppress(msgspec.DecodeError):
            arguments = msgspec.json.decode(arguments)
    return f"tool:{tool}:{digest(arguments or None)}"


def call_key(model: str, messages: Any, tools: Any, kind: type[BaseModel] | None) -> str:
    """The key of a model call. Files in messages are other objects each time, and do not count."""
    if not isinstance(messages, str):
        messages = [{name: message.get(name) for name in ("role", "content", "tool_calls")} for message in messages]
    return f"call:{digest([model, messages, bool(tools), kind and kind.__name__])}"


def encode_answer(answer: Any) -> JsonValue:
    """What a model answered: text, tool calls or an object; None if it is something else."""
    if isinstance(answer, BaseModel):
        return {"object": answer.model_dump(mode="json")}
    if isinstance(answer, list) and answer and is_tool_call_list(answer):
        calls = [extract_tool_call_info(call) for call in answer]
        return {"calls": [list(call) for call in calls if call]} if None not in calls else None
    return answer if isinstance(answer, str) else None


def decode_answer(answer: JsonValue, kind: type[BaseModel] | None) -> Any:
    """What a model answered, as the model would return it; an object is of the class that was asked for."""
    match answer:
        case {"object": fields} if kind is not None:
            return kind.model_validate(fields)
        case {"calls": list(calls)}:
            functions = [(id, {"name": name, "arguments": arguments}) for id, name, arguments in calls]
            return [{"id": id, "type": "function", "function": function} for id, function in functions]
        case _:
            return answer
