"""The recorded conversations in `golden/`, and what it means that two JSON values say the same.

`meaning` is the only yardstick: it knows which spellings the protocol declares equal, rule by rule, and nothing else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from parley.protocol.operations import BY_NAME, Operation
from parley.protocol.versions import Version

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True)
class Golden:
    """One recorded exchange; `name` is its path without the ending."""

    name: str
    version: Version
    binding: str
    operation: Operation | None
    request: dict[str, Any]
    reply: dict[str, Any]

    @property
    def request_body(self) -> bytes:
        """What the caller posted; empty where nothing."""
        return _bytes_of(self.request)

    @property
    def reply_body(self) -> bytes:
        """What the agent answered, if not with a stream."""
        return _bytes_of(self.reply)

    @property
    def version_header(self) -> str | None:
        """The `A2A-Version` that the caller stated."""
        return self.request["headers"].get("a2a-version")


def _bytes_of(half: dict[str, Any]) -> bytes:
    return json.dumps(half["body"]).encode() if "body" in half else half.get("text", "").encode()


def load(binding: str) -> list[Golden]:
    """All exchanges over one binding (`jsonrpc`, `rest`, `grpc`), or all `card`s or `push`es, by name."""
    return [_read(path) for path in sorted(FOLDER.glob(f"*/{binding}/*.json"))]


def _read(path: Path) -> Golden:
    content = json.loads(path.read_text())
    return Golden(
        name=path.relative_to(FOLDER).with_suffix("").as_posix(),
        version=Version(content["dialect"]),
        binding=content["binding"],
        operation=BY_NAME[content["operation"]] if content["operation"] else None,
        request=content["request"],
        reply=content["reply"],
    )


# --- what values mean -------------------------------------------------------------------------------------------------

FREE = {"metadata", "params", "header", "data"}
"""Members whose content belongs to the speaker: none of the rules reaches into them, except the one on numbers."""

EMPTY_IS_ABSENT = {
    "configId",  # 0.3 protobuf: a webhook without an id of its own
    "description",
    "extensions",
    "filename",
    "history",
    "mediaType",
    "metadata",
    "referenceTaskIds",
}
"""Members that ProtoJSON writers spell out when empty, as a2a-sdk does in lists of tasks."""

FALSE_IS_ABSENT = {"append", "lastChunk", "required"}
"""Flags whose default is false in every version that has them."""

TIMESTAMPS = {"timestamp", "statusTimestampAfter"}


def meaning(value: Any) -> str:
    """What a JSON value says, as text to compare. The rules, and there are no others:

    1. the order of an object's members is nothing;
    2. a whole number is the same with and without its fraction, `4` and `4.0` (protobuf has doubles only);
    3. an empty member of `EMPTY_IS_ABSENT` and a false one of `FALSE_IS_ABSENT` is absent;
    4. `TIMESTAMPS` are instants: `…00.5Z` is `…00.500000+00:00`;
    5. names may be in snake_case, and `request` may stand for the `message` of a send: ProtoJSON allows the protobuf's
       own names, which a2a-sdk 1.x writes to 0.3 REST;
    6. a 0.3 card may list its main endpoint among the additional ones or not, and give its version with a patch
       number or not.
    """
    return json.dumps(_plain(value), indent=1, sort_keys=True, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return _number(value)
    members = {_camel_case(name): item for name, item in value.items()}
    if "content" in members.get("request", ()):
        members["message"] = members.pop("request")
    if "preferredTransport" in members:
        members = _card(members)
    return {name: _member(name, item) for name, item in members.items() if not _is_absent(name, item)}


def _member(name: str, value: Any) -> Any:
    if name in FREE:
        return _free(value)
    if name in TIMESTAMPS:
        return datetime.fromisoformat(value).timestamp()
    return _plain(value)


def _is_absent(name: str, value: Any) -> bool:
    return (name in EMPTY_IS_ABSENT and value in ("", [], {})) or (name in FALSE_IS_ABSENT and value is False)


def _free(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _free(item) for name, item in value.items()}
    return [_free(item) for item in value] if isinstance(value, list) else _number(value)


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _camel_case(name: str) -> str:
    return re.sub("_([a-z])", lambda found: found[1].upper(), name)


def _card(card: dict[str, Any]) -> dict[str, Any]:
    main = {"url": card.get("url"), "transport": card["preferredTransport"]}
    others = [interface for interface in card.get("additionalInterfaces", []) if interface != main]
    release = ".".join(card.get("protocolVersion", "").split(".")[:2])
    return {**card, "additionalInterfaces": [main, *others], "protocolVersion": release}
