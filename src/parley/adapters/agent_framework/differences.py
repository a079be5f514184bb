"""Differences between JSON values, so that each checkpoint of a workflow stores only what is new in it."""

from __future__ import annotations

from typing import Any

import msgspec


def difference_of(old: Any, new: Any) -> Any:
    """What makes one value of another: a new value, or differences of an object's members."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return {"value": new}
    members = {name: difference_of(old.get(name), each) for name, each in new.items() if not _is_same(old, name, each)}
    return {"members": members, "removed": [name for name in old if name not in new]}


def changed_by(old: Any, difference: Any) -> Any:
    """The value that a difference makes of another."""
    if "value" in difference:
        return difference["value"]
    kept = {name: value for name, value in old.items() if name not in difference["removed"]}
    return {**kept, **{name: changed_by(kept.get(name), each) for name, each in difference["members"].items()}}


def _is_same(old: Any, name: str, value: Any) -> bool:
    """Whether a member has this value. In JSON, unlike in Python, 1 and true are not the same."""
    return old.get(name, ...) == value and msgspec.json.encode(old[name]) == msgspec.json.encode(value)
