"""What a store in memory keeps of an owner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parley.stores.interface import ContextKey, Owner, SendKey, SendRecord

if TYPE_CHECKING:
    from parley.stores.memory import MemoryDatabase


class MemoryOwnerData:
    """Context values and sends by owner."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    async def owners(self, *, after: Owner | None = None, limit: int) -> Sequence[Owner]:
        """Owners of tasks, context values or sends, by tenant and name."""
        known = {
            *self._data.owned,
            *(key.owner for key in self._data.contexts),
            *(owner for owner, _ in self._data.sends),
        }
        rest = [owner for owner in known if after is None or (owner.tenant, owner.name) > (after.tenant, after.name)]
        return sorted(rest, key=lambda owner: (owner.tenant, owner.name))[:limit]

    async def contexts(
        self, owner: Owner, *, agent: str | None = None, context_id: str | None = None
    ) -> Sequence[ContextKey]:
        """The contexts of an owner that hold values."""
        found = [
            key
            for key in self._data.contexts
            if key.owner == owner and agent in (None, key.agent) and context_id in (None, key.context_id)
        ]
        return sorted(found, key=lambda key: (key.agent, key.context_id))

    async def delete_context(self, context: ContextKey) -> int:
        """Delete all values of a context; how many there were."""
        return len(self._data.contexts.pop(context, {}))

    async def sends(
        self, owner: Owner, *, after: SendKey | None = None, limit: int
    ) -> Sequence[tuple[SendKey, SendRecord]]:
        """What became of an owner's messages, by message id and digest."""
        found = [
            (send, record)
            for (sender, send), record in self._data.sends.items()
            if sender == owner and (after is None or _order(send) > _order(after))
        ]
        return sorted(found, key=lambda pair: _order(pair[0]))[:limit]

    async def delete_sends(self, owner: Owner, sends: Sequence[SendKey]) -> int:
        """Delete the records of messages; how many there were."""
        return sum(self._data.sends.pop((owner, send), None) is not None for send in sends)

    async def erase(self) -> bool:
        """Nothing: memory that was let go is not a file."""
        return True


def _order(send: SendKey) -> tuple[str, bytes]:
    return send.message_id, send.digest
