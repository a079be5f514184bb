"""The message of a turn as the input of a graph.

A graph with `messages` gets a message with the text, data and files. Another one gets the data of the message as its
input, or the text as the only text field of its input. A message that does not fit is refused, with the reason.
"""

from __future__ import annotations

import typing
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from langchain_core.messages import HumanMessage
from langgraph.pregel import Pregel
from pydantic import BaseModel, ValidationError

from parley.adapters.adapter import End, texts_of
from parley.agents.files import ReceivedFile
from parley.protocol.messages import TextPart
from parley.protocol.tasks import TaskState

if TYPE_CHECKING:
    from parley.agents.turn import Turn


class NothingToRunError(Exception):
    """The graph is not run: the message does not fit, the caller does not want it to go on, or it has changed."""

    def __init__(self, state: TaskState, reason: str) -> None:
        super().__init__(reason)
        self.end = End(state=state, message=(TextPart(reason),))


async def input_of(graph: Pregel[Any, Any, Any, Any], turn: Turn) -> Any:
    """What the graph is called with.

    Raises:
        NothingToRunError: the message does not fit.
    """
    fields, data = input_fields(graph), turn.data
    if fields is None:
        return data if data is not None else turn.text
    if "messages" in fields:
        return {"messages": [await human_message(turn)]}
    if isinstance(data, dict):
        if unknown := sorted(data.keys() - fields.keys()):
            raise _misfit(fields, f"Unknown members of the data: {', '.join(unknown)}. ")
        return _checked(graph, fields, data)
    texts = [name for name, kind in fields.items() if kind is str]
    if data is None and turn.text and len(texts) == 1:
        return {texts[0]: turn.text}
    raise _misfit(fields)


def _checked(graph: Pregel[Any, Any, Any, Any], fields: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    """The data, if it fits the model that the graph has for its input. LangGraph checks it later, and fails."""
    if issubclass(graph.InputType, BaseModel):
        try:
            graph.InputType.model_validate(data)
        except ValidationError as error:
            found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}. " for one in error.errors()]
            raise _misfit(fields, "".join(found)) from error
    return data


def input_fields(graph: Pregel[Any, Any, Any, Any]) -> dict[str, Any] | None:
    """The members of a graph's input with their types; None if it is not an object, or not known to be one."""
    schema: Any = graph.InputType
    if not isinstance(schema, type) or schema.__module__ == "builtins":
        return None
    return typing.get_type_hints(schema) or None


async def human_message(turn: Turn) -> HumanMessage:
    """The caller's message, with files as LangChain's content blocks."""
    texts = texts_of(turn)
    if not turn.files:
        return HumanMessage("\n".join(texts), id=turn.task_id)
    blocks = [{"type": "text", "text": text} for text in texts]
    return HumanMessage([*blocks, *[await _block(file) for file in turn.files]], id=turn.task_id)


async def _block(file: ReceivedFile) -> dict[str, Any]:
    media_type = file.media_type or "application/octet-stream"
    kind = media_type.split("/")[0]
    if kind == "text":  # most models take no text files, and all of them take text
        return {"type": "text", "text": f"{file.name or 'file'}:\n{await file.text()}"}
    block = {"base64": b64encode(await file.read()).decode(), "mime_type": media_type}
    if kind in ("image", "audio", "video"):
        return {"type": kind, **block}
    return {"type": "file", **block, "extras": {"filename": file.name or "file"}}


def _misfit(fields: dict[str, Any], problem: str = "") -> NothingToRunError:
    named = ", ".join(f"{name} ({getattr(kind, '__name__', kind)})" for name, kind in fields.items())
    wanted = f"Send one data part, an object with some of these members: {named}."
    return NothingToRunError(TaskState.REJECTED, f"{problem}{wanted}")
