"""Records: named JSON objects of tenants, for what is not a task (agents, conversations, memory, files, audit).

A record has a collection, a tenant and an id; its revision counts its writes from 1. A write of several changes is one
transaction: all of them happen, in their order, or none. Changes may demand the revision that they were made for. Lists
are in the order of `sort`, a number of 64 bits that the writer chooses, and then of the id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from parley.protocol.jsonvalue import JsonObject


class RecordKey(Struct, frozen=True, gc=False):
    """One record of a tenant; the empty tenant is that of the host."""

    collection: str
    tenant: str
    id: str


class Record(Struct, frozen=True, gc=False):
    """A record as it was written last."""

    key: RecordKey
    value: JsonObject
    sort: int
    revision: int
    problem: str = ""
    """Why its secrets cannot be read; they are empty then. Only records of lists have one: `get` raises."""


class PutRecord(Struct, frozen=True, gc=False):
    """Creates or replaces a record. `expected` is the revision that it must have; 0: there must be none; None: any."""

    key: RecordKey
    value: JsonObject
    sort: int = 0
    expected: int | None = None


class DeleteRecord(Struct, frozen=True, gc=False):
    """Deletes a record, if there is one. `expected` is the revision that it must have; None: any."""

    key: RecordKey
    expected: int | None = None


RecordChange: TypeAlias = PutRecord | DeleteRecord


class Records(Protocol):
    """Named JSON objects of tenants."""

    async def get(self, key: RecordKey) -> Record | None:
        """One record. Raises StoreUnavailableError if its secrets cannot be read."""
        ...

    async def write(self, *changes: RecordChange) -> None:
        """Make changes together, durably.

        Raises:
            RecordConflictError: a record does not have the revision that its change expects; nothing was written.
            StoreError: a change holds something that cannot be kept; nothing was written.
        """
        ...

    async def list(
        self,
        collection: str,
        tenant: str,
        *,
        after: tuple[int, str] | None = None,
        limit: int,
        newest_first: bool = True,
    ) -> Sequence[Record]:
        """Records of a tenant, by falling `(sort, id)`, or by rising if not `newest_first`.

        `after` is the (sort, id) of the last record of the page before. A record whose secrets cannot be read is in the
        list, too, with its `problem`.
        """
        ...

    async def list_all(self, collection: str, *, after: tuple[str, str] | None = None, limit: int) -> Sequence[Record]:
        """Records of all tenants, by rising `(tenant, id)`; `after` is that of the last one of the page before.

        A record whose secrets cannot be read is in the list, too, with its `problem`.
        """
        ...

    async def count(self, collection: str, tenant: str) -> int:
        """How many records a tenant has in a collection."""
        ...

    async def next_number(self, name: str, tenant: str, *, after: int = 0) -> int:
        """The next number of a series of a tenant, from 1 on, and greater than `after`.

        No number is given twice, also after a crash.
        """
        ...
