"""The operator's routes: tenants, their tokens and usage, and the audit. They need the admin token.

Disabling a tenant, and replacing its token without an overlap, stop its work at once.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from parley.host.api.admin_views import (
    AuditList,
    NewTenant,
    TenantChanges,
    TenantList,
    TenantPatch,
    TenantView,
    TenantWithToken,
    TokenRotation,
    UsageReport,
    tenant_view,
    tenant_with_token,
)
from parley.host.api.query_parameters import DateParameter, LimitParameter, NumberParameter
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth, BodyReader
from parley.host.data.audit import DEFAULT_PAGE, MAX_PAGE
from parley.host.errors import BadRequest

LIMIT = LimitParameter(default=DEFAULT_PAGE, most=MAX_PAGE)
BEFORE_ID = NumberParameter("before_id", "Entries with smaller ids.")
USAGE_FROM = DateParameter("from", "The first day; 30 days before the last one if it is not given.")
USAGE_TO = DateParameter("to", "The last day; today if it is not given.")

USAGE_DAYS = timedelta(days=30)


async def list_tenants(call: ApiCall[None]) -> Answer:
    """All tenants."""
    return Answer(TenantList([tenant_view(tenant) for tenant in call.host.tenants.list()]))


async def create_tenant(call: ApiCall[NewTenant]) -> Answer:
    """Create a tenant with the starter agents."""
    tenant, token = await call.host.create_tenant(call.body.name)
    return Answer(tenant_with_token(tenant, token), 201)


async def get_tenant(call: ApiCall[None]) -> Answer:
    """One tenant."""
    return Answer(tenant_view(call.host.tenants.get(_tenant_id(call))))


async def change_tenant(call: ApiCall[TenantChanges]) -> Answer:
    """Change a tenant. Disabling it stops its work."""
    tenants, tenant_id, body = call.host.tenants, _tenant_id(call), call.body
    tenants.get(tenant_id)
    if (body.disabled, body.name, body.quotas, body.settings) == (None,) * 4:
        raise BadRequest("$: must have disabled, a name, quotas or settings")
    changed = await tenants.update(
        tenant_id, name=body.name, disabled=body.disabled, quotas=body.quotas, settings=body.settings
    )
    return Answer(tenant_view(changed))


async def rotate_token(call: ApiCall[TokenRotation]) -> Answer:
    """Give a tenant a new token."""
    host, tenant_id, overlap = call.host, _tenant_id(call), call.body.overlap_seconds
    token = await host.tenants.rotate_token(tenant_id, overlap)
    return Answer(tenant_with_token(host.tenants.get(tenant_id), token))


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
        body=BodyReader(TenantChanges, documented=(TenantPatch,)),
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
