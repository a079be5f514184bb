"""The operator's routes: tenants, their tokens and usage, and the audit. They need the admin token.

Disabling a tenant, and replacing its token without an overlap, stop its work at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from msgspec import Struct

from parley.host.api.query_parameters import DateParameter, LimitParameter, NumberParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth, BodyReader
from parley.host.data.audit import DEFAULT_PAGE, MAX_PAGE, AuditEntry
from parley.host.data.tenant import Quotas, Tenant, TenantSettings, change_quotas, change_settings
from parley.host.data.usage import UsageRow
from parley.host.errors import BadRequest
from parley.protocol.jsonvalue import JsonObject

LIMIT = LimitParameter(default=DEFAULT_PAGE, most=MAX_PAGE)
BEFORE_ID = NumberParameter("before_id", "Entries with smaller ids.")
USAGE_FROM = DateParameter("from", "The first day; 30 days before the last one if it is not given.")
USAGE_TO = DateParameter("to", "The last day; today if it is not given.")

USAGE_DAYS = timedelta(days=30)


class NewTenant(Struct, frozen=True):
    """A tenant to create."""

    name: str


class TenantChanges(Struct, frozen=True):
    """What to change; members that are absent stay as they are, also within quotas and settings."""

    disabled: bool | None = None
    name: str | None = None
    quotas: JsonObject | None = None
    settings: JsonObject | None = None


class DocumentedTenantChanges(Struct, frozen=True):
    """What to change; members that are absent stay as they are, also within quotas and settings."""

    disabled: bool | None = None
    name: str | None = None
    quotas: Quotas | None = None
    settings: TenantSettings | None = None


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


async def list_tenants(call: ApiCall[None]) -> Answer:
    """All tenants."""
    return Answer(TenantList([_view(tenant) for tenant in call.host.tenants.list()]))


async def create_tenant(call: ApiCall[NewTenant]) -> Answer:
    """Create a tenant with the starter agents."""
    tenant, token = await call.host.create_tenant(call.body.name)
    return Answer(_with_token(tenant, token), 201)


async def get_tenant(call: ApiCall[None]) -> Answer:
    """One tenant."""
    return Answer(_view(call.host.tenants.get(_tenant_id(call))))


async def change_tenant(call: ApiCall[TenantChanges]) -> Answer:
    """Change a tenant. Disabling it stops its work."""
    tenants, tenant_id, body = call.host.tenants, _tenant_id(call), call.body
    before = tenants.get(tenant_id)
    if (body.disabled, body.name, body.quotas, body.settings) == (None,) * 4:
        raise BadRequest("$: must have disabled, a name, quotas or settings")
    changed = await tenants.update(
        tenant_id,
        name=body.name,
        disabled=body.disabled,
        quotas=None if body.quotas is None else change_quotas(before.quotas, body.quotas),
        settings=None if body.settings is None else change_settings(before.settings, body.settings),
    )
    return Answer(_view(changed))


async def rotate_token(call: ApiCall[TokenRotation]) -> Answer:
    """Give a tenant a new token."""
    host, tenant_id, overlap = call.host, _tenant_id(call), call.body.overlap_seconds
    token = await host.tenants.rotate_token(tenant_id, overlap)
    if not overlap:
        host.stop_work(tenant_id)
    return Answer(_with_token(host.tenants.get(tenant_id), token))


async def show_usage(call: ApiCall[None]) -> Answer:
    """What a tenant has used."""
    tenant = call.host.tenants.get(_tenant_id(call))
    last = call.query(USAGE_TO) or datetime.now(UTC).date()
    first = call.query(USAGE_FROM) or last - USAGE_DAYS
    rows = await call.host.usage.report(tenant.id, first, last)
    return Answer(UsageReport(tenant_id=int(tenant.id), day_from=first, day_to=last, rows=rows))


async def list_audit(call: ApiCall[None]) -> Answer:
    """A page of the audit."""
    return Answer(AuditList(await call.host.audit.list(call.query(BEFORE_ID), call.query(LIMIT))))


def _tenant_id(call: ApiCall[Any]) -> str:
    """The id in the path. Raises BadRequest if it is not a number."""
    number = call.number("id")
    if not number:
        raise BadRequest("the id of a tenant is a number")
    return str(number)


def _view(tenant: Tenant) -> TenantView:
    return TenantView(
        id=int(tenant.id),
        name=tenant.name,
        disabled=tenant.disabled,
        created_at=tenant.created_at,
        last_used_at=tenant.last_used_at,
        quotas=tenant.quotas,
        settings=tenant.settings,
    )


def _with_token(tenant: Tenant, token: str) -> TenantWithToken:
    return TenantWithToken(
        id=int(tenant.id),
        name=tenant.name,
        disabled=tenant.disabled,
        created_at=tenant.created_at,
        last_used_at=tenant.last_used_at,
        quotas=tenant.quotas,
        settings=tenant.settings,
        token=token,
    )


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/admin/tenants",
        handler=list_tenants,
        auth=Auth.ADMIN,
        summary="List the tenants",
        replies=[ApiReply(TenantList)],
    ),
    ApiRoute(
        method="POST",
        path="/v1/admin/tenants",
        handler=create_tenant,
        auth=Auth.ADMIN,
        summary="Create a tenant",
        description="It gets the starter agents. Its token is in the reply, and never shown again.",
        body=BodyReader(NewTenant),
        replies=[ApiReply(TenantWithToken, 201)],
    ),
    ApiRoute(
        method="GET",
        path="/v1/admin/tenants/{id:int}",
        handler=get_tenant,
        auth=Auth.ADMIN,
        summary="Read a tenant",
        replies=[ApiReply(TenantView)],
        errors=[400, 404],
    ),
    ApiRoute(
        method="PATCH",
        path="/v1/admin/tenants/{id:int}",
        handler=change_tenant,
        auth=Auth.ADMIN,
        summary="Change a tenant",
        description="Disabling a tenant stops its work at once. A quota of null is the host's default again.",
        body=BodyReader(TenantChanges, documented=(DocumentedTenantChanges,)),
        replies=[ApiReply(TenantView)],
        errors=[404],
    ),
    ApiRoute(
        method="POST",
        path="/v1/admin/tenants/{id:int}/rotate-token",
        handler=rotate_token,
        auth=Auth.ADMIN,
        summary="Replace a tenant's token",
        description="Without an overlap, the token before is refused at once, and the tenant's work is stopped.",
        body=BodyReader(TokenRotation, is_optional=True),
        replies=[ApiReply(TenantWithToken)],
        errors=[404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/admin/tenants/{id:int}/usage",
        handler=show_usage,
        auth=Auth.ADMIN,
        summary="Read what a tenant has used",
        query=[USAGE_FROM, USAGE_TO],
        replies=[ApiReply(UsageReport)],
        errors=[400, 404],
    ),
    ApiRoute(
        method="GET",
        path="/v1/admin/audit",
        handler=list_audit,
        auth=Auth.ADMIN,
        summary="Read the audit",
        query=[BEFORE_ID, LIMIT],
        replies=[ApiReply(AuditList)],
        errors=[400],
    ),
)
