"""Exports and imports of a host's tenants, and what the host must learn when one was imported."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable

from parley.engine.clock import Clock
from parley.engine.engine import Engine
from parley.host.data.audit import Audit
from parley.host.data.tenants import Tenants
from parley.host.transfer.exporting import TenantExport
from parley.host.transfer.importing import ImportedTenant, TenantImporter


class TenantTransfer:
    """Moves tenants from one host to another."""

    def __init__(
        self, engine: Engine, tenants: Tenants, clock: Clock, *, learn_tenant: Callable[[str], Awaitable[None]]
    ) -> None:
        """`learn_tenant` reads everything of a tenant that the host keeps in memory."""
        self._store = engine.store
        self._tenants = tenants
        self._clock = clock
        self._learn_tenant = learn_tenant
        self._audit = Audit(engine.store.records, clock)
        self._importer = TenantImporter(engine.store, tenants, clock, worker=engine.lease.worker)

    async def remove_cut_off(self) -> None:
        """Remove what imports have left that a crash cut off, before anything of it is loaded."""
        await self._importer.remove_cut_off()

    async def export(self, tenant_id: str, *, actor: str) -> TenantExport:
        """An export that begins. It is in the audit. Raises TenantNotFoundError."""
        tenant, export_id = self._tenants.get(tenant_id), secrets.token_hex(16)
        entry = await self._audit.entry(
            "export_tenant", tenant_id, actor=actor, kind="tenant", after={"export": export_id}
        )
        await self._store.records.write(entry)
        return TenantExport(self._store, self._clock, tenant, export_id=export_id)

    async def import_file(self, chunks: AsyncIterator[bytes], *, name: str | None, actor: str) -> ImportedTenant:
        """Import a file as a new tenant. Raises as `TenantImporter.run`."""
        imported = await self._importer.run(chunks, name=name, actor=actor)
        await self._learn_tenant(imported.tenant.id)
        return imported
