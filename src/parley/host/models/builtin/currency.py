"""The model `parley/currency`: converts amounts between currencies, at the fixed rates of `rates`."""

from __future__ import annotations

import re
from fractions import Fraction

from parley.host.models.builtin.number_text import NUMBER, expand_scales, read_number, write_number, write_rounded
from parley.host.models.builtin.questions import answer_all
from parley.host.models.builtin.rates import CODES, RATES_DATE, UNITS_PER_DOLLAR, WITHOUT_CENTS
from parley.host.models.builtin.references import question_of, with_values
from parley.host.models.model import ModelRequest

HELP = (
    f"I convert money between {len(UNITS_PER_DOLLAR)} currencies, at fixed reference rates of {RATES_DATE}; "
    "they are not live. For example: “100 USD in EUR” or “convert £20 to yen”."
)

_NAMED = "|".join(re.escape(name) for name in sorted(CODES, key=len, reverse=True) if len(name) > 1)
_SIGN = "[" + "".join(name for name in CODES if len(name) == 1) + "]"
_CURRENCY = rf"(?:(?:{_NAMED})(?![a-z])|{_SIGN}|(?-i:[A-Z]{{3}})(?![A-Za-z]))"
_TARGET = rf"(?:in|to|into|as|for|=|worth in)\s*\??\s*(?P<target>{_CURRENCY})"
_AMOUNT = (
    rf"(?<![\w.])(?P<minus>-?)"
    rf"(?:(?P<sign>{_SIGN})\s*(?P<signed>{NUMBER})|(?P<amount>{NUMBER})\s*(?P<source>{_CURRENCY}))"
)
_QUESTIONS = [
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"{_AMOUNT}\s+(?:{_TARGET})",
        rf"how (?:many|much) (?P<target>{_CURRENCY})\s+(?:is|are|for|do i get for|in)\s+{_AMOUNT}",
    )
]
_PAIR = re.compile(
    rf"\b(?P<source>{_CURRENCY})(?:/|\s+(?:to|in|into|versus|vs)\s+)(?P<target>{_CURRENCY})", re.IGNORECASE | re.ASCII
)
_TWO_WORDS = re.compile(rf"{NUMBER}\s*([^\W\d]{{1,20}})\s+(?:in|to|into)\s+([^\W\d]{{1,20}})\b")


def reply(request: ModelRequest) -> str:
    """The amounts of a request in the currencies that it asks for."""
    return answer_all(with_values(question_of(request)), answer, otherwise=HELP)


def answer(question: str) -> str | None:
    """A sentence with one converted amount; None if the question does not hold exactly one."""
    question = expand_scales(question)
    found = [match for pattern in _QUESTIONS for match in pattern.finditer(question)]
    if len(found) > 1:
        return None
    if not found:
        return _rate(question) or _unknown_word(question)
    parts = found[0].groupdict()
    amount = read_number(parts["minus"] + (parts["amount"] or parts["signed"]))
    source, target = parts["source"] or parts["sign"], parts["target"]
    for name in (source, target):
        if name.lower() not in CODES:
            return _unknown(name)
    return _converted(amount, CODES[source.lower()], CODES[target.lower()])


def _converted(amount: Fraction, source: str, target: str) -> str:
    result = amount * UNITS_PER_DOLLAR[target] / UNITS_PER_DOLLAR[source]
    decimals = 0 if target in WITHOUT_CENTS else 2
    is_small = result and abs(result) < Fraction(1, 10**decimals)
    money = write_number(result, digits=4) if is_small else write_rounded(result, decimals)
    return f"{write_number(amount)} {source} is {money} {target} (reference rate of {RATES_DATE})."


def _rate(question: str) -> str | None:
    """The rate of two currencies that are named without an amount."""
    found = _PAIR.search(question)
    if found is None or not {found["source"].lower(), found["target"].lower()} <= CODES.keys():
        return None
    source, target = CODES[found["source"].lower()], CODES[found["target"].lower()]
    rate = write_number(UNITS_PER_DOLLAR[target] / UNITS_PER_DOLLAR[source], digits=5)
    return f"1 {source} is {rate} {target} (reference rate of {RATES_DATE})."


def _unknown_word(question: str) -> str | None:
    """Which of two words is not a currency, if the other one is."""
    found = _TWO_WORDS.search(question)
    unknown = [] if found is None else [word for word in found.groups() if word.lower() not in CODES]
    return _unknown(unknown[0]) if len(unknown) == 1 else None


def _unknown(name: str) -> str:
    return f"I have no rate for {name.upper()}. The currencies are {', '.join(sorted(UNITS_PER_DOLLAR))}."
