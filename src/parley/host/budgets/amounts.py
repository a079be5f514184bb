"""Amounts that budgets count, and the periods in which they count them. Days and months are in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Literal, TypeAlias

from msgspec import Struct

from parley.host.data.budget_policy import Period

Span: TypeAlias = Period | Literal["request"]
"""How long a budget counts: for a period, or for one request."""


class Amount(Struct, frozen=True):
    """Tokens, and what they cost in the host's currency. The cost of a model without a price counts as 0."""

    tokens: int = 0
    cost: Decimal = Decimal(0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.tokens + other.tokens, self.cost + other.cost)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.tokens - other.tokens, self.cost - other.cost)


NOTHING = Amount()


def period_name(span: Span, day: date) -> str:
    """The name of the period that a day is in: `2026-01-31`, `2026-01`. Later periods have greater names."""
    match span:
        case "day":
            return day.isoformat()
        case "month":
            return day.isoformat()[:7]
        case "total" | "request":
            return ""


def period_start(span: Span, day: date) -> date:
    """The first day of the period that a day is in."""
    match span:
        case "day":
            return day
        case "month":
            return day.replace(day=1)
        case "total" | "request":
            return date(1970, 1, 1)


def period_end(span: Span, day: date) -> datetime | None:
    """When the period that a day is in ends; None: never."""
    match span:
        case "day":
            following = day + timedelta(days=1)
        case "month":
            following = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        case "total" | "request":
            return None
    return datetime(following.year, following.month, following.day, tzinfo=UTC)
