"""Messages of Microsoft Agent Framework: what a caller sends, what an agent says and asks, and the answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from agent_framework import AgentResponse, AgentResponseUpdate, Content, Message
from pydantic_core import to_jsonable_python

from parley.adapters.adapter import Output, Piece, Question, approval, call_text, is_approved, texts_of
from parley.adapters.durable_run import SEPARATOR
from parley.agents.turn import Turn
from parley.contents import File
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart


async def message_of(turn: Turn) -> Message:
    """The caller's message. Text files become text, and others data with a media type."""
    contents = [Content.from_text(text) for text in texts_of(turn)]
    for file in turn.files:
        name, kind = file.name or "file", file.media_type or "application/octet-stream"
        if kind.startswith("text/"):
            contents.append(Content.from_text(f"{name}:\n{await file.text()}"))
        else:
            contents.append(Content.from_data(await file.read(), kind, name=name))
    return Message("user", contents)


def pieces_of(said: Any) -> list[Piece]:
    """What an agent or an executor has said: text and files of messages, text as it is, anything else as data.

    Several messages are several paragraphs.
    """
    messages = _messages_of(said)
    if messages is None:
        return [said] if isinstance(said, str) else [Output((DataPart(to_jsonable_python(said, fallback=str)),))]
    pieces: list[Piece] = []
    has_spoken = False
    for contents in messages:
        gap = SEPARATOR if has_spoken else ""
        for content in contents:
            if content.type == "text" and content.text:
                pieces.append(gap + content.text)
                gap, has_spoken = "", True
            elif content.type in ("data", "uri"):
                pieces.append(Output((_file(content).part(),)))
    return pieces


def _messages_of(said: Any) -> list[list[Content]] | None:
    """The contents of messages, or of a part of one, as far as an agent has said them; None for the rest."""
    if isinstance(said, Content):
        return [[said]]
    messages: Any = said.messages if isinstance(said, AgentResponse) else said
    messages = messages if isinstance(messages, list) else [messages]
    if not messages or not all(isinstance(message, Message | AgentResponseUpdate) for message in messages):
        return None
    return [message.contents for message in messages if message.role in ("assistant", None)]


def question_of(id: str, request: Content) -> Question:
    """What an agent asks: for an approval, for a consent at a link, or for the result of a call that it cannot make."""
    if request.type == "oauth_consent_request":
        text = f"Please give your consent at {request.consent_link}, and answer when it is done."
        return Question(id, text, needs_auth=True)
    call = request.function_call or request
    text = call_text(call.name or "a tool", call.parse_arguments())
    is_approval = request.type == "function_approval_request"
    return approval(id, text) if is_approval else Question(id, f"What is the result of {text}?")


def answer_to(request: Content, answer: JsonValue) -> Content:
    """The answer to such a question."""
    if request.type == "function_approval_request":
        return request.to_function_approval_response(is_approved(answer))
    if request.type == "function_call":
        return Content.from_function_result(str(request.call_id), id=request.id, result=answer)
    return Content.from_text(str(answer))


def usage_of(used: Mapping[str, Any], requests: int, before: Mapping[str, Any]) -> JsonObject:
    """The tokens of a run, added to those of earlier runs of the task."""
    now = {"inputTokens": used.get("input_token_count"), "outputTokens": used.get("output_token_count")}
    return {name: (count or 0) + before.get(name, 0) for name, count in {**now, "requests": requests}.items()}


def _file(content: Content) -> File:
    url = content.uri or ""
    is_inline = url.startswith("data:")
    return File(base64.b64decode(url.partition(",")[2]) if is_inline else url, media_type=content.media_type)
