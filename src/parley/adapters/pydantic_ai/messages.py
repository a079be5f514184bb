"""What a run of pydantic-ai has done so far, by the states of its checkpoints.

A state has the messages of a finished model call, the result of a finished tool call, the calls that wait for approval,
or answers of the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pydantic_ai as ai

from parley.adapters import adapter as a
from parley.protocol.jsonvalue import JsonObject, JsonValue


class RunSoFar:
    """What the states of a task say: messages, results of tool calls and answers."""

    def __init__(self, start: a.Start) -> None:
        states: Any = start.states
        told = [message for state in states for message in state.get("messages", ())]
        before: Any = start.conversation or []
        self.length_before, self._length = len(before), len(before) + len(told)
        self.messages = ai.ModelMessagesTypeAdapter.validate_python([*before, *told])
        done = ai.ModelMessagesTypeAdapter.validate_python([one for state in states for one in state.get("result", ())])
        self._results = {request.parts[0].tool_call_id: request.parts for request in done}
        self._answers: JsonObject = {id: answer for state in states for id, answer in state.get("answers", {}).items()}
        self._answers |= start.answers
        self._approvals = {id for state in states for id in state.get("approvals", ())}

    def new(self, messages: Sequence[ai.ModelMessage]) -> JsonValue:
        """The messages that are in no state yet."""
        new, self._length = messages[self._length :], len(messages)
        return dump(new)

    def deferred_results(self) -> ai.DeferredToolResults | None:
        """The answers to the deferred calls in the model's last response."""
        last = next((message for message in reversed(self.messages) if isinstance(message, ai.ModelResponse)), None)
        results = ai.DeferredToolResults()
        for call in last.tool_calls if last else ():
            if (id := call.tool_call_id) in self._approvals:
                results.approvals[id] = a.is_approved(self._answers[id])
            elif id in self._answers:
                results.calls[id] = self._answers[id]
        return results if results.approvals or results.calls else None

    async def skip_if_done(self, ctx: object, *, call: ai.ToolCallPart, tool_def: object, args: Any) -> Any:
        """Before a tool is executed: if it was executed before, its result is the one of then."""
        if call.tool_call_id not in self._results:
            return args
        returned, *content = self._results[call.tool_call_id]
        raise ai.SkipToolExecution(ai.ToolReturn(returned.content, content=content[0].content if content else None))

    def tool_piece(self, event: object) -> a.Piece | None:
        """A tool call as progress, its result as a checkpoint."""
        match event:
            case ai.FunctionToolCallEvent(part=call) if call.tool_call_id not in {*self._results, *self._answers}:
                return a.tool_call(call.tool_name, call.args_as_dict())
            case ai.FunctionToolResultEvent(part=ai.ToolReturnPart(outcome="success") as part, content=content):
                parts = [part, *([ai.UserPromptPart(content)] if content else [])]
                return a.Checkpoint({"result": dump([ai.ModelRequest(parts)])})
            case _:
                return None


def dump(messages: Sequence[ai.ModelMessage]) -> JsonValue:
    """Messages as JSON, which `ModelMessagesTypeAdapter` reads."""
    return ai.ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")


def has_tool_calls(messages: Sequence[ai.ModelMessage]) -> bool:
    """Whether the last response calls tools. From one that does not, pydantic-ai may call the model once more."""
    return isinstance(messages[-1], ai.ModelResponse) and bool(messages[-1].tool_calls)


def usage_of(messages: Sequence[ai.ModelMessage]) -> JsonObject:
    """The tokens that the responses among messages took."""
    used = [message.usage for message in messages if isinstance(message, ai.ModelResponse)]
    tokens = {
        "inputTokens": sum(one.input_tokens for one in used),
        "outputTokens": sum(one.output_tokens for one in used),
    }
    return {"requests": len(used), **tokens}
