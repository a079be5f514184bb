"""What a budget allows: a number of tokens, an amount of the host's currency, or both.

Limits come from the operator, from tenants, from constitutions and with messages; `lowest` is what holds if several do.
This module does not know what was spent.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from parley.dialects.fields import Fault, Reader
from parley.protocol.errors import InvalidParamsError
from parley.protocol.messages import Message

BUDGET = "urn:parley:budget:1"
"""The member of a message's metadata that holds the budget of a request."""

MOST_COST = Decimal(10**12)
MOST_PLACES = 12
"""Digits after the point: the price of one token has seven. An amount with a million digits must not be written out."""

_Tokens: TypeAlias = Annotated[int, Meta(ge=0, lt=2**53)]
"""53 bits are what every reader of JSON can hold."""


class BudgetLimit(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How much may be used. A budget of 0 allows nothing; None means unlimited. `cost` is in the host's currency."""

    tokens: _Tokens | None = None
    """Input and output tokens together."""
    cost: Decimal | None = None
    """Decimal text, such as `"2.50"`."""

    def __post_init__(self) -> None:
        if self.tokens is None and self.cost is None:
            raise ValueError("must have tokens, cost or both")
        if self.cost is not None:
            _check_cost(self.cost)


def _check_cost(cost: Decimal) -> None:
    exponent = cost.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -MOST_PLACES or not 0 <= cost <= MOST_COST:
        raise ValueError(f"cost must be from 0 to {MOST_COST}, with at most {MOST_PLACES} digits after the point")


def lowest(limits: Iterable[BudgetLimit | None]) -> BudgetLimit | None:
    """The limit that holds if all of these do; None if there is none."""
    given = [limit for limit in limits if limit is not None]
    if not given:
        return None
    return BudgetLimit(
        min([limit.tokens for limit in given if limit.tokens is not None], default=None),
        min([limit.cost for limit in given if limit.cost is not None], default=None),
    )


_READER = Reader(BudgetLimit)


def budget_of(message: Message) -> BudgetLimit | None:
    """The budget that a message sets for its request.

    Raises:
        InvalidParamsError: it is not valid.
    """
    value = message.metadata.get(BUDGET)
    if value is None:
        return None
    try:
        return _READER.read_value(value)
    except Fault as fault:
        path = f"$.message.metadata['{BUDGET}']{fault.path[1:]}"
        raise InvalidParamsError(fault.reason, path=path) from None
