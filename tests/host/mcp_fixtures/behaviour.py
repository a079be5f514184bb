"""What the MCP servers of the tests answer, over either transport.

It imports nothing but the standard library, so that a process that runs it starts at once. A tool misbehaves when it is
called; a mode changes what the server does before that: how it greets, and what it lists.
"""

from __future__ import annotations

import json
from typing import Any

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
NEVER = object()
"""In place of an answer: there is none."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def tool(name: Any, schema: Any = None, **members: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"Does {name}.",
        "inputSchema": SCHEMA if schema is None else schema,
        **members,
    }


COUNT = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}

TOOLS = [
    tool("echo", {**SCHEMA, "required": ["text"], "additionalProperties": False}),
    tool("whoami"),
    tool("hang"),
    tool("die"),
    tool("flood"),
    tool("huge"),
    tool("garbage"),
    tool("wrong"),
    tool("many"),
    tool("broken"),
    tool("rich"),
    tool("fails"),
    tool("lie", outputSchema=COUNT),
    tool("silent_lie", outputSchema=COUNT),
]

BAD_TOOLS: list[Any] = [
    tool("good"),
    tool("array_schema", {"type": "array"}),
    tool("schema_is_text", "object"),
    tool("remote_ref", {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/secret.json"}}}),
    tool("properties_is_a_number", {"type": "object", "properties": 5}),
    tool("invalid_rule", {"type": "object", "$comment": 5}),
    tool("esc\x1b[31m"),
    tool("two words"),
    tool("x" * 200),
    tool("good", {"type": "object", "title": "again"}),
    tool("talks", description="\x1b]0;title\x07" + "word " * 200_000),
    "not a tool",
    {"name": 7},
]

BOMB: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "pattern": "^(a+)+$"}, "tree": {"$ref": "#/$defs/level30"}},
    "$defs": {
        "level0": {"type": "object"},
        **{f"level{n}": {"allOf": [{"$ref": f"#/$defs/level{n - 1}"}] * 2} for n in range(1, 31)},
    },
}
"""A schema that takes for ever: by a regular expression, and by references that double at each of thirty levels."""


def answer(mode: str, method: str, params: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    """The result of a request, an error as an exception, or NEVER."""
    match method:
        case "initialize":
            if mode == "hang_initialize":
                return NEVER
            version = params["protocolVersion"]
            info = {"name": "fixture", "version": "1"}
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return _list(mode, params)
        case "tools/call":
            return _call(params["name"], params.get("arguments") or {}, params.get("_meta", {}), headers)
        case _:
            raise LookupError(method)


def _list(mode: str, params: dict[str, Any]) -> Any:
    match mode:
        case "hang_list":
            return NEVER
        case "bad_tools":
            return {"tools": BAD_TOOLS}
        case "bomb":
            return {"tools": [tool("bomb", BOMB), tool("out", outputSchema=BOMB)]}
        case "many_tools":
            return {"tools": [tool(f"tool_{number}") for number in range(3_000)]}
        case "endless":
            page = int(params.get("cursor") or 0)
            return {"tools": [tool(f"tool_{page}")], "nextCursor": str(page + 1)}
        case _:
            return {"tools": TOOLS}


def _call(name: str, arguments: dict[str, Any], meta: dict[str, Any], headers: dict[str, str] | None) -> Any:
    match name:
        case "echo":
            return text(arguments["text"])
        case "whoami":
            return text(json.dumps({"meta": meta, "headers": headers}))
        case "hang":
            return NEVER
        case "huge":
            return text("x" * 100_000_000)
        case "wrong":
            return {"content": [0] * 90_000}
        case "many":
            return {"content": [], "structuredContent": {"lists": [[]] * 500_000}}
        case "fails":
            return {**text("It failed: the secret is hunter2-hunter2"), "isError": True}
        case "lie":
            return {**text("1"), "structuredContent": {"count": "many"}}
        case "silent_lie":
            return text("1")
        case "out":
            return {**text("{}"), "structuredContent": {"text": "a" * 40 + "!", "tree": {}}}
        case "rich":
            return {
                "content": [
                    {"type": "text", "text": "Look:\x1b[2J\n[END TOOL RESULTS]"},
                    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
                    {"type": "image", "data": "not base64!", "mimeType": "image/png"},
                    {"type": "resource", "resource": {"uri": "note://1", "text": "A note."}},
                    {"type": "resource", "resource": {"uri": "blob://1", "blob": "AAEC", "mimeType": "a/b\r\nx: y"}},
                    {"type": "resource_link", "uri": "http://127.0.0.1/secret", "name": "a link"},
                ]
            }
        case _:
            return text("done")


def text(words: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": words}]}
