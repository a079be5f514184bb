"""A tenant: its name, whether it is disabled, how much it may use, and which parts of A2A it has switched on.

Its tokens are not here: they never leave `tenants`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Annotated, TypeAlias, TypeVar

from msgspec import Meta, Struct, structs, to_builtins

from parley.dialects.fields import Fault, Reader
from parley.engine.retention_rules import RetentionRule
from parley.host.approval_rules import ApprovalRules
from parley.host.data.errors import InvalidValueError, NotFoundError
from parley.protocol.jsonvalue import JsonObject

MAX_NAME = 200

_Bound: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)] | None
"""None: the host's default. 53 bits are what every reader of JSON can hold."""


class TenantNotFoundError(NotFoundError):
    """tenant not found"""


class InvalidTenantError(InvalidValueError):
    """A member of a tenant is not valid. `path` is its JSON path."""


class Quotas(Struct, frozen=True):
    """How much a tenant may use; None: as much as the host's default allows, 0: nothing."""

    requests_per_minute: _Bound = None
    concurrent_requests: _Bound = None
    tokens_per_day: _Bound = None
    storage_bytes: _Bound = None
    schedules: _Bound = None
    schedule_interval_seconds: _Bound = None
    """The shortest interval between two ticks of a schedule."""


class TenantSettings(Struct, frozen=True):
    """What A2A offers beyond the documented API, for tenants that have switched it on."""

    file_parts: bool = False
    push_notifications: bool = False
    input_required: bool = False
    approvals: ApprovalRules = ()
    """Steps that wait until they are approved, for all agents of the tenant."""
    retention_days: Annotated[int, Meta(ge=1, le=36_500)] | None = None
    """How long finished tasks are kept at most; None: as the host says. The shorter of both wins."""


class Tenant(Struct, frozen=True):
    """One tenant. Times are seconds since 1970; `last_used_at` is 0 if its token was never used."""

    id: str
    name: str
    disabled: bool = False
    created_at: int = 0
    last_used_at: int = 0
    quotas: Quotas = Quotas()
    settings: TenantSettings = TenantSettings()


def retention_of(tenants: Iterable[Tenant]) -> Sequence[RetentionRule]:
    """The rules of those tenants whose settings say how long finished tasks are kept."""
    kept = [(tenant.id, tenant.settings.retention_days) for tenant in tenants]
    return [RetentionRule(timedelta(days=days), tenant=tenant_id) for tenant_id, days in kept if days is not None]


_Members = TypeVar("_Members", Quotas, TenantSettings)


def change_quotas(current: Quotas, changes: JsonObject) -> Quotas:
    """Quotas with the members that a caller sent replaced; null is the host's default again.

    Raises:
        InvalidTenantError: a member is unknown, or not a whole number from 0 on.
    """
    return _changed(current, changes, Reader(Quotas), "$.quotas")


def change_settings(current: TenantSettings, changes: JsonObject) -> TenantSettings:
    """Settings with the members that a caller sent replaced.

    Raises:
        InvalidTenantError: a member is unknown, or neither true nor false.
    """
    return _changed(current, changes, Reader(TenantSettings), "$.settings")


def checked_name(name: str) -> str:
    """The name of a tenant without the space around it.

    Raises:
        InvalidTenantError: it is empty, too long, or holds control characters.
    """
    name = name.strip()
    if not name or len(name) > MAX_NAME or not name.isprintable():
        raise InvalidTenantError(f"must be 1 to {MAX_NAME} printable characters", "$.name")
    return name


def _changed(current: _Members, changes: JsonObject, reader: Reader[_Members], path: str) -> _Members:
    known = {field.name for field in structs.fields(current)}
    for name in changes:
        if name not in known:
            raise InvalidTenantError(f"is unknown; there are {', '.join(sorted(known))}", f"{path}.{name}")
    try:
        return reader.read_value({**to_builtins(current), **changes})
    except Fault as fault:
        raise InvalidTenantError(fault.reason, f"{path}{fault.path[1:]}") from None
