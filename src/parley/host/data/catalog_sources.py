"""AI Catalogs elsewhere that tenants have added, and the entries that were found there last.

A catalogue's entries are kept beside it, in a record of their own, which is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.ai_catalog.model import AiCatalogEntry
from parley.engine.clock import Clock
from parley.host.data.audit import Audit
from parley.host.data.epoch import seconds
from parley.host.data.errors import AlreadyExistsError, LimitReachedError, NotFoundError
from parley.host.data.keys import CATALOG_SOURCE_ENTRIES, CATALOG_SOURCES
from parley.host.data.registered_agents import read_secret, secret_change
from parley.host.data.registry_checks import CheckOutcome, RegistryChecks
from parley.host.data.transactions import Decision, TenantTransactions
from parley.stores.interface import DeleteRecord, PutRecord, Record, RecordKey, Records

MAX_SOURCES = 10
MAX_SOURCE_ENTRIES = 1_000
"""Entries that are kept of one catalogue, with those that it names: some 500 KB."""


class CatalogSource(Struct, frozen=True):
    """A catalogue that a tenant has added. Times are seconds since 1970."""

    name: str
    url: str
    has_token: bool
    created_at: int
    read_at: int = 0
    entry_count: int = 0
    digest: str = ""
    """Of its entries."""
    problems: tuple[str, ...] = ()
    is_complete: bool = True


class KeptCatalogEntries(Struct, frozen=True):
    """The entries of a catalogue, as they are stored."""

    entries: tuple[AiCatalogEntry, ...]


class CatalogSourceNotFoundError(NotFoundError):
    """The tenant has not added such a catalogue."""


class CatalogSources:
    """The added catalogues of all tenants."""

    def __init__(self, records: Records, clock: Clock, checks: RegistryChecks) -> None:
        self._records = records
        self._clock = clock
        self._checks = checks
        self._audit = Audit(records, clock)
        self._transactions = TenantTransactions(records, clock)

    async def get(self, tenant: str, name: str) -> CatalogSource:
        """One catalogue. Raises CatalogSourceNotFoundError."""
        return _decode(await self._read(tenant, name))

    async def list(self, tenant: str) -> Sequence[CatalogSource]:
        """All catalogues of a tenant, by name."""
        records = await self._records.list(CATALOG_SOURCES, tenant, limit=MAX_SOURCES)
        return sorted(map(_decode, records), key=lambda source: source.name)

    async def entries(self, tenant: str, name: str) -> Sequence[AiCatalogEntry]:
        """The entries that were found in a catalogue last."""
        record = await self._records.get(RecordKey(CATALOG_SOURCE_ENTRIES, tenant, name))
        return () if record is None else msgspec.convert(record.value, KeptCatalogEntries).entries

    async def token(self, tenant: str, name: str) -> str | None:
        """The token that a catalogue's server gets."""
        return await read_secret(self._records, tenant, _secret_id(name))

    async def add(
        self,
        tenant: str,
        source: CatalogSource,
        entries: Sequence[AiCatalogEntry],
        *,
        token: str | None,
        actor: str,
        next_check: datetime,
    ) -> CatalogSource:
        """Add a catalogue that was read just now.

        Raises:
            AlreadyExistsError: the tenant has added one of this name.
            LimitReachedError: the tenant has too many.
        """

        async def decide() -> Decision[CatalogSource]:
            if await self._records.get(_key(tenant, source.name)) is not None:
                raise AlreadyExistsError(f"catalogue '{source.name}' is there already for this tenant")
            if await self._records.count(CATALOG_SOURCES, tenant) >= MAX_SOURCES:
                raise LimitReachedError(f"a tenant may add {MAX_SOURCES} catalogues; remove one first")
            now = seconds(self._clock.now())
            added = structs.replace(source, has_token=token is not None, created_at=now, read_at=now)
            changes = [
                PutRecord(_key(tenant, source.name), to_builtins(added), now, expected=0),
                _entries_change(tenant, source.name, entries),
                secret_change(tenant, _secret_id(source.name), token),
                self._checks.first(tenant, "source", source.name, CheckOutcome("healthy"), due=next_check),
                await self._audit.entry(
                    "add_catalog", f"{tenant}/{source.name}", actor=actor, kind="catalog", after={"read_at": now}
                ),
            ]
            return added, changes

        return await self._transactions.run(tenant, decide)

    async def refresh(self, tenant: str, source: CatalogSource, entries: Sequence[AiCatalogEntry]) -> CatalogSource:
        """Replace the entries of a catalogue that was read again. Raises CatalogSourceNotFoundError."""

        async def decide() -> Decision[CatalogSource]:
            record = await self._read(tenant, source.name)
            after = structs.replace(source, read_at=seconds(self._clock.now()))
            put = PutRecord(record.key, to_builtins(after), record.sort, expected=record.revision)
            is_same = _decode(record).digest == source.digest
            return after, [put] if is_same else [put, _entries_change(tenant, source.name, entries)]

        return await self._transactions.run(tenant, decide)

    async def remove(self, tenant: str, name: str, *, actor: str) -> None:
        """Remove a catalogue, its entries, its token and its checks. Raises CatalogSourceNotFoundError."""

        async def decide() -> Decision[None]:
            record = await self._read(tenant, name)
            changes = [
                DeleteRecord(record.key, record.revision),
                DeleteRecord(RecordKey(CATALOG_SOURCE_ENTRIES, tenant, name)),
                secret_change(tenant, _secret_id(name), None),
                self._checks.last(tenant, "source", name),
                await self._audit.entry("remove_catalog", f"{tenant}/{name}", actor=actor, kind="catalog"),
            ]
            return None, changes

        await self._transactions.run(tenant, decide)

    async def _read(self, tenant: str, name: str) -> Record:
        record = await self._records.get(_key(tenant, name))
        if record is None:
            raise CatalogSourceNotFoundError(f"no catalogue '{name[:100]}' for this tenant")
        return record


def _entries_change(tenant: str, name: str, entries: Sequence[AiCatalogEntry]) -> PutRecord:
    return PutRecord(RecordKey(CATALOG_SOURCE_ENTRIES, tenant, name), to_builtins(KeptCatalogEntries(tuple(entries))))


def _secret_id(name: str) -> str:
    return f"source/{name}"  # no name of an agent has a slash


def _key(tenant: str, name: str) -> RecordKey:
    return RecordKey(CATALOG_SOURCES, tenant, name)


def _decode(record: Record) -> CatalogSource:
    return msgspec.convert(record.value, CatalogSource)
