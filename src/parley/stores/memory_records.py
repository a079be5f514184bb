"""Records in memory. Values are kept encoded, so that no reader can change them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from heapq import nsmallest

from msgspec import Struct

from parley.stores.encoding import decode_object, require_64_bits
from parley.stores.interface import Record, RecordChange, RecordKey
from parley.stores.record_changes import EncodedChange, encode_changes, next_revisions


class _Row(Struct, frozen=True, gc=False):
    value: str
    sort: int
    revision: int


class _Collection:
    """The records of one collection of a tenant, by id, and in the order of their lists."""

    def __init__(self) -> None:
        self.rows: dict[str, _Row] = {}
        self.order: list[tuple[int, str]] = []

    def replace(self, record_id: str, row: _Row | None) -> None:
        """Put a row in the place of the present one, if there is one; None deletes it."""
        if (present := self.rows.pop(record_id, None)) is not None:
            del self.order[bisect_left(self.order, (present.sort, record_id))]
        if row is not None:
            self.rows[record_id] = row
            insort(self.order, (row.sort, record_id))


class MemoryRecords:
    """Named JSON objects of tenants."""

    def __init__(self) -> None:
        self._collections: dict[tuple[str, str], _Collection] = {}
        self._last_numbers: dict[tuple[str, str], int] = {}

    async def get(self, key: RecordKey) -> Record | None:
        """One record."""
        row = self._row(key)
        return _decode_record(key, row) if row is not None else None

    async def write(self, *changes: RecordChange) -> None:
        """Make changes together, or none of them."""
        encoded = encode_changes(changes)
        rows = {change.key: self._row(change.key) for change in encoded}
        present = {key: row.revision if row is not None else 0 for key, row in rows.items()}
        for change, revision in zip(encoded, next_revisions(encoded, present), strict=True):
            self._apply(change, revision)

    def _apply(self, change: EncodedChange, revision: int) -> None:
        key, row = change.key, None
        if change.value is not None:
            row = _Row(change.value, change.sort, revision)
        collection = self._collections.setdefault((key.collection, key.tenant), _Collection())
        collection.replace(key.id, row)
        if not collection.rows:
            del self._collections[key.collection, key.tenant]

    async def list(
        self,
        collection: str,
        tenant: str,
        *,
        after: tuple[int, str] | None = None,
        limit: int,
        newest_first: bool = True,
    ) -> Sequence[Record]:
        """Records of a tenant, by falling `(sort, id)`, or by rising if not `newest_first`."""
        if after is not None:
            require_64_bits(after[0])
        found = self._collections.get((collection, tenant), _Collection())
        if newest_first:
            end = bisect_left(found.order, after) if after is not None else len(found.order)
            page = found.order[max(end - limit, 0) : end][::-1]
        else:
            begin = bisect_right(found.order, after) if after is not None else 0
            page = found.order[begin : begin + limit]
        return [_decode_record(RecordKey(collection, tenant, each), found.rows[each]) for _, each in page]

    async def list_all(self, collection: str, *, after: tuple[str, str] | None = None, limit: int) -> Sequence[Record]:
        """Records of all tenants, by rising `(tenant, id)`."""
        later = (
            ((tenant, record_id), row)
            for (name, tenant), found in self._collections.items()
            if name == collection
            for record_id, row in found.rows.items()
            if after is None or (tenant, record_id) > after
        )
        page = nsmallest(limit, later, key=lambda each: each[0])
        return [_decode_record(RecordKey(collection, *tenant_and_id), row) for tenant_and_id, row in page]

    async def count(self, collection: str, tenant: str) -> int:
        """How many records a tenant has in a collection."""
        found = self._collections.get((collection, tenant))
        return len(found.rows) if found is not None else 0

    async def next_number(self, name: str, tenant: str, *, after: int = 0) -> int:
        """The next number of a series of a tenant, from 1 on."""
        require_64_bits(after + 1)
        number = self._last_numbers[name, tenant] = max(self._last_numbers.get((name, tenant), 0), after) + 1
        return number

    def _row(self, key: RecordKey) -> _Row | None:
        found = self._collections.get((key.collection, key.tenant))
        return found.rows.get(key.id) if found is not None else None


def _decode_record(key: RecordKey, row: _Row) -> Record:
    return Record(key, decode_object(row.value), row.sort, row.revision)
