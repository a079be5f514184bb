"""For which budgets a model call counts: those of its tenant, of its agent, and of the requests that it is part of.

What a scope has spent and reserved is one record, with a sum for each period. Budgets set later begin with what was
used before, from the sums of usage; that of a request begins with 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date

from msgspec import Struct, structs

from parley.host.budget_limits import BudgetLimit, lowest
from parley.host.budgets.amounts import Amount, Span, period_name
from parley.host.data.budget_policy import BudgetPolicy
from parley.host.data.keys import BUDGET_REQUESTS, BUDGET_SUMS
from parley.host.origin import RequestBudget
from parley.stores.interface import RecordKey

_REQUEST = "request/"


class CallAccount(Struct, frozen=True, kw_only=True):
    """Whose model call it is: what usage and budgets count it under."""

    tenant: str
    agent: str
    task_id: str
    number: int
    """Which of the task's model calls it is, from 0 on."""
    request_id: str
    """The task of the whole request."""
    caller: str = ""
    """The principal that began the request."""
    conversation: int = 0
    budgets: tuple[RequestBudget, ...] = ()
    """The budgets of the task and of those that it was delegated from."""

    @property
    def call_id(self) -> str:
        """What tells the call apart from others of the tenant."""
        return f"{self.task_id}/{self.number}"


class SpendingScope(Struct, frozen=True):
    """A tenant, an agent or a request that has budgets."""

    id: str
    """`tenant`, `agent/writer`, or `request/` and the id of a task."""
    limits: Mapping[Span, BudgetLimit]
    since: int = 0
    """Which count it is: see `BudgetPolicy.since`."""

    @property
    def is_request(self) -> bool:
        """Whether it is a request."""
        return self.id.startswith(_REQUEST)

    @property
    def agent(self) -> str | None:
        """The agent whose use counts; None: all agents of the tenant."""
        kind, _, name = self.id.partition("/")
        return name if kind == "agent" else None

    @property
    def title(self) -> str:
        """What it is called in messages."""
        kind, _, name = self.id.partition("/")
        return f"agent '{name}'" if kind == "agent" else kind


class SpanSum(Struct, frozen=True):
    """What was spent in one period, and what calls at work may still spend."""

    period: str
    spent: Amount = Amount()
    reserved: Amount = Amount()

    @property
    def used(self) -> Amount:
        """What is spent or reserved."""
        return self.spent + self.reserved


class ScopeSums(Struct, frozen=True):
    """What a scope has spent and reserved, by period."""

    since: int = 0
    sums: dict[Span, SpanSum] = {}

    def on(self, day: date) -> ScopeSums:
        """The sums on a day: those of periods that have ended begin again.

        A period never goes back, because the clocks of two processes may differ at midnight.
        """
        names = {span: period_name(span, day) for span in self.sums}
        rolled = {span: SpanSum(names[span]) if names[span] > one.period else one for span, one in self.sums.items()}
        return structs.replace(self, sums=rolled)


def sums_key(tenant: str, scope_id: str) -> RecordKey:
    """The record of a scope's sums. Those of requests are apart, because they are deleted after a time."""
    return RecordKey(BUDGET_REQUESTS if scope_id.startswith(_REQUEST) else BUDGET_SUMS, tenant, scope_id)


def scopes_of(account: CallAccount, policy: BudgetPolicy | None) -> tuple[SpendingScope, ...]:
    """The scopes that a call counts for, as far as they have budgets."""
    return (*_of_policy(account, policy), *_of_requests(account, policy))


def _of_policy(account: CallAccount, policy: BudgetPolicy | None) -> Iterator[SpendingScope]:
    if policy is not None:
        for scope_id, limits in policy.scopes(account.agent).items():
            yield SpendingScope(scope_id, dict[Span, BudgetLimit](limits.items()), policy.since.get(scope_id, 0))


def _of_requests(account: CallAccount, policy: BudgetPolicy | None) -> Iterator[SpendingScope]:
    limits: dict[str, BudgetLimit | None] = {}
    if policy is not None and policy.request is not None:
        limits[account.request_id] = policy.request
    for budget in account.budgets:
        limits[budget.task_id] = lowest([limits.get(budget.task_id), budget.limit])
    for task_id, limit in limits.items():
        if limit is not None:
            yield SpendingScope(f"{_REQUEST}{task_id}", {"request": limit})


def policy_scopes(policy: BudgetPolicy) -> Iterator[SpendingScope]:
    """The tenant and all its agents, as far as they have budgets."""
    for scope_id, limits in policy.all_scopes():
        yield SpendingScope(scope_id, dict[Span, BudgetLimit](limits.items()), policy.since.get(scope_id, 0))
