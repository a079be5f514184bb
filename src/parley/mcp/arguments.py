"""The arguments of a tool call, read into what a client sends. What is wrong with them is named by its JSON path."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from parley.contents import Content, File
from parley.mcp.tools import MAX_ID, skill_choices, takes_files
from parley.protocol.cards import AgentCard
from parley.protocol.jsonvalue import JsonObject

MAX_FILES = 100
"""Files of one call."""

MAX_NAME = 1_024
"""Characters of a file's name or media type."""

MAX_URL = 8_192

FILE_MEMBERS = ("name", "media_type", "data", "url")


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """What to send to an agent, in which conversation. Without contents, a task is looked at."""

    contents: tuple[Content, ...]
    context_id: str | None = None
    task_id: str | None = None
    skill: str | None = None


class InvalidArgumentError(MCPError):
    """An argument is not valid: -32602 with its path in the message and in the data."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(INVALID_PARAMS, f"{path}: {reason}", {"path": path})


def read_arguments(given: Mapping[str, Any] | None, card: AgentCard) -> ToolArguments:
    """The arguments of a call of an agent with this card.

    Raises:
        InvalidArgumentError: they do not fit the tool's input schema.
    """
    given = given or {}
    known = ["message", "context_id", "task_id", "data"]
    known += ["files"] if takes_files(card) else []
    known += ["skill"] if (choices := skill_choices(card)) else []
    for name in given:
        if name not in known:
            raise InvalidArgumentError(_path(name[:100]), f"unknown argument; there are {', '.join(known)}")
    if "message" not in given:
        raise InvalidArgumentError(_path("message"), "required argument")
    contents: list[Content] = [_text(given, "message")]
    if "data" in given:
        contents.append(_data(given["data"]))
    contents += _files(given["files"]) if "files" in given else []
    skill = _optional_text(given, "skill", MAX_ID)
    if skill is not None and skill not in choices:
        raise InvalidArgumentError(_path("skill"), f"must be one of {', '.join(choices)}")
    return ToolArguments(
        tuple([content for content in contents if not isinstance(content, str) or content.strip()]),
        _optional_text(given, "context_id", MAX_ID),
        _optional_text(given, "task_id", MAX_ID),
        skill,
    )


def _path(name: str) -> str:
    return f"$.params.arguments.{name}"


def _text(given: Mapping[str, Any], name: str, path: str = "") -> str:
    value = given[name]
    path = path or _path(name)
    if not isinstance(value, str):
        raise InvalidArgumentError(path, "must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(path, "is not valid Unicode") from None
    if name == "message" and not value.strip() and not {"data", "files", "task_id"} & given.keys():
        raise InvalidArgumentError(path, "must not be empty")
    return value


def _optional_text(given: Mapping[str, Any], name: str, limit: int, path: str = "") -> str | None:
    """A text, or None if it is missing or empty: models write "" where they mean nothing."""
    if given.get(name) is None:
        return None
    text = _text(given, name, path)
    if len(text) > limit:
        raise InvalidArgumentError(path or _path(name), f"must have at most {limit} characters")
    return text or None


def _data(value: Any) -> JsonObject:
    if not isinstance(value, dict):
        raise InvalidArgumentError(_path("data"), "must be an object")
    return cast(JsonObject, value)


def _files(value: Any) -> list[File]:
    if not isinstance(value, list):
        raise InvalidArgumentError(_path("files"), "must be an array")
    files = cast(Sequence[Any], value)
    if len(files) > MAX_FILES:
        raise InvalidArgumentError(_path("files"), f"must have at most {MAX_FILES} files")
    return [_file(file, _path(f"files[{number}]")) for number, file in enumerate(files)]


def _file(value: Any, path: str) -> File:
    if not isinstance(value, dict):
        raise InvalidArgumentError(path, "must be an object")
    file = cast(Mapping[str, Any], value)
    for name in file:
        if name not in FILE_MEMBERS:
            raise InvalidArgumentError(f"{path}.{name[:100]}", f"unknown member; there are {', '.join(FILE_MEMBERS)}")
    if ("data" in file) == ("url" in file):
        raise InvalidArgumentError(path, "must have either data or url")
    name = _optional_text(file, "name", MAX_NAME, f"{path}.name")
    media_type = _optional_text(file, "media_type", MAX_NAME, f"{path}.media_type")
    if "url" in file:
        url = _optional_text(file, "url", MAX_URL, f"{path}.url")
        if url is None or not url.startswith(("http://", "https://")):
            raise InvalidArgumentError(f"{path}.url", "must begin with http:// or https://")
        return File(url, name, media_type)
    try:
        content = b64decode(_text(file, "data", f"{path}.data"), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgumentError(f"{path}.data", "is not valid base64") from None
    return File(content, name, media_type)
