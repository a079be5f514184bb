"""The import of an export into a new tenant, line by line: memory does not grow with the file.

The tenant does not exist until everything is there: its id is taken first, what is read is written under this id, and
the last write creates the tenant together with what the host acts on by itself (timers, ticks). An import that fails
removes what it has written. After a crash, the host does that when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from parley.engine.clock import Clock
from parley.host.data.epoch import seconds
from parley.host.data.errors import AlreadyExistsError
from parley.host.data.keys import HOST, SCHEDULE_TICKS, SCHEDULES
from parley.host.data.schedule_records import NEVER
from parley.host.data.tenant import Tenant
from parley.host.data.tenant_imports import TenantImport, TenantImports
from parley.host.data.tenants import Tenants
from parley.host.origin import owner_name
from parley.host.transfer.format import FORMAT, ExportedRecord, ExportHead, ExportLine, InvalidExportError, read_lines
from parley.host.transfer.rebasing import Rebasing
from parley.host.transfer.task_logs import TaskLogWriter
from parley.host.transfer.tenant_records import TENANT, remove_everything, rule_of
from parley.protocol.jsonvalue import JsonObject
from parley.stores.interface import PutRecord, Record, RecordConflictError, RecordKey, Store, StoreError

BATCH = 100
BATCH_BYTES = 1_000_000
MOST_HELD = 20_000
"""Records of the host that wait for the end: a tenant has up to a thousand schedules, and some timers."""

NOT_RESUMED = "It was imported from a tenant that was active, and may still run there."


class ImportedTenant(Struct, frozen=True):
    """A tenant that was imported, its token, how much there was, and what must be set again."""

    tenant: Tenant
    token: str
    records: int
    tasks: int
    set_again: Sequence[str]


class TenantImporter:
    """Imports tenants into a host, as one of its workers."""

    def __init__(self, store: Store, tenants: Tenants, clock: Clock, *, worker: str) -> None:
        self._store = store
        self._tenants = tenants
        self._clock = clock
        self._worker = worker
        self._imports = TenantImports(store.records)
        self._running: set[str] = set()
        """The exports that this worker imports now."""

    async def run(self, chunks: AsyncIterator[bytes], *, name: str | None, actor: str) -> ImportedTenant:
        """Import a file. `name` is that of the tenant; None: the one in the file.

        Raises:
            InvalidExportError: the file is not whole, was changed, or is too new; nothing was imported.
            AlreadyExistsError: the export was imported before.
            InvalidTenantError: the name is not valid.
        """
        lines = read_lines(chunks)
        head = await _read_head(lines)
        one = await self._begin(head.export_id)
        self._running.add(one.export_id)
        running = _RunningImport(self._store, head, one.tenant, self._clock)
        try:
            set_again = await running.read(lines)
            tenant = Tenant(one.tenant, name or head.name, quotas=head.quotas, settings=head.settings)
            changes = [*running.held.values(), self._imports.done(one)]
            created, token = await self._tenants.create_numbered(tenant, actor=actor, changes=changes)
        except BaseException:
            await asyncio.shield(asyncio.ensure_future(self._give_up(one, running)))
            raise
        finally:
            self._running.discard(one.export_id)
        return ImportedTenant(created, token, running.records, running.tasks.count, set_again)

    async def remove_cut_off(self) -> None:
        """Remove what imports have left whose processes have died."""
        live = await self._store.leases.live() | {self._worker}
        for one in [one async for one in self._imports.cut_off(live)]:
            await self._remove(one)

    async def _begin(self, export_id: str) -> TenantImport:
        before = await self._imports.find(export_id)
        if before is not None and before.is_done:
            raise AlreadyExistsError(f"this export was imported before, as tenant {before.tenant}")
        if before is not None:
            others = await self._store.leases.live() - {self._worker}
            if export_id in self._running or before.worker in others:
                raise AlreadyExistsError("this export is being imported")
            await self._remove(before)
        one = TenantImport(export_id, await self._tenants.take_number(), self._worker, seconds(self._clock.now()))
        try:
            await self._imports.begin(one)
        except RecordConflictError:
            raise AlreadyExistsError("this export is being imported") from None
        return one

    async def _give_up(self, one: TenantImport, running: _RunningImport) -> None:
        with suppress(InvalidExportError, StoreError):
            await running.tasks.flush()
        await self._remove(one)

    async def _remove(self, one: TenantImport) -> None:
        await remove_everything(self._store, one.tenant, owner_name)
        await self._imports.forget(one)


class _RunningImport:
    """The lines of one file, as they are written."""

    def __init__(self, store: Store, head: ExportHead, tenant: str, clock: Clock) -> None:
        self._store = store
        self._head = head
        self._tenant = tenant
        self._rebasing = Rebasing(head.tenant_id, tenant)
        self._batch: list[PutRecord] = []
        self._batch_bytes = 0
        self.tasks = TaskLogWriter(store, tenant, self._rebasing, clock)
        self.held: dict[RecordKey, PutRecord] = {}
        """What the host acts on as soon as it is there."""
        self.records = 0

    async def read(self, lines: AsyncIterator[tuple[int, ExportLine]]) -> Sequence[str]:
        """Write everything up to the end. Returns what must be set again."""
        set_again: Sequence[str] = ()
        async for number, line in lines:
            try:
                set_again = await self._take(line, number) or set_again
            except RecordConflictError:
                raise InvalidExportError("there are two records with one id", number) from None
            except StoreError as error:
                if isinstance(error.__cause__, UnicodeEncodeError | ValueError):
                    raise InvalidExportError("holds something that cannot be kept", number) from None
                raise
        return set_again

    async def _take(self, line: ExportLine, number: int) -> Sequence[str] | None:
        if line.events is None:
            self.tasks.finish(number)
        if line.record is not None:
            await self._take_record(line.record, number)
        elif line.series is not None:
            rule = rule_of(line.series.name) or rule_of(f"{line.series.name}/*")
            if rule is None or not rule.is_numbered or not 0 < line.series.last < 2**53:
                raise InvalidExportError(f"there is no series '{line.series.name[:100]}' with such a number", number)
            await self._store.records.next_number(line.series.name, self._tenant, after=line.series.last - 1)
        elif line.task is not None:
            self.tasks.begin(line.task, number)
        elif line.events is not None:
            await self.tasks.add(line.events, number)
        elif line.context is not None:
            await self.tasks.put_context_value(line.context, number)
        elif line.end is not None:
            await self._flush()
            await self.tasks.flush()
            return line.end.set_again
        else:
            raise InvalidExportError("there is a second head", number)
        return None

    async def _take_record(self, record: ExportedRecord, number: int) -> None:
        rule = rule_of(record.collection)
        if rule is None or rule.decision == "left out":
            raise InvalidExportError(f"this host does not import the collection '{record.collection[:100]}'", number)
        value = self._rebasing.value(record.value) if rule.names_principals else record.value
        key = RecordKey(record.collection, self._tenant, record.id)
        if rule.is_of_host:
            begin = next((begin for begin in rule.host_ids if record.id.startswith(begin)), None)
            if begin is None:
                raise InvalidExportError("the id does not belong to the tenant", number)
            own = begin.replace(TENANT, self._tenant) + record.id.removeprefix(begin)
            key = RecordKey(record.collection, HOST, own)
        value, sort = self._inactive(record.collection, value, record.sort)
        try:
            if rule.check is not None:
                rule.check(Record(key, value, sort, 1))
        except (msgspec.ValidationError, ValueError) as error:
            raise InvalidExportError(f"is not a record of '{rule.name}': {error}"[:500], number) from None
        put = PutRecord(key, value, sort, expected=0)
        self.records += 1
        if rule.is_of_host:
            self._hold(put, number)
        else:
            await self._put(put)

    def _hold(self, put: PutRecord, number: int) -> None:
        if put.key in self.held:
            raise InvalidExportError("there are two records with one id", number)
        if len(self.held) == MOST_HELD:
            raise InvalidExportError(f"there are more than {MOST_HELD} ticks and timers", number)
        self.held[put.key] = put

    def _inactive(self, collection: str, value: JsonObject, sort: int) -> tuple[JsonObject, int]:
        """A schedule that is paused if it may still run at the other host."""
        if self._head.was_active and collection == SCHEDULES and value.get("enabled", True):
            return {**value, "enabled": False, "pause_reason": NOT_RESUMED}, sort
        if self._head.was_active and collection == SCHEDULE_TICKS:
            kept = {name: one for name, one in value.items() if name not in ("next_tick", "pending", "not_before")}
            return kept, NEVER
        return value, sort

    async def _put(self, put: PutRecord) -> None:
        self._batch.append(put)
        self._batch_bytes += len(msgspec.json.encode(put.value))
        if len(self._batch) >= BATCH or self._batch_bytes >= BATCH_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        if self._batch:
            await self._store.records.write(*self._batch)
            self._batch, self._batch_bytes = [], 0


async def _read_head(lines: AsyncIterator[tuple[int, ExportLine]]) -> ExportHead:
    async for number, line in lines:
        if line.head is None:
            raise InvalidExportError("the file does not begin with the head of an export", number)
        if line.head.format > FORMAT:
            text = f"the file has format {line.head.format}; this host reads up to {FORMAT}. Update Parley"
            raise InvalidExportError(text, number)
        return line.head
    raise InvalidExportError("the file is empty", 1)
