"""The tenants of the host.

All tenants are in memory, so that a token is looked up without the store. Every change is written together with its
entry in the audit. It takes effect in memory when it is durable, also if its caller has gone by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, structs, to_builtins

from parley.engine.clock import Clock
from parley.host.data.audit import ADMIN, Audit, AuditAction
from parley.host.data.epoch import seconds
from parley.host.data.keys import HOST, TENANTS, number_id
from parley.host.data.paging import each_record
from parley.host.data.tenant import (
    Quotas,
    Tenant,
    TenantNotFoundError,
    TenantSettings,
    change_quotas,
    change_settings,
    checked_name,
)
from parley.host.data.tenant_tokens import TenantToken, check_overlap, new_tenant_token, rotated
from parley.host.data.tenant_use import TenantUse
from parley.host.data.transactions import Decision, TenantTransactions
from parley.protocol.jsonvalue import JsonObject
from parley.server.security.schemes.stored_secrets import hash_secret
from parley.stores.interface import PutRecord, Record, RecordChange, RecordKey, Records

T = TypeVar("T")


class _KeptTenant(Struct, frozen=True):
    """A tenant with its tokens, as it is stored."""

    tenant: Tenant
    tokens: tuple[TenantToken, ...]


_Revised: TypeAlias = tuple[_KeptTenant, int]
"""A tenant with the revision of its record."""


class Tenants:
    """All tenants. Call `load` before anything else."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._audit = Audit(records, clock)
        self._use = TenantUse(records, clock)
        self._transactions = TenantTransactions(records, clock)
        self._kept: dict[str, _Revised] = {}
        self._by_hash: dict[str, tuple[str, TenantToken]] = {}
        """The id of the tenant and the token, by the token's hash."""
        self._listeners: list[Callable[[Tenant], None]] = []
        self._token_listeners: list[Callable[[str], None]] = []
        self._changes: set[asyncio.Task[Any]] = set()

    async def load(self) -> None:
        """Read all tenants. Called again, it learns what other processes have changed."""
        await self._use.load()
        async for record in each_record(self._records, TENANTS, HOST):
            self._learn((_decode(record), record.revision))

    async def refresh(self, tenant_id: str) -> None:
        """Read one tenant, which another process has created or changed."""
        record = await self._records.get(_key(tenant_id))
        if record is not None:
            self._learn((_decode(record), record.revision))

    def has(self, tenant_id: str) -> bool:
        """Whether a tenant is known, disabled or not."""
        return tenant_id in self._kept

    def on_change(self, listener: Callable[[Tenant], None]) -> None:
        """Call a function with every tenant that is loaded, created or changed, and after a rotation of its token."""
        self._listeners.append(listener)

    def on_token_replaced(self, listener: Callable[[str], None]) -> None:
        """Call a function with the id of each tenant whose token was replaced without an overlap."""
        self._token_listeners.append(listener)

    def list(self) -> Sequence[Tenant]:
        """All tenants, in the order of their creation."""
        return [self.get(tenant_id) for tenant_id in sorted(self._kept, key=int)]

    def get(self, tenant_id: str) -> Tenant:
        """One tenant.

        Raises:
            TenantNotFoundError: there is none with this id.
        """
        if tenant_id not in self._kept:
            raise TenantNotFoundError
        kept, _ = self._kept[tenant_id]
        return structs.replace(kept.tenant, last_used_at=self._use.of(tenant_id))

    def active(self, tenant_id: str) -> Tenant | None:
        """A tenant that may work; None if there is none with this id, or if it is disabled."""
        tenant = self.get(tenant_id) if tenant_id in self._kept else None
        return None if tenant is None or tenant.disabled else tenant

    def find_by_token(self, token: str) -> Tenant | None:
        """The tenant of a token; None if it is unknown or expired, or if its tenant is disabled."""
        found = self._by_hash.get(hash_secret(token))
        if found is None or found[1].is_expired(self._clock.now()):
            return None
        return self.active(found[0])

    async def touch(self, tenant_id: str) -> None:
        """Note that a tenant is used now. This is written at most once a minute."""
        await self._use.touch(tenant_id)

    async def create(self, name: str, *, actor: str = ADMIN) -> tuple[Tenant, str]:
        """A new tenant, and its token, which is shown only now.

        Raises:
            InvalidTenantError: the name is not valid.
        """
        return await self._finish(self._create(checked_name(name), actor))

    async def take_number(self) -> str:
        """The id of a tenant that is created later with `create_numbered`."""
        return str(await self._records.next_number(TENANTS, HOST))

    async def create_numbered(
        self, tenant: Tenant, *, actor: str = ADMIN, changes: Sequence[RecordChange] = ()
    ) -> tuple[Tenant, str]:
        """A tenant whose id was taken before, and its token. `changes` are made together with it.

        Raises:
            InvalidTenantError: the name is not valid.
        """
        checked = structs.replace(tenant, name=checked_name(tenant.name), created_at=seconds(self._clock.now()))
        return await self._finish(self._create_numbered(checked, "import_tenant", actor, changes))

    async def update(
        self,
        tenant_id: str,
        *,
        name: str | None = None,
        disabled: bool | None = None,
        quotas: Quotas | JsonObject | None = None,
        settings: TenantSettings | JsonObject | None = None,
        actor: str = ADMIN,
    ) -> Tenant:
        """The tenant with what is given changed. Quotas and settings replace all of them, or name what to change.

        Raises:
            TenantNotFoundError: there is no such tenant.
            InvalidTenantError: the name, a quota or a setting is not valid.
        """
        name = checked_name(name) if name is not None else None

        async def decide() -> Decision[_Revised]:
            before, revision = await self._read(tenant_id)
            tenant = before.tenant
            members = {
                "name": name,
                "disabled": disabled,
                "quotas": change_quotas(tenant.quotas, quotas) if isinstance(quotas, dict) else quotas,
                "settings": change_settings(tenant.settings, settings) if isinstance(settings, dict) else settings,
            }
            given = {member: value for member, value in members.items() if value is not None}
            after = structs.replace(before, tenant=structs.replace(before.tenant, **given))
            entry = await self._audit.entry(
                "update_tenant",
                tenant_id,
                actor=actor,
                before={member: to_builtins(getattr(before.tenant, member)) for member in given},
                after=to_builtins(given),
            )
            return (after, revision + 1), [_put(after, revision), entry]

        await self._finish(self._change(decide))
        return self.get(tenant_id)

    async def rotate_token(self, tenant_id: str, overlap_seconds: int = 0, *, actor: str = ADMIN) -> str:
        """A new token for a tenant. The one before stays valid for the overlap; without one, it is refused at once.

        Raises:
            TenantNotFoundError: there is no such tenant.
            InvalidValueError: the overlap is negative, or longer than 30 days.
        """
        check_overlap(overlap_seconds)
        token = new_tenant_token()

        async def decide() -> Decision[_Revised]:
            before, revision = await self._read(tenant_id)
            tokens = rotated(before.tokens, token, now=self._clock.now(), overlap_seconds=overlap_seconds)
            after = structs.replace(before, tokens=tokens)
            entry = await self._audit.entry(
                "rotate_tenant_token", tenant_id, actor=actor, after={"overlap_seconds": overlap_seconds}
            )
            return (after, revision + 1), [_put(after, revision), entry]

        await self._finish(self._change(decide))
        return token

    async def _create(self, name: str, actor: str) -> tuple[Tenant, str]:
        tenant = Tenant(await self.take_number(), name, created_at=seconds(self._clock.now()))
        return await self._create_numbered(tenant, "create_tenant", actor)

    async def _create_numbered(
        self, tenant: Tenant, action: AuditAction, actor: str, changes: Sequence[RecordChange] = ()
    ) -> tuple[Tenant, str]:
        token = new_tenant_token()
        kept = _KeptTenant(tenant, (TenantToken(hash_secret(token)),))
        after: JsonObject = {"id": int(tenant.id), "name": tenant.name}
        entry = await self._audit.entry(action, tenant.id, actor=actor, kind="tenant", after=after)
        await self._records.write(_put(kept, 0), entry, *changes)
        self._learn((kept, 1))
        return tenant, token

    async def _change(self, decide: Callable[[], Awaitable[Decision[_Revised]]]) -> None:
        self._learn(await self._transactions.run(HOST, decide))

    async def _finish(self, change: Coroutine[Any, Any, T]) -> T:
        """Complete a change also if its caller is cancelled: what is in the store must be in memory too."""
        task = asyncio.ensure_future(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return await asyncio.shield(task)

    def _learn(self, revised: _Revised) -> None:
        """Take over a tenant as it is stored, unless a later revision is known."""
        kept, revision = revised
        tenant_id = kept.tenant.id
        before, known_revision = self._kept.get(tenant_id, (None, 0))
        if revision <= known_revision:
            return
        for token in before.tokens if before else ():
            del self._by_hash[token.hash]
        self._kept[tenant_id] = revised
        self._by_hash.update({token.hash: (tenant_id, token) for token in kept.tokens})
        for listener in self._listeners:
            listener(self.get(tenant_id))
        if before is not None and not {one.hash for one in before.tokens} & {one.hash for one in kept.tokens}:
            for notify in self._token_listeners:
                notify(tenant_id)

    async def _read(self, tenant_id: str) -> _Revised:
        # The id may be any text from a URL. The id of a known tenant is a number.
        record = await self._records.get(_key(tenant_id)) if tenant_id in self._kept else None
        if record is None:
            raise TenantNotFoundError
        return _decode(record), record.revision


def _key(tenant_id: str) -> RecordKey:
    return RecordKey(TENANTS, HOST, number_id(int(tenant_id)))


def _put(kept: _KeptTenant, revision: int) -> PutRecord:
    return PutRecord(_key(kept.tenant.id), to_builtins(kept), int(kept.tenant.id), expected=revision)


def _decode(record: Record) -> _KeptTenant:
    return msgspec.convert(record.value, _KeptTenant)
