"""Context values: what an agent keeps for a conversation with an owner."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from msgspec import Struct

from parley.protocol.jsonvalue import JsonValue
from parley.stores.interface.keys import Owner


class ContextKey(Struct, frozen=True, gc=False):
    """One conversation between an owner and an agent."""

    owner: Owner
    agent: str
    context_id: str


class ContextValues(Protocol):
    """Named JSON values of conversations."""

    async def put(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value for a context, written at a moment; None deletes it."""
        ...

    async def get(self, context: ContextKey) -> dict[str, JsonValue]:
        """All values of a context."""
        ...

    async def delete_unused(self, *, before: datetime, limit: int) -> int:
        """Delete the values of contexts that have no task left and were last written before a moment.

        Returns how many contexts that were, at most `limit`.
        """
        ...
