"""Writes of records, many in one transaction: revisions are read and locked together, and changes written together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from parley.stores.interface import RecordConflictError, RecordKey
from parley.stores.postgres.statements import load_statements
from parley.stores.record_changes import EncodedChange, next_revisions

STATEMENTS = load_statements("records")


async def write_records(
    connection: asyncpg.Connection, writes: Sequence[Sequence[EncodedChange]]
) -> list[RecordConflictError | None]:
    """Make the changes of each write, which sees those before it; for each that conflicts, the error."""
    keys = {change.key for changes in writes for change in changes}
    before: dict[RecordKey, int] = dict.fromkeys(keys, 0)
    for collection, tenant, record_id, revision in await connection.fetch(STATEMENTS["lock"], *_columns(keys)):
        before[RecordKey(collection, tenant, record_id)] = revision
    present, rows = dict(before), dict[RecordKey, tuple[Any, ...] | None]()
    errors: list[RecordConflictError | None] = []
    for changes in writes:
        try:
            revisions = next_revisions(changes, present)
        except RecordConflictError as error:
            errors.append(error)
            continue
        errors.append(None)
        for change, revision in zip(changes, revisions, strict=True):
            present[change.key] = revision
            rows[change.key] = (change.sort, revision, change.value) if change.value is not None else None
    await _store(connection, before, rows)
    return errors


async def _store(
    connection: asyncpg.Connection, before: dict[RecordKey, int], rows: dict[RecordKey, tuple[Any, ...] | None]
) -> None:
    """Leave each record as the last change of it says."""
    deleted = [key for key, row in rows.items() if row is None and before[key]]
    if deleted:
        await connection.execute(STATEMENTS["delete"], *_columns(deleted))
    for statement, is_there in (("insert", False), ("update", True)):
        kept = sorted(
            [
                (key.collection, key.tenant, key.id, *row)
                for key, row in rows.items()
                if row is not None and bool(before[key]) is is_there
            ]
        )
        if kept:
            await connection.execute(STATEMENTS[statement], *[list(column) for column in zip(*kept, strict=True)])


def _columns(keys: set[RecordKey] | list[RecordKey]) -> tuple[list[str], list[str], list[str]]:
    return [key.collection for key in keys], [key.tenant for key in keys], [key.id for key in keys]
