"""A model of CrewAI that follows a script, and emits the events that CrewAI's own models emit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from crewai.events.types.llm_events import LLMCallType
from crewai.llms.base_llm import BaseLLM, llm_call_context
from pydantic import PrivateAttr

Script: TypeAlias = Callable[[list[dict[str, Any]]], Iterator[str | dict[str, Any]]]
"""Says what the model answers to messages: pieces of text, or the arguments of a tool call with its name as `tool`."""


class ScriptedLLM(BaseLLM):
    """Each call runs the script. `calls_tools` says whether the model calls tools itself, or writes what to call."""

    model: str = "scripted"
    calls_tools: bool = True
    _script: Script = PrivateAttr()

    def __init__(self, script: Script, **fields: Any) -> None:
        super().__init__(model="scripted", **fields)
        self._script = script

    def call(
        self,
        messages: Any,
        tools: Any = None,
        callbacks: Any = None,
        available_functions: Any = None,
        from_task: Any = None,
        from_agent: Any = None,
        response_model: Any = None,
    ) -> Any:
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        origin = {"from_task": from_task, "from_agent": from_agent}
        with llm_call_context():
            self._emit_call_started_event(messages=messages, tools=tools, **origin)
            text, calls = "", []
            for piece in self._script(messages):
                if isinstance(piece, dict):
                    name = piece.pop("tool")
                    function = {"name": name, "arguments": json.dumps(piece)}
                    calls.append({"id": f"call-{len(messages)}-{len(calls)}", "type": "function", "function": function})
                else:
                    text += piece
                    if self.stream:
                        self._emit_stream_chunk_event(piece, call_type=LLMCallType.LLM_CALL, **origin)
            usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
            self._track_token_usage_internal(usage)
            kind = LLMCallType.TOOL_CALL if calls else LLMCallType.LLM_CALL
            self._emit_call_completed_event(calls or text, kind, **origin, messages=messages, usage=usage)
        return calls or text

    async def acall(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def supports_function_calling(self) -> bool:
        return self.calls_tools

    def get_context_window_size(self) -> int:
        return 100_000


def results(messages: list[dict[str, Any]]) -> list[str]:
    """What tools have returned so far."""
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


def prompt(messages: list[dict[str, Any]]) -> str:
    """Everything that the model is told, but the system prompt."""
    return "\n".join(str(message.get("content") or "") for message in messages if message["role"] != "system")


def told(messages: list[dict[str, Any]], name: str) -> str:
    """What stands between `<name>` and `</name>`."""
    found = re.search(f"<{name}>(.*?)</{name}>", prompt(messages), re.DOTALL)
    return found[1] if found else ""
