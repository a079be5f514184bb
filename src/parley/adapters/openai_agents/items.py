"""Items of the OpenAI Agents SDK: the caller's message, what a model said, and what a tool returned, as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

from openai.types.responses import Response, ResponseCompletedEvent
from pydantic_core import to_jsonable_python

from agents import ToolApprovalItem, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from parley.adapters.adapter import Output, Piece, Question, approval, call_text, texts_of, tool_call
from parley.agents.turn import Turn
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.messages import RawPart


async def message_of(turn: Turn) -> Any:
    """The message as an item of the SDK's input. Text files become text, images images, and the rest files."""
    content = [{"type": "input_text", "text": text} for text in texts_of(turn)]
    for file in turn.files:
        name, kind = file.name or "file", file.media_type or "application/octet-stream"
        if kind.startswith("text/"):
            content.append({"type": "input_text", "text": f"{name}:\n{await file.text()}"})
            continue
        url = f"data:{kind};base64,{base64.b64encode(await file.read()).decode()}"
        if kind.startswith("image/"):
            content.append({"type": "input_image", "detail": "auto", "image_url": url})
        else:
            content.append({"type": "input_file", "filename": name, "file_data": url})
    return {"role": "user", "content": content}


def pieces_in(response: Response) -> list[Piece]:
    """The tool calls and files of a response."""
    pieces: list[Piece] = []
    for item in response.output:
        if item.type == "image_generation_call" and item.result:
            pieces.append(Output((RawPart(base64.b64decode(item.result), "image/png"),)))
        elif item.type.endswith("_call"):
            name = getattr(item, "name", None) or item.type.removesuffix("_call")
            pieces.append(tool_call(name, _arguments_of(item)))
    return pieces


def questions_of(interruptions: Sequence[ToolApprovalItem]) -> tuple[Question, ...]:
    """The questions whether tools may be called; their ids are their numbers."""
    texts = [call_text(item.name or "tool", _arguments_of(item)) for item in interruptions]
    return tuple([approval(str(number), text) for number, text in enumerate(texts)])


def _arguments_of(call: Any) -> object:
    arguments = getattr(call, "arguments", None)
    try:
        return json.loads(arguments)
    except (TypeError, ValueError):
        return arguments


def encode_response(response: Response) -> JsonValue:
    """What the SDK needs of a response: not the instructions and tools, which APIs repeat."""
    kept = response.model_copy(update={"instructions": None, "tools": [], "text": None, "prompt": None})
    return kept.model_dump(mode="json", exclude_none=True, warnings=False)


def decode_response(saved: Any) -> ResponseCompletedEvent:
    """The event with which a model ends such a response."""
    response = Response.construct(**saved)  # as the client reads it: providers leave fields out
    return ResponseCompletedEvent(response=response, sequence_number=0, type="response.completed")


def encode_output(output: object) -> JsonValue:
    """What a tool returned, as the model sees it: JSON and the SDK's content objects as they are, the rest as text."""
    contents = output if isinstance(output, list) else [output]
    if contents and all(
        isinstance(each, ToolOutputText | ToolOutputImage | ToolOutputFileContent) for each in contents
    ):
        return to_jsonable_python(output, exclude_none=True)
    try:
        return output if json.loads(json.dumps(output)) == output else str(output)
    except (TypeError, ValueError):
        return str(output)
