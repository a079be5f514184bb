"""The types of free-form JSON: `metadata`, data parts, extension parameters.

These are the only members in which A2A lets a peer send any JSON. Everything else is typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
else:
    JsonValue = Any  # msgspec cannot build a decoder for a recursive alias; any JSON is what it would accept

JsonObject: TypeAlias = dict[str, JsonValue]
