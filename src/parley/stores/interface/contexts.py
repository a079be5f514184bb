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


CONVERSATION = "urn:parley:conversation:1 "
"""Names with this prefix are of large values, which are read one by one: what a framework knows of a conversation."""


class ContextValues(Protocol):
    """Named JSON values of conversations."""

    async def put(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value for a context, written at a moment; None deletes it."""
        ...

    async def get(self, context: ContextKey) -> dict[str, JsonValue]:
        """All values of a context, except those whose names begin with `CONVERSATION`."""
        ...

    async def conversations(self, context: ContextKey) -> list[str]:
        """The names of a context's values that begin with `CONVERSATION`, in order."""
        ...

    async def value(self, context: ContextKey, name: str) -> JsonValue:
        """One value of a context, of any name; None if there is none."""
        ...

    async def delete_unmarked(self, context: ContextKey, name: str, *, marks: str) -> None:
        """Delete a value of a context, unless this name is the value of one whose name begins with `marks`.

        It is one change: a mark that is written at the same time either keeps the value, or finds that it is gone.
        """
        ...

    async def delete_unused(
        self, *, before: datetime, limit: int, tenant: str | None = None, agent: str | None = None
    ) -> int:
        """Delete the values of contexts that have no task left and were last written before a moment.

        Of all tenants and agents, or of one. Returns how many contexts that were, at most `limit`.
        """
        ...
