"""Why a budget stops a model call or a request, in words that a caller can act on."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal

from parley.host.budget_limits import BudgetLimit
from parley.host.budgets.amounts import Amount, Span, period_end
from parley.host.budgets.scopes import SpanSum, SpendingScope
from parley.protocol.errors import ParleyError, RateLimitedError

BUDGET_EXCEEDED = "budget_exceeded"
"""The error code of work that a budget has stopped."""

BUDGET_LIMIT = "budget"
"""Why a request is refused: the budget is used up."""

MAX_RETRY_SECONDS = 3_600
"""The longest `Retry-After`: the operator may raise a budget before it renews."""


class BudgetExceededError(ParleyError):
    """A model call would break a budget, and was not made."""


def exceeded(
    scope: SpendingScope, span: Span, found: SpanSum, *, needed: Amount, currency: str, now: datetime
) -> BudgetExceededError:
    """The error for a call that needs more than a budget has left."""
    limit = scope.limits[span]
    amounts: list[str] = []
    if limit.tokens is not None and _is_short(found.used.tokens, needed.tokens, limit.tokens):
        amounts.append(
            f"limit {limit.tokens} tokens, spent {found.spent.tokens}, reserved {found.reserved.tokens}, "
            f"needed up to {needed.tokens}"
        )
    if limit.cost is not None and _is_short(found.used.cost, needed.cost, limit.cost):
        amounts.append(
            f"limit {_shown(limit.cost)} {currency}, spent {_shown(found.spent.cost)}, "
            f"reserved {_shown(found.reserved.cost)}, needed up to {_shown(needed.cost)}"
        )
    return BudgetExceededError(
        f"{_name(scope, span)} stops the model call: {'; '.join(amounts)}. {_renewal(span, now)}"
    )


def unpriced(scope: SpendingScope, span: Span, model: str, currency: str) -> BudgetExceededError:
    """The error for a call whose cost is not known, under a budget that limits it."""
    reason = f"{_name(scope, span)} is in {currency}, and the model '{model}' has no price."
    return BudgetExceededError(f"{reason} The operator can add a price, or set a budget in tokens.")


def used_up(scope: SpendingScope, span: Span, found: SpanSum, *, currency: str, now: datetime) -> RateLimitedError:
    """The error for a request that would find nothing left."""
    limit = scope.limits[span]
    spent = [f"{found.spent.tokens} of {limit.tokens} tokens"] if limit.tokens is not None else []
    if limit.cost is not None:
        spent.append(f"{_shown(found.spent.cost)} of {_shown(limit.cost)} {currency}")
    error = RateLimitedError(f"{_name(scope, span)} is used up: {', '.join(spent)}. {_renewal(span, now)}")
    end = period_end(span, now.date())
    seconds = (end - now).total_seconds() if end is not None else MAX_RETRY_SECONDS
    vars(error)["retry_after"] = max(1, min(math.ceil(seconds), MAX_RETRY_SECONDS))
    error.details = {"reason": BUDGET_LIMIT}
    return error


def is_used_up(limit: BudgetLimit, spent: Amount) -> bool:
    """Whether nothing may be called any more, not even a model that costs nothing."""
    return (limit.tokens is not None and spent.tokens >= limit.tokens) or (
        limit.cost is not None and spent.cost >= limit.cost
    )


def fits(limit: BudgetLimit, used: Amount, needed: Amount) -> bool:
    """Whether a call may be made for which so much is needed."""
    return not (
        (limit.tokens is not None and _is_short(used.tokens, needed.tokens, limit.tokens))
        or (limit.cost is not None and _is_short(used.cost, needed.cost, limit.cost))
    )


def _is_short(used: int | Decimal, needed: int | Decimal, limit: int | Decimal) -> bool:
    return used >= limit or used + needed > limit


def _name(scope: SpendingScope, span: Span) -> str:
    kind = {"day": " for a day", "month": " for a month", "total": " in total", "request": ""}[span]
    return f"The budget of the {scope.title}{kind}"


def _renewal(span: Span, now: datetime) -> str:
    end = period_end(span, now.date())
    if end is not None:
        return f"It renews at {end.astimezone(UTC):%Y-%m-%dT%H:%MZ}."
    return "It does not renew."


def _shown(cost: Decimal) -> str:
    """A cost without an exponent and without zeros at the end."""
    text = format(cost, "f")
    return text.rstrip("0").rstrip(".") or "0" if "." in text else text
