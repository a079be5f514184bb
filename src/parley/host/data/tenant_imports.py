"""Which exports were imported, and which are being imported: each export once, so that no tenant is there twice.

An import that a crash has cut off is known by its worker, which is dead. What it left is removed before the next one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
from msgspec import Struct, to_builtins

from parley.host.data.keys import HOST, TENANT_IMPORTS
from parley.host.data.paging import each_record
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordKey, Records


class TenantImport(Struct, frozen=True):
    """One import. `at` is in seconds since 1970."""

    export_id: str
    tenant: str
    """The id of the new tenant."""
    worker: str
    """The process that imports it."""
    at: int
    is_done: bool = False


class TenantImports:
    """The imports of a host."""

    def __init__(self, records: Records) -> None:
        self._records = records

    async def find(self, export_id: str) -> TenantImport | None:
        """The import of an export, if there was or is one."""
        record = await self._records.get(_key(export_id))
        return None if record is None else _decode(record)

    async def begin(self, one: TenantImport) -> None:
        """Note an import that begins. Raises RecordConflictError if another process has just begun it."""
        await self._records.write(PutRecord(_key(one.export_id), to_builtins(one), one.at, expected=0))

    def done(self, one: TenantImport) -> PutRecord:
        """The change that notes the end of an import. Write it with the tenant."""
        value = to_builtins(TenantImport(one.export_id, one.tenant, one.worker, one.at, is_done=True))
        return PutRecord(_key(one.export_id), value, one.at, expected=1)

    async def forget(self, one: TenantImport) -> None:
        """Forget an import that has failed, when nothing of it is left."""
        await self._records.write(DeleteRecord(_key(one.export_id)))

    async def cut_off(self, live: frozenset[str]) -> AsyncIterator[TenantImport]:
        """The imports that are not done and whose workers are dead."""
        async for record in each_record(self._records, TENANT_IMPORTS, HOST):
            one = _decode(record)
            if not one.is_done and one.worker not in live:
                yield one


def _key(export_id: str) -> RecordKey:
    return RecordKey(TENANT_IMPORTS, HOST, export_id)


def _decode(record: Record) -> TenantImport:
    return msgspec.convert(record.value, TenantImport)
