"""What a store keeps of an owner beside its tasks, to export it, and to delete it so that its bytes are gone, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from parley.stores.interface.contexts import ContextKey
from parley.stores.interface.keys import Owner
from parley.stores.interface.sends import SendKey, SendRecord


class OwnerData(Protocol):
    """Context values and sends by owner. Tasks are listed and deleted in the task log."""

    async def owners(self, *, after: Owner | None = None, limit: int) -> Sequence[Owner]:
        """Owners of tasks, context values or sends, by tenant and name; those that come after another one."""
        ...

    async def contexts(
        self, owner: Owner, *, agent: str | None = None, context_id: str | None = None
    ) -> Sequence[ContextKey]:
        """The contexts of an owner that hold values: all, those of an agent, or those of a context id."""
        ...

    async def delete_context(self, context: ContextKey) -> int:
        """Delete all values of a context, of whatever name; how many there were."""
        ...

    async def sends(
        self, owner: Owner, *, after: SendKey | None = None, limit: int
    ) -> Sequence[tuple[SendKey, SendRecord]]:
        """What became of an owner's messages, by message id and digest; those that come after another one."""
        ...

    async def delete_sends(self, owner: Owner, sends: Sequence[SendKey]) -> int:
        """Delete the records of messages; how many there were."""
        ...

    async def erase(self) -> bool:
        """Overwrite what was deleted before, where the store can; False if other readers kept it from doing so.

        Until then, files of the store may hold bytes of it. A database of PostgreSQL has a VACUUM of its own: there
        this does nothing.
        """
        ...
