"""Serialised values of LangGraph as JSON. Lists are serialised item by item, so that only new items are written."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any, TypeAlias

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from parley.protocol.jsonvalue import JsonObject, JsonValue

ITEMS = "items"
"""The serialised type of a list whose items are serialised one by one."""

Typed: TypeAlias = tuple[str, Any]
"""How LangGraph serialises a value: the type of the encoding, and bytes. With `ITEMS` it is a list of such items."""


class ItemSerializer(JsonPlusSerializer):
    """LangGraph's serialiser, except that the items of a list are serialised one by one, to be compared."""

    def dumps_typed(self, obj: Any) -> Typed:
        """The value with its type."""
        dumps = super().dumps_typed
        return (ITEMS, [dumps(item) for item in obj]) if type(obj) is list else dumps(obj)

    def loads_typed(self, data: Typed) -> Any:
        """The value again."""
        loads = super().loads_typed
        return [loads(item) for item in data[1]] if data[0] == ITEMS else loads(data)


def writes_json(
    thread_id: str, namespace: str, checkpoint_id: str, writes: dict[tuple[str, int], tuple[str, str, Typed, str]]
) -> JsonObject:
    """What tasks have written to a checkpoint, as JSON."""
    listed: list[JsonValue] = [
        [task_id, index, channel, typed_json(value), path]
        for (task_id, index), (_, channel, value, path) in writes.items()
    ]
    return {"thread": thread_id, "ns": namespace, "id": checkpoint_id, "writes": listed}


def typed_json(value: Typed) -> JsonValue:
    """A serialised value as JSON."""
    if value[0] == ITEMS:
        return {"more": [typed_json(item) for item in value[1]]}
    return [value[0], b64encode(value[1]).decode()]


def typed_value(value: Any) -> Typed:
    """A serialised value from its JSON."""
    if isinstance(value, dict):
        return ITEMS, [typed_value(item) for item in value["more"]]
    return value[0], b64decode(value[1])
