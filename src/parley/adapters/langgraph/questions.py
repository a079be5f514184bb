"""Interrupts of a graph as questions to the caller, and the answers as what LangGraph resumes with.

An interrupt with a `response_schema` is a form. The requests of LangChain's `HumanInTheLoopMiddleware` are approvals,
one for each tool call, and so is a breakpoint. Anything else is a question whose answer is the caller's text or data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.types import Interrupt, StateSnapshot
from pydantic_core import to_json

from parley.adapters.adapter import Question, approval, call_text, is_approved
from parley.adapters.langgraph.input import NothingToRunError
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.tasks import TaskState

TEXT_KEYS = ("question", "message", "prompt", "text", "description")
"""Members of an interrupt's value that are the question, in the order in which they are looked for."""

ANSWER = "answer"
"""The field of a form whose schema is not that of an object."""


def questions_of(now: StateSnapshot) -> tuple[Question, ...]:
    """What a graph that has paused asks the caller: its interrupts, or whether to go on after a breakpoint."""
    asked = [question for interrupt in now.interrupts for question in _questions(interrupt)]
    return tuple(asked) or (approval(_breakpoint(now), f"continue with {', '.join(now.next)}"),)


def resume_values(now: StateSnapshot, answers: Mapping[str, JsonValue]) -> dict[str, Any]:
    """What to resume each interrupt with, by its id, if its questions are answered.

    Raises:
        NothingToRunError: the caller said no, and the graph has no way to go on without a yes.
    """
    if _breakpoint(now) in answers and not is_approved(answers[_breakpoint(now)]):
        raise NothingToRunError(TaskState.CANCELED, f"Stopped before {', '.join(now.next)}.")
    return {
        interrupt.id: _value(interrupt, answers)
        for interrupt in now.interrupts
        if all(question.id in answers for question in _questions(interrupt))
    }


def _breakpoint(now: StateSnapshot) -> str:
    return f"breakpoint {now.config.get('configurable', {}).get('checkpoint_id')}"


def _questions(interrupt: Interrupt[Any]) -> list[Question]:
    if requests := _approvals(interrupt.value):
        texts = [call_text(request["name"], request.get("args")) for request in requests]
        return [approval(f"{interrupt.id} {number}", text) for number, text in enumerate(texts)]
    return [Question(interrupt.id, _text(interrupt.value), _form(interrupt.response_schema))]


def _value(interrupt: Interrupt[Any], answers: Mapping[str, JsonValue]) -> Any:
    if requests := _approvals(interrupt.value):
        approved = [is_approved(answers[f"{interrupt.id} {number}"]) for number in range(len(requests))]
        for request, yes, allowed in zip(requests, approved, _allowed(interrupt.value), strict=False):
            if not yes and "reject" not in allowed:
                raise NothingToRunError(TaskState.CANCELED, f"Stopped before {request['name']}.")
        decisions = [{"type": "approve" if yes else "reject"} for yes in approved]
        return {"decisions": decisions} if "action_requests" in interrupt.value else decisions[0]
    answer, schema = answers[interrupt.id], interrupt.response_schema
    if isinstance(answer, dict) and isinstance(schema, dict) and not _is_object(schema):
        return answer.get(ANSWER)
    return answer


def _approvals(value: Any) -> Sequence[dict[str, Any]]:
    """The tool calls to approve, if that is what is asked."""
    if not isinstance(value, dict):
        return ()
    if value.get("type") == "tool_approval":
        return [value]
    return value.get("action_requests", ()) if all("approve" in allowed for allowed in _allowed(value)) else ()


def _allowed(value: dict[str, Any]) -> list[Sequence[str]]:
    """The decisions that are possible for each of several tool calls."""
    return [config["allowed_decisions"] for config in value.get("review_configs", ())]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for key in TEXT_KEYS:
            if isinstance(value.get(key), str):
                return value[key]
    return to_json(value, serialize_unknown=True).decode()


def _form(schema: Any) -> JsonObject | None:
    """The form for a schema; one that is not of an object becomes a form with one field."""
    if not isinstance(schema, dict) or _is_object(schema):
        return schema
    field = {key: value for key, value in schema.items() if key != "$defs"}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER], **definitions}


def _is_object(schema: dict[str, Any]) -> bool:
    return schema.get("type") == "object"
