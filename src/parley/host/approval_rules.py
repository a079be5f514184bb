"""The rules that say what needs approval, by whom, until when, and what happens without an answer.

Rules stand in constitutions and in the settings of tenants. All rules that match a step count together, so that a rule
of an agent can add to those of its tenant and never weaken them. The module knows neither commands nor tasks: a step is
a name to it, such as `write`, `billing`, `remote:travel` or `git/push`, or an amount.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from parley.agents.durations import parse_duration
from parley.protocol.errors import LocalProtocolError

MOST_RULES = 50
MOST_PATTERNS = 50

LONGEST_TIMEOUT = timedelta(days=365)

MOST_COST = Decimal(10**12)
MOST_PLACES = 12
"""Digits after the point of an amount: the price of one token has seven."""

RuleKind: TypeAlias = Literal["command", "delegate", "tool", "spend"]
Verdict: TypeAlias = Literal["approve", "deny"]

_Pattern: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
_Patterns: TypeAlias = Annotated[tuple[_Pattern, ...], Meta(max_length=MOST_PATTERNS)]


class ApproverRule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Which of the principals with the scope `approve` may decide; without members, all of them.

    One of the roles or one of the names is enough. A principal has a role if it has all of its scopes.
    """

    roles: _Patterns = ()
    principals: _Patterns = ()
    """Names of principals, in which `*` stands for anything: `person:*/ada@example.com`."""


class ApprovalRule(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """One rule. `match` and `above` say which steps it is about; the rest is what it demands of the approval."""

    on: RuleKind
    match: _Patterns = ()
    """Names, in which `*` stands for anything; empty: all of this kind. Commands (`write`), agents (`billing`,
    `remote:travel`), tools of MCP servers (`git/push`)."""
    above: Decimal | None = None
    """For `spend`: calls that may cost more than this, in the host's currency. Decimal text, such as `"0.50"`."""
    above_tokens: Annotated[int, Meta(ge=0, lt=2**53)] | None = None
    """For `spend`: calls that may take more tokens than this."""
    approvers: ApproverRule = ApproverRule()
    four_eyes: bool = False
    """Whether the principal that sent the request may not decide."""
    timeout: Annotated[str, Meta(max_length=40)] = ""
    """How long to wait: `"2 hours"`. Empty: until it is decided."""
    default: Verdict = "deny"
    """What counts when the time is over."""
    message: Annotated[str, Meta(max_length=1_000)] = ""
    """What approvers are told beside the step itself."""

    def __post_init__(self) -> None:
        is_spend, has_limit = self.on == "spend", self.above is not None or self.above_tokens is not None
        if is_spend != has_limit:
            raise ValueError("above or above_tokens is for rules on spend, which need one of them")
        if is_spend and self.match:
            raise ValueError("match is not for rules on spend")
        if self.above is not None:
            _check_amount(self.above)
        if self.default == "approve" and not self.timeout:
            raise ValueError("default 'approve' needs a timeout")
        if self.timeout:
            _checked_timeout(self.timeout)


ApprovalRules: TypeAlias = Annotated[tuple[ApprovalRule, ...], Meta(max_length=MOST_RULES)]


class Demand(Struct, frozen=True, omit_defaults=True):
    """What all rules that match a step demand together."""

    approvers: tuple[ApproverRule, ...] = ()
    """An approver must be one by each of them."""
    four_eyes: bool = False
    timeout: timedelta | None = None
    default: Verdict = "deny"
    messages: tuple[str, ...] = ()


def demand_for_step(rules: Iterable[ApprovalRule], kind: RuleKind, names: Sequence[str]) -> Demand | None:
    """What is demanded of a step that has one of these names; None if it needs no approval."""
    return _together([rule for rule in rules if rule.on == kind and _matches(rule, names)])


def needs_approval_for_spend(rules: Iterable[ApprovalRule], *, cost: Decimal | None, tokens: int) -> Demand | None:
    """What is demanded of a model call that may cost and take so much; None if it needs no approval.

    A call whose price is not known needs approval wherever there is a limit of its cost.
    """
    return _together([rule for rule in rules if rule.on == "spend" and _is_above(rule, cost, tokens)])


def all_demands(*demands: Demand | None) -> Demand | None:
    """Several demands on one step as one."""
    given = [demand for demand in demands if demand is not None]
    if not given:
        return None
    return Demand(
        approvers=tuple([one for demand in given for one in demand.approvers]),
        four_eyes=any(demand.four_eyes for demand in given),
        timeout=min([demand.timeout for demand in given if demand.timeout is not None], default=None),
        default="deny" if any(demand.default == "deny" for demand in given) else "approve",
        messages=tuple(dict.fromkeys([text for demand in given for text in demand.messages])),
    )


def _together(matching: Sequence[ApprovalRule]) -> Demand | None:
    return all_demands(*map(_demand_of, matching))


def _demand_of(rule: ApprovalRule) -> Demand:
    return Demand(
        approvers=(rule.approvers,) if rule.approvers != ApproverRule() else (),
        four_eyes=rule.four_eyes,
        timeout=_checked_timeout(rule.timeout) if rule.timeout else None,
        default=rule.default,
        messages=(rule.message,) if rule.message else (),
    )


def _matches(rule: ApprovalRule, names: Sequence[str]) -> bool:
    return not rule.match or any(fnmatchcase(name, pattern) for name in names for pattern in rule.match)


def _is_above(rule: ApprovalRule, cost: Decimal | None, tokens: int) -> bool:
    costs_more = rule.above is not None and (cost is None or cost > rule.above)
    return costs_more or (rule.above_tokens is not None and tokens > rule.above_tokens)


def _checked_timeout(text: str) -> timedelta:
    try:
        timeout = parse_duration(text)
    except LocalProtocolError as error:
        raise ValueError(f"timeout: {error.message}") from None
    if not timedelta() < timeout <= LONGEST_TIMEOUT:
        raise ValueError("timeout must be more than nothing, and at most 365 days")
    return timeout


def _check_amount(amount: Decimal) -> None:
    exponent = amount.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -MOST_PLACES or not 0 <= amount <= MOST_COST:
        raise ValueError(f"above must be from 0 to {MOST_COST}, with at most {MOST_PLACES} digits after the point")
