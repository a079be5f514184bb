"""What a run of pydantic-ai has done so far, by the states of its checkpoints.

A state has the messages of a finished model call, the result of a finished tool call, the calls that wait for approval,
or answers of the caller. Models may use the ids of tool calls again, so results, approvals and answers count only for
the last response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pydantic_ai as ai

from parley.adapters import adapter as a
from parley.protocol.jsonvalue import JsonObject, JsonValue

MESSAGES_AT_ONCE = 100
"""Messages that are converted to or from JSON before other tasks get their turn: a few milliseconds."""


class RunSoFar:
    """What the states of a task say: messages, results of tool calls, approvals, answers and usage."""

    def __init__(self) -> None:
        self.messages: list[ai.ModelMessage] = []
        self.usage = ai.RunUsage()
        self._recorded: list[ai.ModelMessage] = []
        self._results: dict[str, Sequence[Any]] = {}
        self._approvals: set[str] = set()
        self._answers: JsonObject = {}

    @classmethod
    async def of(cls, start: a.Start) -> RunSoFar:
        """What the conversation and the states say."""
        so_far, states = cls(), start.states
        recorded: Any = start.conversation or []
        for state in states:
            assert isinstance(state, dict)
            recorded = so_far._read(state, recorded)
        so_far._answers |= start.answers
        so_far.messages = await _load(recorded)
        so_far._recorded = list(so_far.messages)
        return so_far

    def _read(self, state: Any, recorded: list[Any]) -> list[Any]:
        """Take over a state. Returns the messages that are recorded with it."""
        messages = state.get("messages", [])
        if any(message["kind"] == "response" for message in messages):
            self._results, self._approvals, self._answers = {}, set(), {}
        for request in ai.ModelMessagesTypeAdapter.validate_python(state.get("result", [])):
            self._results[request.parts[0].tool_call_id] = request.parts
        self._approvals |= set(state.get("approvals", ()))
        self._answers |= state.get("answers", {})
        if used := state.get("usage"):
            self.usage = ai.RunUsage(
                requests=used["requests"], input_tokens=used["inputTokens"], output_tokens=used["outputTokens"]
            )
        return messages if state.get("replaces") else [*recorded, *messages]

    async def state(self, messages: list[ai.ModelMessage]) -> JsonObject:
        """The state with the messages that are in none yet; with all of them if earlier ones were changed.

        Agents may shorten their history while they run.
        """
        before, self._recorded = self._recorded, list(messages)
        if messages[: len(before)] == before:
            return {"messages": await dump(messages[len(before) :]), "usage": self.usage_json()}
        return {"messages": await dump(messages), "replaces": True, "usage": self.usage_json()}

    def usage_json(self) -> JsonObject:
        """The tokens of the whole task; the run adds to them."""
        used = self.usage
        return {"requests": used.requests, "inputTokens": used.input_tokens, "outputTokens": used.output_tokens}

    def deferred_results(self) -> ai.DeferredToolResults | None:
        """The answers to the deferred calls in the model's last response."""
        last = next((message for message in reversed(self.messages) if isinstance(message, ai.ModelResponse)), None)
        results = ai.DeferredToolResults()
        for call in last.tool_calls if last else ():
            if (id := call.tool_call_id) in self._answers and id in self._approvals:
                results.approvals[id] = a.is_approved(self._answers[id])
            elif id in self._answers:
                results.calls[id] = self._answers[id]
        return results if results.approvals or results.calls else None

    async def call_tool(self, ctx: object, *, call: ai.ToolCallPart, tool_def: object, args: Any, handler: Any) -> Any:
        """The result of a tool: the recorded one, if it was executed before."""
        if call.tool_call_id in self._results:
            return _result_again(*self._results[call.tool_call_id])
        try:
            return await handler(args)
        except (SystemExit, KeyboardInterrupt) as error:  # asyncio would end the server for it
            raise RuntimeError(f"The tool {call.tool_name} ended with {error!r}") from error

    async def tool_piece(self, event: object) -> a.Piece | None:
        """A tool call as progress, its result as a checkpoint."""
        match event:
            case ai.FunctionToolCallEvent(part=call) if call.tool_call_id not in {*self._results, *self._answers}:
                return a.tool_call(call.tool_name, call.args_as_dict())
            case ai.FunctionToolResultEvent(part=ai.ToolReturnPart() as part, content=content):
                if part.outcome != "denied" and part.tool_call_id not in self._results:
                    parts = [part, *([ai.UserPromptPart(content)] if content else [])]
                    return a.Checkpoint({"result": await dump([ai.ModelRequest(parts)])})
        return None


def _result_again(part: ai.ToolReturnPart, content: ai.UserPromptPart | None = None) -> Any:
    """What a tool returned. Raises what makes of it what it was, if it failed or asked the model to try again."""
    match part.outcome:
        case "retried":
            raise ai.ModelRetry(str(part.content))
        case "failed":
            raise ai.ToolFailed(str(part.content))
        case _:
            return ai.ToolReturn(part.content, content=content.content if content else None, metadata=part.metadata)


def has_tool_calls(messages: Sequence[ai.ModelMessage]) -> bool:
    """Whether the last response calls tools. From one that does not, pydantic-ai may call the model once more."""
    return isinstance(messages[-1], ai.ModelResponse) and bool(messages[-1].tool_calls)


async def dump(messages: Sequence[ai.ModelMessage]) -> list[JsonValue]:
    """Messages as JSON. Metadata of the author's own that is not JSON is left out."""
    dumped: list[JsonValue] = []
    for first in range(0, len(messages), MESSAGES_AT_ONCE):
        some = list(messages[first : first + MESSAGES_AT_ONCE])
        dumped += ai.ModelMessagesTypeAdapter.dump_python(some, mode="json", fallback=lambda value: None)
        await asyncio.sleep(0)
    return dumped


async def _load(dumped: list[Any]) -> list[ai.ModelMessage]:
    messages: list[ai.ModelMessage] = []
    for first in range(0, len(dumped), MESSAGES_AT_ONCE):
        messages += ai.ModelMessagesTypeAdapter.validate_python(dumped[first : first + MESSAGES_AT_ONCE])
        await asyncio.sleep(0)
    return messages
