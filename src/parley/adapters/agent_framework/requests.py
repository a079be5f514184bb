"""Requests of workflows of Microsoft Agent Framework for information, as questions, and the answers as responses."""

from __future__ import annotations

import json
from typing import Any

from agent_framework import Content, WorkflowEvent
from pydantic import PydanticSchemaGenerationError, TypeAdapter
from pydantic_core import to_jsonable_python

from parley.adapters.adapter import APPROVAL, Question, is_approved
from parley.adapters.agent_framework.messages import answer_to, question_of
from parley.protocol.jsonvalue import JsonValue


def request_question(id: str, event: WorkflowEvent[Any]) -> Question:
    """A request for information: its text if it has one, and a form if the response is not a text."""
    data, kind = event.data, event.response_type
    if isinstance(data, Content) and data.user_input_request:
        return question_of(id, data)
    texts = [data, *[getattr(data, name, None) for name in ("prompt", "question", "message", "text")]]
    shown = json.dumps(to_jsonable_python(data, fallback=str), ensure_ascii=False)
    text = next((each for each in texts if isinstance(each, str)), shown)
    if kind is bool:
        return Question(id, text, APPROVAL)
    try:
        form = TypeAdapter(kind).json_schema()
    except PydanticSchemaGenerationError:
        form = {}
    return Question(id, text, form if form.get("type") == "object" else None)


def response_to(event: WorkflowEvent[Any], answer: JsonValue) -> Any:
    """The answer in the type that the executor expects."""
    if isinstance(event.data, Content) and event.data.user_input_request:
        return answer_to(event.data, answer)
    if event.response_type is bool:
        return is_approved(answer)
    try:
        return TypeAdapter(event.response_type).validate_python(answer)
    except PydanticSchemaGenerationError:
        return answer
