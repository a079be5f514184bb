"""What a write of records does in every store: its values as text, and the revisions that it expects and leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from parley.sealed.sealer import Sealer
from parley.stores.encoding import encode, require_64_bits, require_encodable
from parley.stores.interface import PutRecord, RecordChange, RecordConflictError, RecordKey
from parley.stores.secret_fields import seal_record


class EncodedChange(Struct, frozen=True, gc=False):
    """A change that can be kept. `value` is JSON; None deletes the record."""

    key: RecordKey
    value: str | None
    sort: int
    expected: int | None


def encode_changes(changes: Sequence[RecordChange], sealer: Sealer | None = None) -> list[EncodedChange]:
    """Changes, encoded, with their secrets encrypted if there is a sealer.

    Raises:
        StoreError: one of them holds something that cannot be kept.
    """
    return [_encode_change(change, sealer) for change in changes]


def _encode_change(change: RecordChange, sealer: Sealer | None) -> EncodedChange:
    key = change.key
    require_encodable(key.collection, key.tenant, key.id)
    if isinstance(change, PutRecord):
        require_64_bits(change.sort)
        value = change.value if sealer is None else seal_record(sealer, key, change.value)
        return EncodedChange(key, encode(value), change.sort, change.expected)
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
