"""What a call at work has reserved, and how that changes the sums of the scopes that it counts for."""

from __future__ import annotations

from msgspec import Struct

from parley.host.budgets.amounts import NOTHING, Amount, Span
from parley.host.budgets.scopes import ScopeSums, SpanSum, SpendingScope


class ReservedScope(Struct, frozen=True, array_like=True):
    """Where a reservation is counted."""

    id: str
    since: int
    periods: dict[Span, str]


class Reservation(Struct, frozen=True):
    """What a call at work may spend at most."""

    token: str
    """Tells the attempts of one call apart."""
    bound: Amount
    scopes: tuple[ReservedScope, ...]


def reserved_in(scope: SpendingScope, sums: ScopeSums) -> ReservedScope:
    """Where a reservation counts that is made now."""
    return ReservedScope(scope.id, sums.since, {span: one.period for span, one in sums.sums.items()})


def added(sums: ScopeSums, *, spent: Amount = NOTHING, reserved: Amount = NOTHING) -> ScopeSums:
    """The sums with more spent or reserved in every period."""
    changed = dict(sums.sums)
    for span, one in sums.sums.items():
        changed[span] = SpanSum(one.period, one.spent + spent, one.reserved + reserved)
    return ScopeSums(sums.since, changed)


def settled(sums: ScopeSums, reserved: ReservedScope, bound: Amount, actual: Amount) -> ScopeSums:
    """The sums without a reservation. A call counts in the period in which it began, if that has not ended."""
    changed = dict(sums.sums)
    for span, one in sums.sums.items():
        if span not in reserved.periods:  # it got a budget while the call was at work
            changed[span] = SpanSum(one.period, one.spent + actual, one.reserved)
        elif reserved.periods[span] == one.period:
            changed[span] = SpanSum(one.period, one.spent + actual, one.reserved - bound)
    return ScopeSums(sums.since, changed)
