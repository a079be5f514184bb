"""Budgets: what a tenant, its agents and its requests may spend, and what is left of it.

The operator sets budgets for a tenant; the tenant sets its own below them, and the lowest holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct

from parley.host.access.scopes import Scope
from parley.host.api.route import Answer, ApiCall, ApiReply, ApiRoute, Auth, BodyReader
from parley.host.budget_limits import BudgetLimit
from parley.host.budgets.amounts import Amount, Span, period_end
from parley.host.budgets.scopes import SpanSum, SpendingScope
from parley.host.data.budget_policy import Setter, TenantBudgets
from parley.host.errors import BadRequest

if TYPE_CHECKING:
    from parley.host.host import Host


class BudgetsBody(TenantBudgets, frozen=True, forbid_unknown_fields=True):
    """All budgets that the caller sets, in place of those that it has set before."""

    revision: int | None = None
    """The revision that the caller has read: if it is another one now, nothing is changed (409)."""


class AmountView(Struct, frozen=True):
    """Tokens, and an amount of the currency as decimal text."""

    tokens: int
    cost: Decimal


class LeftView(Struct, frozen=True):
    """What is left; null where there is no limit."""

    tokens: int | None
    cost: Decimal | None


class BudgetView(Struct, frozen=True, kw_only=True):
    """One budget that holds: the lowest of the operator's and the tenant's."""

    scope: Literal["tenant", "agent"]
    agent: str | None
    period: Span
    limit: BudgetLimit
    spent: AmountView
    reserved: AmountView
    """What calls at work may still spend."""
    left: LeftView
    ends_at: datetime | None
    """When the period ends, in UTC, and a new one begins with the whole budget; null: never."""


class BudgetsView(Struct, frozen=True, kw_only=True):
    """The budgets of a tenant."""

    currency: str
    revision: int
    """0 if no budget was ever set."""
    operator: TenantBudgets
    """What the operator has set."""
    own: TenantBudgets
    """What the tenant has set."""
    request: BudgetLimit | None
    """What each request may use."""
    budgets: Sequence[BudgetView]


async def show_budgets(call: ApiCall[None]) -> Answer:
    """The budgets of the tenant."""
    return Answer(await _view(call.host, call.tenant.id))


async def set_budgets(call: ApiCall[BudgetsBody]) -> Answer:
    """Set the tenant's own budgets."""
    return await _set(call, call.tenant.id, "tenant")


async def show_tenant_budgets(call: ApiCall[None]) -> Answer:
    """The budgets of a tenant, for the operator."""
    return Answer(await _view(call.host, _tenant_id(call)))


async def set_tenant_budgets(call: ApiCall[BudgetsBody]) -> Answer:
    """Set the operator's budgets for a tenant."""
    return await _set(call, _tenant_id(call), "operator")


async def _set(call: ApiCall[BudgetsBody], tenant_id: str, setter: Setter) -> Answer:
    body = call.body
    budgets = TenantBudgets(body.tenant, body.agents, body.request)
    policies = call.host.budgets.policies
    await policies.replace(tenant_id, budgets, setter=setter, actor=call.actor, revision=body.revision)
    return Answer(await _view(call.host, tenant_id))


async def _view(host: Host, tenant_id: str) -> BudgetsView:
    policy = await host.budgets.policies.read(tenant_id)
    return BudgetsView(
        currency=host.models.currency,
        revision=policy.revision,
        operator=policy.operator,
        own=policy.own,
        request=policy.request,
        budgets=[
            _budget_view(host, scope, span, sums.sums[span])
            for scope, sums in await host.budgets.state(tenant_id)
            for span in scope.limits
        ],
    )


def _budget_view(host: Host, scope: SpendingScope, span: Span, found: SpanSum) -> BudgetView:
    limit, used = scope.limits[span], found.used
    return BudgetView(
        scope="tenant" if scope.agent is None else "agent",
        agent=scope.agent,
        period=span,
        limit=limit,
        spent=_amount(found.spent),
        reserved=_amount(found.reserved),
        left=LeftView(
            None if limit.tokens is None else max(limit.tokens - used.tokens, 0),
            None if limit.cost is None else max(limit.cost - used.cost, Decimal(0)),
        ),
        ends_at=period_end(span, host.clock.now().date()),
    )


def _amount(amount: Amount) -> AmountView:
    return AmountView(amount.tokens, amount.cost)


def _tenant_id(call: ApiCall[Any]) -> str:
    """The id of the tenant in the path. Raises BadRequest or TenantNotFoundError."""
    number = call.number("id")
    if not number:
        raise BadRequest("the id of a tenant is a number")
    return call.host.tenants.get(str(number)).id


ROUTES = (
    ApiRoute(
        method="GET",
        path="/v1/budgets",
        handler=show_budgets,
        scope=Scope.READ,
        summary="Read the budgets, and what is left of them",
        replies=[ApiReply(BudgetsView)],
    ),
    ApiRoute(
        method="PUT",
        path="/v1/budgets",
        handler=set_budgets,
        scope=Scope.MANAGE,
        summary="Set the tenant's own budgets",
        description="All budgets that the tenant has set are replaced. None may be above the operator's.",
        body=BodyReader(BudgetsBody),
        replies=[ApiReply(BudgetsView)],
        errors=[409],
    ),
    ApiRoute(
        method="GET",
        path="/v1/admin/tenants/{id:int}/budgets",
        handler=show_tenant_budgets,
        auth=Auth.ADMIN,
        summary="Read the budgets of a tenant, and what is left of them",
        replies=[ApiReply(BudgetsView)],
        errors=[400, 404],
    ),
    ApiRoute(
        method="PUT",
        path="/v1/admin/tenants/{id:int}/budgets",
        handler=set_tenant_budgets,
        auth=Auth.ADMIN,
        summary="Set the operator's budgets for a tenant",
        description="All budgets that the operator has set for the tenant are replaced.",
        body=BodyReader(BudgetsBody),
        replies=[ApiReply(BudgetsView)],
        errors=[404, 409],
    ),
)
