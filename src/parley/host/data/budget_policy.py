"""Budgets as they are set, and which of them hold: by the operator and by the tenant, for tenant, agents and requests.

A budget of the tenant must not be above the operator's; if the operator lowers that later, the lowest of the two holds.
This module neither stores budgets nor knows what was spent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeAlias, get_args

from msgspec import Meta, Struct, structs

from parley.host.budget_limits import BudgetLimit, lowest
from parley.host.constitution import is_agent_id
from parley.host.data.errors import InvalidValueError

Period: TypeAlias = Literal["day", "month", "total"]
"""How long a budget lasts, in UTC; `total` never ends."""

PERIODS: tuple[Period, ...] = get_args(Period)

Setter: TypeAlias = Literal["operator", "tenant"]
"""Who sets budgets."""

MOST_AGENTS = 200
"""Agents of a tenant that have a budget: all budgets of a tenant are read together."""

TENANT_SCOPE = "tenant"


class InvalidBudgetError(InvalidValueError):
    """A budget is not valid. `path` is its JSON path."""


class PeriodBudgets(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Budgets of one tenant or agent, by period."""

    day: BudgetLimit | None = None
    month: BudgetLimit | None = None
    total: BudgetLimit | None = None

    def of(self, period: Period) -> BudgetLimit | None:
        """The budget of a period."""
        return getattr(self, period)


class TenantBudgets(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """All budgets that the operator or the tenant has set. What is absent has no limit."""

    tenant: PeriodBudgets = PeriodBudgets()
    agents: Annotated[dict[str, PeriodBudgets], Meta(max_length=MOST_AGENTS)] = {}
    """By the ids of agents."""
    request: BudgetLimit | None = None
    """Of each request, with everything that its agents delegate."""


class BudgetPolicy(Struct, frozen=True, omit_defaults=True):
    """The budgets of a tenant, and since when each tenant or agent has had any."""

    operator: TenantBudgets = TenantBudgets()
    own: TenantBudgets = TenantBudgets()
    since: dict[str, int] = {}
    """By scope (`tenant`, `agent/writer`), which count of its use is the present one. A count begins with the first
    budget of a scope and ends with its last one: what was counted before does not count any more."""
    counts: int = 0
    """How many counts have begun."""
    revision: int = 0

    def scopes(self, agent_id: str) -> Mapping[str, Mapping[Period, BudgetLimit]]:
        """The lowest budgets by scope and period, of those that hold for an agent."""
        agents = [budgets.agents.get(agent_id, PeriodBudgets()) for budgets in (self.operator, self.own)]
        found = {
            TENANT_SCOPE: _lowest_by_period(self.operator.tenant, self.own.tenant),
            agent_scope(agent_id): _lowest_by_period(*agents),
        }
        return {scope: limits for scope, limits in found.items() if limits}

    def all_scopes(self) -> Iterator[tuple[str, Mapping[Period, BudgetLimit]]]:
        """The lowest budgets by scope and period, of the tenant and all its agents."""
        if limits := _lowest_by_period(self.operator.tenant, self.own.tenant):
            yield TENANT_SCOPE, limits
        for agent_id in sorted(self.operator.agents.keys() | self.own.agents.keys()):
            scope = agent_scope(agent_id)
            if limits := self.scopes(agent_id).get(scope):
                yield scope, limits

    @property
    def request(self) -> BudgetLimit | None:
        """The lowest budget of each request."""
        return lowest([self.operator.request, self.own.request])

    @property
    def is_empty(self) -> bool:
        """Whether there is no budget at all."""
        return self.request is None and next(self.all_scopes(), None) is None


def agent_scope(agent_id: str) -> str:
    """The name of an agent among the scopes of budgets."""
    return f"agent/{agent_id}"


def _lowest_by_period(*budgets: PeriodBudgets) -> dict[Period, BudgetLimit]:
    found: dict[Period, BudgetLimit] = {}
    for period in PERIODS:
        limit = lowest([one.of(period) for one in budgets])
        if limit is not None:
            found[period] = limit
    return found


def with_budgets(before: BudgetPolicy, budgets: TenantBudgets, setter: Setter) -> BudgetPolicy:
    """The policy with the budgets of the operator or of the tenant replaced."""
    for agent_id in budgets.agents:
        if not is_agent_id(agent_id):
            raise InvalidBudgetError("must have ids of agents: 1 to 64 letters, digits, '_' or '-'", "$.agents")
    if setter == "operator":
        after = structs.replace(before, operator=budgets)
    else:
        _check_below(budgets, before.operator)
        after = structs.replace(before, own=budgets)
    limited_before = {scope for scope, _ in before.all_scopes()}
    counts = before.counts + 1
    since = {
        scope: before.since.get(scope, counts) if scope in limited_before else counts for scope, _ in after.all_scopes()
    }
    return structs.replace(after, since=since, counts=counts, revision=before.revision + 1)


def _check_below(own: TenantBudgets, operator: TenantBudgets) -> None:
    """Refuse a budget of a tenant that is above the operator's. Raises InvalidBudgetError."""
    _check_limit(own.request, operator.request, "$.request")
    pairs: list[tuple[str, PeriodBudgets, PeriodBudgets]] = [("$.tenant", own.tenant, operator.tenant)]
    for agent_id, budgets in own.agents.items():
        pairs.append((f"$.agents.{agent_id}", budgets, operator.agents.get(agent_id, PeriodBudgets())))
    for path, budgets, most in pairs:
        for period in PERIODS:
            _check_limit(budgets.of(period), most.of(period), f"{path}.{period}")


def _check_limit(limit: BudgetLimit | None, most: BudgetLimit | None, path: str) -> None:
    if limit is None or most is None:
        return
    if limit.tokens is not None and most.tokens is not None and limit.tokens > most.tokens:
        raise InvalidBudgetError(f"must not be above the operator's {most.tokens}", f"{path}.tokens")
    if limit.cost is not None and most.cost is not None and limit.cost > most.cost:
        raise InvalidBudgetError(f"must not be above the operator's {most.cost}", f"{path}.cost")
