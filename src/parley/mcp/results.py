"""What an agent answered as the result of a tool call: text for models, the same as structured content, and files.

A failed, rejected or canceled task is an error of the tool. A task that waits for an answer is a result that says how
to go on. Everything is bounded; what is left out can be read over A2A, by the id of the task.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import msgspec
from mcp_types import (
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from parley.client.reply import Reply
from parley.forms.fields import form_in
from parley.mcp.questions import is_for_caller
from parley.mcp.tools import bounded
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.protocol.messages import DataPart, RawPart, UrlPart
from parley.protocol.tasks import TaskState

MAX_TEXT = 1_000_000
"""Characters of an answer's text. Models read some hundred thousand."""

MAX_FILE_BYTES = 4 * 1024 * 1024
"""Bytes of all files in one result; base64 makes them a third longer, and a client holds the whole message."""

MAX_FILE_COUNT = 100

TOOL_FAILURES: Mapping[TaskState, str] = {
    TaskState.FAILED: "The task failed",
    TaskState.REJECTED: "The agent rejected the task",
    TaskState.CANCELED: "The task was canceled",
}
"""How the text of an error begins."""


def result_of(reply: Reply, *, links: bool) -> CallToolResult:
    """The result of a call. `links` says whether the client knows links to resources, as those since 2025-06-18 do."""
    files = _Files(reply, links=links)
    content = [*_texts(reply), *files.blocks]
    if reply.needs_input:
        content.append(TextContent(text=_how_to_continue(reply)))
    if reply.state in TOOL_FAILURES:
        reason = f": {bounded(reply.reason, MAX_TEXT)}" if reply.reason else "."
        content.insert(0, TextContent(text=f"{TOOL_FAILURES[reply.state]}{reason}"))
    is_error = reply.has_failed or reply.state is TaskState.AUTH_REQUIRED
    if not content:
        content.append(TextContent(text="The agent has finished and said nothing."))
    return CallToolResult(content=content, structured_content=_structured(reply, files.described), is_error=is_error)


def error_result(text: str, *, task_id: str | None = None) -> CallToolResult:
    """The result of a call that the agent did not answer; a task that is known may still be running."""
    also = (
        f" To look at the task, call this tool again with an empty message and task_id={task_id!r}." if task_id else ""
    )
    structured: JsonObject = {"state": "unknown", "text": "", "data": [], "files": [], "reason": text}
    if task_id:
        structured["task_id"] = task_id
    content: list[ContentBlock] = [TextContent(text=f"{text}{also}")]
    return CallToolResult(content=content, structured_content=structured, is_error=True)


def _texts(reply: Reply) -> Iterator[TextContent]:
    if reply.text:
        yield TextContent(text=bounded(reply.text, MAX_TEXT))
    for part in reply.parts:
        if isinstance(part, DataPart):
            yield TextContent(text=bounded(msgspec.json.encode(part.data).decode(), MAX_TEXT))


def _how_to_continue(reply: Reply) -> str:
    task_id = reply.task.id if reply.task else ""
    if reply.authorization is not None and reply.authorization.takes_text:
        return (
            f"The agent needs a credential: {bounded(reply.question, MAX_TEXT)}\n"
            f"To give it, call this tool again with the credential alone as the message, and task_id={task_id!r}."
        )
    if reply.state is TaskState.AUTH_REQUIRED:
        return (
            f"The agent needs you to authenticate elsewhere first: {reply.question or 'it does not say where'}\n"
            f"When that is done, call this tool again with task_id={task_id!r} and any message."
        )
    if not is_for_caller(reply):
        return (
            f"The task waits for the decision of an approver: {bounded(reply.question, MAX_TEXT)}\n"
            f"To get its result later, call this tool again with an empty message and task_id={task_id!r}."
        )
    as_data = " as the argument data, in the fields of its form," if _form_of(reply) else ""
    return (
        f"The agent asks: {bounded(reply.question, MAX_TEXT) or 'for input'}\n"
        f"To answer, call this tool again with the answer as the message{as_data and f', or{as_data}'} "
        f"and task_id={task_id!r}."
    )


def _structured(reply: Reply, files: list[JsonValue]) -> JsonObject:
    context_id = reply.content.context_id
    texts = {"text": bounded(reply.text, MAX_TEXT), "question": reply.question, "reason": reply.reason}
    structured: JsonObject = {
        "state": reply.state.value,
        "text": texts["text"],
        "data": _bounded_data(reply),
        "files": files,
    }
    structured |= {"task_id": reply.task.id} if reply.task else {}
    structured |= {"context_id": context_id} if context_id else {}
    structured |= {name: bounded(texts[name], MAX_TEXT) for name in ("question", "reason") if texts[name]}
    structured |= {"form": form} if (form := _form_of(reply)) is not None else {}
    return structured


def _bounded_data(reply: Reply) -> list[JsonValue]:
    """All data, unless it is longer than the text that goes with it."""
    data: list[JsonValue] = [part.data for part in reply.parts if isinstance(part, DataPart)]
    return data if len(msgspec.json.encode(data)) <= MAX_TEXT else []


def _form_of(reply: Reply) -> JsonObject | None:
    message = reply.message
    return form_in(message.parts) if message is not None and reply.state is TaskState.INPUT_REQUIRED else None


@dataclass(slots=True)
class _Files:
    """The files of an answer, as content and as structured content."""

    reply: Reply
    links: bool = field(kw_only=True)
    blocks: list[ContentBlock] = field(default_factory=list[ContentBlock], init=False)
    described: list[JsonValue] = field(default_factory=list[JsonValue], init=False)
    _size: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for number, file in enumerate(self.reply.files[:MAX_FILE_COUNT]):
            name = file.filename or f"file-{number + 1}"
            uri = file.url if isinstance(file, UrlPart) else self._uri(number, name)
            described: JsonObject = {"name": name, "uri": uri}
            described |= {"media_type": file.media_type} if file.media_type else {}
            described |= {"bytes": len(file.raw)} if isinstance(file, RawPart) else {}
            self.described.append(described)
            self.blocks.append(self._block(file, name, uri))
        if (left := len(self.reply.files) - MAX_FILE_COUNT) > 0:
            self.blocks.append(TextContent(text=f"[{left} more files, which only the task over A2A holds]"))

    def _uri(self, number: int, name: str) -> str:
        task_id = self.reply.task.id if self.reply.task else "message"
        return f"a2a-file:///{quote(task_id, safe='')}/{number + 1}/{quote(name, safe='')}"

    def _block(self, file: RawPart | UrlPart, name: str, uri: str) -> ContentBlock:
        if isinstance(file, UrlPart):
            if not self.links:
                return TextContent(text=f"[file {name}: {uri}]")
            return ResourceLink(name=name, uri=uri, mime_type=file.media_type)
        self._size += len(file.raw)
        if self._size > MAX_FILE_BYTES:
            return TextContent(text=f"[file {name} of {len(file.raw)} bytes, which only the task over A2A holds]")
        if (file.media_type or "").startswith("text/") and (text := _utf8(file.raw)) is not None:
            return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=file.media_type, text=text))
        blob = b64encode(file.raw).decode()
        return EmbeddedResource(resource=BlobResourceContents(uri=uri, mime_type=file.media_type, blob=blob))


def _utf8(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
