"""What a tool has answered, as text for a model and files for the caller.

Text stays text; images, audio and binary resources become files; links are named and never followed. Everything comes
from the server: its secrets are removed, names are safe, and nothing is larger than the server's bound allows.
"""

from __future__ import annotations

import base64
import binascii
import re
from mimetypes import guess_extension

import msgspec
from msgspec import Struct

from parley.host.mcp.server_config import McpServerConfig
from parley.host.mcp.tools import McpTool
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.safe_text import printable, printable_line

MAX_TEXT = 64 * 1024
"""Characters of a result that are kept. A model is shown a quarter of them."""

MAX_FILES = 16
"""Of one result."""

MAX_FILE_BYTES = 6 * 1024 * 1024
"""Of all files of one result together: they are kept in the log of the task, as the step's result and as artifacts."""

_MEDIA_TYPE = re.compile(r"[\w.+-]{1,100}/[\w.+-]{1,100}", re.ASCII)


class ToolFile(Struct, frozen=True, array_like=True):
    """A file in the result of a tool."""

    name: str
    media_type: str
    data: bytes


class ToolOutput(Struct, frozen=True, array_like=True):
    """What a tool has answered."""

    text: str
    ok: bool = True
    files: tuple[ToolFile, ...] = ()


def read_result(config: McpServerConfig, tool: McpTool, result: JsonObject) -> ToolOutput:
    """A result as a server sends it. One that breaks the tool's own output schema is an error."""
    reader = _ResultReader(tool)
    content = result.get("content")
    for block in content if isinstance(content, list) else []:
        reader.add(block if isinstance(block, dict) else {})
    is_error = result.get("isError") is True
    if "structuredContent" in result:
        structured = result["structuredContent"]
        if tool.output is not None and not is_error and (problem := tool.output.problem(structured)):
            return ToolOutput(f"The result breaks the tool's own output schema: {config.redact(problem)}", ok=False)
        reader.add_structured(structured)
    elif tool.output is not None and not is_error:
        return ToolOutput("The tool promises a structured result and has returned none.", ok=False)
    text = config.redact(reader.text)
    return ToolOutput(text or ("The tool failed." if is_error else "(no text)"), not is_error, tuple(reader.files))


class _ResultReader:
    def __init__(self, tool: McpTool) -> None:
        self._tool = tool
        self._texts: list[str] = []
        self._room = MAX_TEXT
        self._file_room = MAX_FILE_BYTES
        self.files: list[ToolFile] = []

    @property
    def text(self) -> str:
        """All text so far."""
        return "\n".join(self._texts)

    def add(self, block: JsonObject) -> None:
        """One block of the content."""
        match block:
            case {"type": "text", "text": str(text)}:
                self._say(printable(text[: self._room + 1]))
            case {"type": "image" | "audio" as kind, "data": str(data)}:
                self._file(data, block.get("mimeType"), str(kind))
            case {"type": "resource", "resource": {"text": str(text)} as resource}:
                self._say(f"[resource {_line(resource.get('uri'))}]\n{printable(text[: self._room + 1])}")
            case {"type": "resource", "resource": {"blob": str(blob)} as resource}:
                self._say(f"[resource {_line(resource.get('uri'))}]")
                self._file(blob, resource.get("mimeType"), "resource")
            case {"type": "resource_link"}:
                self._say(f"[link {_line(block.get('name'))}: {_line(block.get('uri'))}]")
            case _:
                self._say(f"[content of the type {_line(block.get('type'))}, which is not shown]")

    def add_structured(self, value: JsonValue) -> None:
        """The structured content, unless a text says the same, as MCP recommends."""
        if not any(_says(text, value) for text in self._texts):
            self._say(printable_line(msgspec.json.encode(value).decode()))

    def _say(self, text: str) -> None:
        if self._room > 0:
            self._texts.append(text if len(text) <= self._room else f"{text[: self._room]}\n... [truncated]")
            self._room -= len(text)

    def _file(self, data: str, media_type: object, kind: str) -> None:
        safe = media_type.split(";")[0].strip() if isinstance(media_type, str) else ""
        safe = safe if _MEDIA_TYPE.fullmatch(safe) else "application/octet-stream"
        name = f"{_file_stem(self._tool.name)}-{len(self.files) + 1}{guess_extension(safe) or '.bin'}"
        if len(self.files) >= MAX_FILES or len(data) * 3 // 4 > self._file_room:
            self._say(f"[{kind} {safe}: it is not kept, because a result may have {MAX_FILES} files of "
                      f"{MAX_FILE_BYTES} bytes together]")  # fmt: skip
            return
        try:
            content = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            self._say(f"[{kind} {safe}: its data is not valid base64]")
            return
        self._file_room -= len(content)
        self.files.append(ToolFile(name, safe, content))
        self._say(f"[{kind} {safe}, {len(content)} bytes, given to the user as {name}]")


def _file_stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-")[:60] or "file"


def _line(text: object) -> str:
    return printable_line(str(text)[:300]) if text is not None else "?"


def _says(text: str, value: JsonValue) -> bool:
    """Whether a text is a value as JSON, or that of a member `result`, as Python's SDK wraps all but objects."""
    wrapped = value.get("result") if isinstance(value, dict) and len(value) == 1 else None
    if wrapped is not None and text == wrapped:
        return True
    try:
        return msgspec.json.decode(text) in (value, wrapped)
    except (msgspec.DecodeError, RecursionError):
        return False


def error_text(config: McpServerConfig, text: str) -> str:
    """What a server says about an error, on one bounded line without secrets."""
    return printable_line(config.redact(text[:2_000]))[:300]
