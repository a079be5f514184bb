"""Budgets at work: what a model call may spend, and whether a request may begin.

    held = await budgets.reserve(account, "openai/gpt-6-luna", request)
    … the call, with held.request …
    await usage.record(…, settlement=lambda: budgets.settlement(account, usage, cost))

A call that does not fit is made with a smaller `max_tokens` if at least `LEAST_ANSWER` tokens fit; otherwise it is not
made. Without budgets, nothing is read or written, apart from the tenant's budgets once a second.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Protocol

from msgspec import Struct, structs

from parley.engine.clock import Clock
from parley.host.budgets.amounts import Amount, Span
from parley.host.budgets.estimate import Estimate, Pricing, estimate, input_bound
from parley.host.budgets.exceeded import BudgetExceededError, exceeded, fits, is_used_up, unpriced, used_up
from parley.host.budgets.ledger import BudgetLedger
from parley.host.budgets.reservations import Reservation
from parley.host.budgets.scopes import (
    CallAccount,
    ScopeSums,
    SpanSum,
    SpendingScope,
    policy_scopes,
    scopes_of,
)
from parley.host.data.budgets import BudgetPolicies
from parley.host.data.usage import Usage
from parley.host.models.model import ModelRequest, TokenUsage
from parley.stores.interface import RecordChange, Records, StoreError

logger = logging.getLogger(__name__)

REFRESH_SECONDS = 5.0
"""How often all budgets are read in a process that shares its store."""

LEAST_ANSWER = 256
"""The smallest `max_tokens` that a call is lowered to: a shorter answer is cut off in its first sentences."""


class PricedModels(Pricing, Protocol):
    """The prices of models, and their currency."""

    @property
    def currency(self) -> str:
        """The currency of all costs."""
        ...


class HeldCall(Struct, frozen=True):
    """A call that may be made."""

    request: ModelRequest
    """With the `max_tokens` that the budgets allow."""
    reservation: Reservation | None = None
    """None: no budget holds for it."""


class Budgets:
    """The budgets of all tenants. `models` is asked each time, because prices may be replaced."""

    def __init__(self, records: Records, clock: Clock, usage: Usage, models: Callable[[], PricedModels]) -> None:
        self._clock = clock
        self._models = models
        self.policies = BudgetPolicies(records, clock, usage.transactions)
        self.ledger = BudgetLedger(records, clock, usage.transactions, usage.days)
        self.stopped: Counter[tuple[str, str]] = Counter()
        """How many calls were not made, by tenant and by what the budget was for."""

    async def load(self) -> None:
        """Read the budgets of all tenants, and what was spent of them."""
        await self.policies.load()
        await self.ledger.load()

    async def load_tenant(self, tenant: str) -> None:
        """Read the budgets of one tenant, and what was spent of them."""
        await self.policies.refresh(tenant)
        await self.ledger.load_tenant(tenant)

    async def keep_refreshing(self) -> None:
        """Follow other processes that share the store, for `check_admission`."""
        while True:
            await self._clock.sleep(REFRESH_SECONDS)
            try:
                await self.load()
            except StoreError as error:
                logger.warning("Budgets could not be looked up: %s", error)

    def estimate(self, model: str, request: ModelRequest) -> Estimate:
        """What a call can take at most."""
        return estimate(self._models(), model, request)

    def check_admission(self, tenant: str, agent_id: str) -> None:
        """Refuse a new request if its tenant or its agent has nothing left. Raises RateLimitedError.

        It looks at what this process has seen last. Each call is checked against what is stored.
        """
        policy = self.policies.known(tenant)
        if policy is None:
            return
        account = CallAccount(tenant=tenant, agent=agent_id, task_id="", number=0, request_id="")
        for scope in scopes_of(account, policy):
            seen = self.ledger.seen(tenant, scope).sums
            for span, limit in scope.limits.items():
                found = seen.get(span, SpanSum(""))
                if is_used_up(limit, found.spent):
                    raise used_up(scope, span, found, currency=self._models().currency, now=self._clock.now())

    # --- one call -----------------------------------------------------------------------------------------------------

    async def reserve(
        self, account: CallAccount, model: str, request: ModelRequest, *, may_shorten: bool = True
    ) -> HeldCall:
        """Reserve what a call can take at most, before it is made. `may_shorten`: a smaller `max_tokens` will do.

        Raises:
            BudgetExceededError: a budget has not so much left, or cannot be kept because the price is not known.
        """
        scopes = scopes_of(account, await self.policies.current(account.tenant))
        if not scopes:
            return HeldCall(request)
        call = _PlannedCall(self._models(), model, request, may_shorten=may_shorten)
        lowered = request

        def choose(found: Sequence[tuple[SpendingScope, ScopeSums]]) -> Amount:
            nonlocal lowered
            lowered = structs.replace(request, max_tokens=self._allowed(account, call, found))
            return call.bound(lowered.max_tokens)

        reservation, _ = await self.ledger.reserve(account.tenant, account.call_id, scopes, choose)
        return HeldCall(lowered, reservation)

    def _allowed(
        self, account: CallAccount, call: _PlannedCall, found: Sequence[tuple[SpendingScope, ScopeSums]]
    ) -> int:
        """The largest `max_tokens` that fits. Raises BudgetExceededError if none does."""
        allowed = call.request.max_tokens
        for scope, sums in found:
            for span, limit in scope.limits.items():
                if limit.cost is not None and call.cost is None:
                    raise self._stop(account, scope, unpriced(scope, span, call.model, self._models().currency))
                used = sums.sums[span].used
                allowed = call.longest(allowed, lambda needed, limit=limit, used=used: fits(limit, used, needed))
                if allowed == 0:
                    raise self._stop(account, scope, self._exceeded(scope, span, sums.sums[span], call))
        return allowed

    def _exceeded(self, scope: SpendingScope, span: Span, found: SpanSum, call: _PlannedCall) -> BudgetExceededError:
        needed = call.bound(call.least)
        return exceeded(scope, span, found, needed=needed, currency=self._models().currency, now=self._clock.now())

    def _stop(self, account: CallAccount, scope: SpendingScope, error: BudgetExceededError) -> BudgetExceededError:
        self.stopped[account.tenant, scope.id.partition("/")[0]] += 1
        return error

    async def give_up(self, account: CallAccount, held: HeldCall, *, is_charged: bool) -> None:
        """End the reservation of a call that gave no result. A provider that had begun to answer charges for it."""
        if held.reservation is not None:
            await self.ledger.give_up(account.tenant, account.call_id, held.reservation, is_charged=is_charged)

    async def holds_for(self, account: CallAccount) -> bool:
        """Whether a call counts for any budget."""
        return bool(scopes_of(account, await self.policies.current(account.tenant)))

    async def settlement(self, account: CallAccount, usage: TokenUsage, cost: Decimal | None) -> Sequence[RecordChange]:
        """The changes that count what a call has taken, in place of what was reserved for it."""
        scopes = scopes_of(account, self.policies.known(account.tenant))
        actual = Amount(usage.input_tokens + usage.output_tokens, cost or Decimal(0))
        return await self.ledger.settlement(account.tenant, account.call_id, scopes, actual)

    # --- for people ---------------------------------------------------------------------------------------------------

    async def state(self, tenant: str) -> Sequence[tuple[SpendingScope, ScopeSums]]:
        """The budgets of a tenant and of its agents, and what was spent of each."""
        policy = await self.policies.read(tenant)
        return await self.ledger.read(tenant, tuple(policy_scopes(policy)))


class _PlannedCall:
    """A call that is to be made, and what it can take with one `max_tokens` or another."""

    def __init__(self, prices: Pricing, model: str, request: ModelRequest, *, may_shorten: bool) -> None:
        self._prices = prices
        self._input = input_bound(request)
        self.model = model
        self.request = request
        self.least = min(request.max_tokens, LEAST_ANSWER) if may_shorten else request.max_tokens

    @property
    def cost(self) -> Decimal | None:
        """What it costs at most; None if the price is not known."""
        return self._cost(self.request.max_tokens)

    def bound(self, max_tokens: int) -> Amount:
        """What it can take at most."""
        return Amount(self._input + max_tokens, self._cost(max_tokens) or Decimal(0))

    def longest(self, most: int, is_allowed: Callable[[Amount], bool]) -> int:
        """The largest `max_tokens` up to `most` that is allowed; 0 if not even the least is."""
        if is_allowed(self.bound(most)):
            return most
        low, high = self.least, most  # `high` is too much
        if not is_allowed(self.bound(low)):
            return 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if is_allowed(self.bound(middle)) else (low, middle)
        return low

    def _cost(self, max_tokens: int) -> Decimal | None:
        return self._prices.cost_bound(self.model, input_tokens=self._input, output_tokens=max_tokens)
