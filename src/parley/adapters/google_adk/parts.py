"""Parts of A2A and of google-adk: the message of a turn for a model, and what agents say or save."""

from __future__ import annotations

import msgspec
from google.adk.events.event import Event
from google.genai import types
from pydantic_core import to_jsonable_python

from parley.adapters.adapter import texts_of
from parley.agents.turn import Turn
from parley.protocol.messages import DataPart, Part, RawPart, TextPart, UrlPart

UNKNOWN_TYPE = "application/octet-stream"


async def content_of(turn: Turn) -> types.Content:
    """The message of a turn for a model: its text, its data as JSON, its files."""
    files = [
        types.Blob(data=await file.read(), mime_type=file.media_type or UNKNOWN_TYPE, display_name=file.name)
        for file in turn.files
    ]
    parts = [*[types.Part(text=text) for text in texts_of(turn)], *[types.Part(inline_data=file) for file in files]]
    return types.Content(role="user", parts=parts or [types.Part(text="")])


def text_of_event(event: Event) -> str:
    """What an agent or the user says in an event, without a model's thoughts."""
    parts = (event.content and event.content.parts) or ()
    return "".join([part.text for part in parts if part.text and not part.thought])


def files_of_event(event: Event) -> list[Part]:
    """The files in an event."""
    parts = (event.content and event.content.parts) or ()
    return [part_of(part) for part in parts if part.inline_data or part.file_data]


def part_of(part: types.Part, name: str | None = None) -> Part:
    """A file, or a text that was saved as one."""
    if blob := part.inline_data:
        return RawPart(blob.data or b"", blob.mime_type, name or blob.display_name)
    if file := part.file_data:
        return UrlPart(file.file_uri or "", file.mime_type, name or file.display_name)
    return TextPart(part.text or "")


def structured_part(text: str) -> Part:
    """The output of an agent with a schema."""
    try:
        return DataPart(msgspec.json.decode(text))
    except msgspec.DecodeError:  # the model did not keep to the schema, and ADK let it pass
        return TextPart(text)


def result_part(result: object) -> Part:
    """What a tool or a workflow returned. ADK wraps what is not an object: `{"result": …}`."""
    if isinstance(result, dict) and list(result) == ["result"]:
        result = result["result"]
    return TextPart(result) if isinstance(result, str) else DataPart(to_jsonable_python(result))
