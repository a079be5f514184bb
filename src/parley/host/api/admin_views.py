"""What the operator's routes take and show."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from msgspec import Struct, structs

from parley.host.data.audit import AuditEntry
from parley.host.data.tenant import Quotas, Tenant, TenantSettings
from parley.host.data.usage import UsageRow
from parley.protocol.jsonvalue import JsonObject


class NewTenant(Struct, frozen=True):
    """A tenant to create."""

    name: str


class TenantPatch(Struct, frozen=True):
    """What to change; members that are absent stay as they are, also within quotas and settings."""

    disabled: bool | None = None
    name: str | None = None
    quotas: Quotas | None = None
    settings: TenantSettings | None = None


class TenantChanges(Struct, frozen=True):
    """A `TenantPatch` as it is read: which members of quotas and settings are absent is still known."""

    disabled: bool | None = None
    name: str | None = None
    quotas: JsonObject | None = None
    settings: JsonObject | None = None


class TokenRotation(Struct, frozen=True):
    """How a token is replaced."""

    overlap_seconds: int = 0
    """How long the token before stays valid. 0: it is refused at once, and the tenant's work is stopped."""


class TenantView(Struct, frozen=True, kw_only=True):
    """A tenant. Times are seconds since 1970; `last_used_at` is 0 if its token was never used."""

    id: int
    name: str
    disabled: bool
    created_at: int
    last_used_at: int
    quotas: Quotas
    settings: TenantSettings


class TenantWithToken(TenantView, frozen=True, kw_only=True):
    """A tenant with its new token, which is shown only once."""

    token: str


class TenantList(Struct, frozen=True):
    """All tenants, in the order of their creation."""

    tenants: Sequence[TenantView]


class AuditList(Struct, frozen=True):
    """The newest entries first."""

    entries: Sequence[AuditEntry]


class UsageReport(Struct, frozen=True, kw_only=True, rename={"day_from": "from", "day_to": "to"}):
    """What a tenant has used from one day to another, both included, in UTC. Costs are US dollars as decimal texts."""

    tenant_id: int
    day_from: date
    day_to: date
    rows: Sequence[UsageRow]


def tenant_view(tenant: Tenant) -> TenantView:
    """A tenant as the operator sees it."""
    return TenantView(
        id=int(tenant.id),
        name=tenant.name,
        disabled=tenant.disabled,
        created_at=tenant.created_at,
        last_used_at=tenant.last_used_at,
        quotas=tenant.quotas,
        settings=tenant.settings,
    )


def tenant_with_token(tenant: Tenant, token: str) -> TenantWithToken:
    """A tenant with its new token."""
    return TenantWithToken(**structs.asdict(tenant_view(tenant)), token=token)
