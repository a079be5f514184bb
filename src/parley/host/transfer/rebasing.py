"""Values of one tenant as those of another: names of principals and ids of the tenant in them."""

from __future__ import annotations

import re
from typing import cast

from msgspec import structs

from parley.host.origin import ORIGIN
from parley.protocol.events import MessageAdded, TaskEvent
from parley.protocol.jsonvalue import JsonObject, JsonValue

_KINDS = "tenant|token|account|person|schedule"


class Rebasing:
    """From one tenant to another. Only whole texts that name a principal of the old tenant are changed."""

    def __init__(self, old: str, new: str) -> None:
        self._old = old
        self._new = new
        self._principal = re.compile(rf"({_KINDS}):{re.escape(old)}((?:/.*)?)", re.DOTALL)

    def value(self, value: JsonObject) -> JsonObject:
        """A value that the host manages."""
        return cast("JsonObject", self._changed(value))

    def event(self, event: TaskEvent) -> TaskEvent:
        """An event of a task: only what the host says of a message's origin."""
        if not isinstance(event, MessageAdded) or ORIGIN not in event.message.metadata:
            return event
        metadata = {**event.message.metadata, ORIGIN: self._changed(event.message.metadata[ORIGIN])}
        return structs.replace(event, message=structs.replace(event.message, metadata=metadata))

    def _changed(self, value: JsonValue) -> JsonValue:
        match value:
            case str():
                return self._principal.sub(rf"\g<1>:{self._new}\g<2>", value) if self._is_principal(value) else value
            case dict():
                return {name: self._member(name, member) for name, member in value.items()}
            case list():
                return [self._changed(item) for item in value]
            case _:
                return value

    def _member(self, name: str, value: JsonValue) -> JsonValue:
        return self._new if name == "tenant" and value == self._old else self._changed(value)

    def _is_principal(self, text: str) -> bool:
        return self._principal.fullmatch(text) is not None
