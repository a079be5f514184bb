"""What a write of records does in every store: its values as text, and the revisions that it expects and leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from parley.stores.encoding import encode, require_64_bits, require_encodable
from parley.stores.interface import PutRecord, RecordChange, RecordConflictError, RecordKey


class EncodedChange(Struct, frozen=True, gc=False):
    """A change that can be kept. `value` is JSON; None deletes the record."""

    key: RecordKey
    value: str | None
    sort: int
    expected: int | None


def encode_changes(changes: Sequence[RecordChange]) -> list[EncodedChange]:
    """Changes, encoded.

    Raises:
        StoreError: one of them holds something that cannot be kept.
    """
    return [_encode_change(change) for change in changes]


def _encode_change(change: RecordChange) -> EncodedChange:
    key = change.key
    require_encodable(key.collection, key.tenant, key.id)
    if isinstance(change, PutRecord):
        require_64_bits(change.sort)
        return EncodedChange(key, encode(change.value), change.sort, change.expected)
    return EncodedChange(key, None, 0, change.expected)


def next_revisions(changes: Sequence[EncodedChange], present: Mapping[RecordKey, int]) -> list[int]:
    """The revisions of the records after each change, which sees those before it; 0 where there is no record.

    Raises:
        RecordConflictError: a record does not have the revision that its change expects.
    """
    revisions = dict(present)
    after: list[int] = []
    for change in changes:
        revision = revisions[change.key]
        if change.expected not in (None, revision):
            raise RecordConflictError(change.key)
        revisions[change.key] = revision + 1 if change.value is not None else 0
        after.append(revisions[change.key])
    return after
