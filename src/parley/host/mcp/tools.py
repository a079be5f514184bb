"""The tools of a server, read from what it lists: bounded, with safe texts, and with schemas that can be checked.

A tool that cannot be offered is left out, and `rejected` says why. This module knows JSON and nothing of the SDK.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from parley.host.mcp.server_config import McpServerConfig
from parley.host.mcp.tool_schemas import BadToolSchemaError, ToolSchema, is_object_schema
from parley.protocol.jsonvalue import JsonObject, JsonValue
from parley.safe_text import printable_line

MAX_TOOLS = 500
"""Of one server. No model can choose between more."""

MAX_LIST_BYTES = 2 * 1024 * 1024
"""Of all tools of a server as JSON."""

MAX_DESCRIPTION = 1_000
"""Characters of a description that are kept."""

MAX_REJECTED = 20
"""Tools that are left out and named."""

NOT_A_TOOL = "it is not a tool as MCP defines it"

TOOL_NAME = re.compile(r"[\x21-\x7e]{1,128}")
"""The names that a command can hold: printable, without blanks. MCP recommends fewer characters still."""


@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool that agents may call."""

    server: str
    name: str
    description: str
    """On one line, and safe to print."""
    input_schema: JsonObject
    arguments: ToolSchema = field(repr=False)
    output: ToolSchema | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RejectedTool:
    """A tool that is not offered. The name and the reason are safe to print."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ToolList:
    """What a server offers."""

    tools: Mapping[str, McpTool] = field(default_factory=dict[str, McpTool])
    rejected: tuple[RejectedTool, ...] = ()
    is_cut: bool = False
    """Whether the server lists more tools than are looked at."""


def read_tools(
    config: McpServerConfig, listed: Iterable[object], *, malformed: Sequence[str] = (), is_cut: bool = False
) -> ToolList:
    """The tools that a server lists, as far as they are on its allow list and can be used.

    `malformed` are the names of tools that were dropped before.
    """
    tools: dict[str, McpTool] = {}
    rejected = [RejectedTool(printable_line(name[:100]), NOT_A_TOOL) for name in malformed[:MAX_REJECTED]]
    size = 0
    for number, entry in enumerate(listed):
        size += len(msgspec.json.encode(entry))
        if number >= MAX_TOOLS or size > MAX_LIST_BYTES:
            is_cut = True
            break
        name = _name(entry)
        if TOOL_NAME.fullmatch(name) and not config.offers(name):
            continue
        try:
            tool = _read_tool(config, name, entry)
            if tool.name in tools:
                raise BadToolSchemaError("its name is used twice")
            tools[tool.name] = tool
        except BadToolSchemaError as error:
            if len(rejected) < MAX_REJECTED:
                rejected.append(RejectedTool(printable_line(name[:100]), config.redact(error.message)))
    return ToolList(tools, tuple(rejected), is_cut)


def _name(entry: object) -> str:
    name = cast("Mapping[str, object]", entry).get("name") if isinstance(entry, Mapping) else None
    return name if isinstance(name, str) else ""


def _read_tool(config: McpServerConfig, name: str, entry: object) -> McpTool:
    """A tool. Raises BadToolSchemaError."""
    listed = cast("Mapping[str, object]", entry if isinstance(entry, Mapping) else {})
    if not TOOL_NAME.fullmatch(name):
        raise BadToolSchemaError("its name must be 1 to 128 printable characters without blanks")
    schema, output = listed.get("inputSchema"), listed.get("outputSchema")
    if not is_object_schema(schema):
        raise BadToolSchemaError("its input schema does not describe an object")
    input_schema = _redacted(config, cast("JsonObject", schema))
    description = listed.get("description") or listed.get("title")
    return McpTool(
        config.name,
        name,
        _line(config.redact(description)) if isinstance(description, str) else "",
        input_schema,
        ToolSchema(input_schema),
        ToolSchema(cast("JsonObject", output)) if isinstance(output, dict) else None,
    )


def _redacted(config: McpServerConfig, schema: JsonObject) -> JsonObject:
    """A schema without secrets. Raises BadToolSchemaError."""
    text = msgspec.json.encode(schema).decode()
    redacted = config.redact(text)
    if redacted == text:
        return schema
    try:
        return msgspec.json.decode(redacted, type=dict[str, Any])
    except msgspec.DecodeError:  # a header may have any value, for example `"type":`
        raise BadToolSchemaError("its schema cannot be shown without a secret in it") from None


def _line(text: str) -> str:
    line = printable_line(text[: 4 * MAX_DESCRIPTION])
    return line if len(line) <= MAX_DESCRIPTION else f"{line[: MAX_DESCRIPTION - 1]}…"


def compact_schema(schema: JsonObject, longest: int) -> str:
    """What a tool takes, on one line: `{"city": string, "days"?: integer}`. Other schemas are shown as they are.

    The line is safe to print and at most `longest` characters long.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return "{}" if set(schema) <= {"type", "additionalProperties", "$schema", "title"} else _json(schema, longest)
    required = schema.get("required")
    wanted = set(map(str, required)) if isinstance(required, list) else set[str]()
    members = [
        f"{msgspec.json.encode(name).decode()}{'' if name in wanted else '?'}: {_type_text(value)}"
        for name, value in properties.items()
    ]
    return _cut(printable_line(f"{{{', '.join(members)}}}"), longest)


def _type_text(schema: JsonValue) -> str:
    if isinstance(schema, dict):
        kind, choices = schema.get("type"), schema.get("enum")
        if isinstance(choices, list):
            return "|".join(msgspec.json.encode(choice).decode() for choice in choices[:10])
        if isinstance(kind, str) and not {"properties", "items", "anyOf", "oneOf"} & set(schema):
            return kind
    return _json(schema, 200)


def _json(value: object, longest: int) -> str:
    return _cut(printable_line(msgspec.json.encode(value).decode()), longest)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
