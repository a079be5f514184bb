"""What differs between two constitutions: member by member, with a line diff of long texts and lists.

A member of an object is named with its path, such as `advisor.mode`. One that a constitution does not have is shown as
null. The module compares values, and knows neither versions nor the store.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff

from msgspec import UNSET, Struct, UnsetType

from parley.host.constitution import Constitution, render
from parley.protocol.jsonvalue import JsonObject, JsonValue

LONG_TEXT = 80
"""Characters of a text from which on its lines are compared."""

MOST_LINES = 300
"""Of the two texts together: comparing lines takes time that grows with the third power of their number."""


class MemberChange(Struct, frozen=True):
    """One member that differs."""

    member: str
    before: JsonValue
    after: JsonValue
    lines: str | UnsetType = UNSET
    """The difference of a long text or a list in the unified format, line by line."""


def diff_constitutions(before: Constitution, after: Constitution) -> Sequence[MemberChange]:
    """The members in which two constitutions differ, in the order in which they are shown."""
    old, new = dict(_members(render(before))), dict(_members(render(after)))
    names = [*old, *(name for name in new if name not in old)]
    return [
        MemberChange(name, old.get(name), new.get(name), _lines(old.get(name), new.get(name)))
        for name in names
        if old.get(name) != new.get(name)
    ]


def _members(value: JsonObject, prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    for name, member in value.items():
        if isinstance(member, dict):
            yield from _members(member, f"{prefix}{name}.")
        else:
            yield prefix + name, member


def _lines(before: JsonValue, after: JsonValue) -> str | UnsetType:
    old, new = _as_lines(before), _as_lines(after)
    is_long = len(old) > 1 or len(new) > 1 or any(len(line) > LONG_TEXT for line in (*old, *new))
    if not is_long or len(old) + len(new) > MOST_LINES:
        return UNSET
    return "\n".join(unified_diff(old, new, "before", "after", lineterm=""))


def _as_lines(value: JsonValue) -> list[str]:
    """The lines of a text, or the items of a list."""
    if isinstance(value, list):
        return [line for item in value for line in str(item).split("\n")]
    return value.split("\n") if isinstance(value, str) else []
