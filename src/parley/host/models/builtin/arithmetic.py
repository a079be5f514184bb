"""The model `parley/arithmetic`: calculates what is asked in symbols or in words, and answers in a sentence."""

from __future__ import annotations

import re

from parley.host.models.builtin.calculation_words import FUNCTION_NAMES, spoken_order, to_expression
from parley.host.models.builtin.expressions import ExpressionError, evaluate
from parley.host.models.builtin.number_text import NUMBER, expand_scales, write_number
from parley.host.models.builtin.questions import answer_all
from parley.host.models.builtin.references import question_of, with_values
from parley.host.models.model import ModelRequest

HELP = (
    "I calculate: sums, percentages, powers, roots and averages. "
    "For example: “15% of 80”, “(2 + 3) * 4”, “square root of 2” or “average of 3, 4 and 5”."
)

_LONGEST_QUESTION = 400
_LEAD = re.compile(
    r"^(?:\W*\b(?:please|hello|hi|so|now|can you|could you|what is|what's|whats|what are|how much is|how much are"
    r"|calculate|compute|work out|evaluate|solve|tell me|give me|find|the value of)\b\s*)+",
    re.IGNORECASE,
)
_TAIL = re.compile(r"(?:[\s?!.=,:]|\bplease\b|\bequals?\b)+$", re.IGNORECASE)
_BARE_NUMBER = re.compile(rf"[-+\s(]*{NUMBER}[%\s)]*")
_WITH_ARTICLE = re.compile(rf"(?:{'|'.join(FUNCTION_NAMES)}|square root|cube root|difference)\s", re.IGNORECASE)
_STARTS_WITH_WORD = re.compile(r"[a-z]+\s+[^-+*/(]")
_WHAT_PERCENT = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:what\s+)?(?:percent|percentage|%)\s+of\s+(?P<whole>{NUMBER})\s+is\s+(?P<part>{NUMBER})",
        rf"(?P<part>{NUMBER})\s+is\s+what\s+(?:percent|percentage|%)\s+of\s+(?P<whole>{NUMBER})",
        rf"(?P<part>{NUMBER})\s+(?:as\s+a|in|as)\s+(?:percent|percentage)\s+of\s+(?P<whole>{NUMBER})",
    )
]


def reply(request: ModelRequest) -> str:
    """The answers to the calculations of a request."""
    return answer_all(with_values(question_of(request), only_numbers=True), answer, otherwise=HELP, prefers_long=True)


def answer(question: str) -> str | None:
    """A sentence with the result of one calculation; None if the question holds none."""
    if len(question) > _LONGEST_QUESTION or not re.search(r"\d", question):
        return None
    asked = spoken_order(_TAIL.sub("", _LEAD.sub("", expand_scales(question.strip()))))
    if _BARE_NUMBER.fullmatch(asked):
        return None
    return _percentage(asked) or _calculated(asked)


def _calculated(asked: str) -> str | None:
    subject = _as_subject(asked)
    try:
        value = evaluate(to_expression(asked))
    except ExpressionError as error:
        return f"{subject} could not be calculated. {error}"
    if value is None:
        return None
    result = write_number(value)
    has_words = re.search(r"[a-z]{2}", asked, re.IGNORECASE) is not None
    return f"{subject} {'is' if has_words or result.startswith('about') else '='} {result}."


def _percentage(asked: str) -> str | None:
    """The answer to a question whose result is a percentage."""
    found = next((found for pattern in _WHAT_PERCENT if (found := pattern.fullmatch(asked))), None)
    if found is None:
        return None
    subject = f"{found['part']} as a percentage of {found['whole']}"
    try:
        value = evaluate(to_expression(f"{found['part']} / {found['whole']} * 100"))
    except ExpressionError as error:
        return f"{subject} could not be calculated. {error}"
    return None if value is None else f"{subject} is {write_number(value)}%."


def _as_subject(asked: str) -> str:
    """The calculation as the subject of a sentence: `sum of 3 and 4` → `The sum of 3 and 4`."""
    asked = " ".join(asked.split())
    if _WITH_ARTICLE.match(asked):
        asked = f"the {asked}"
    return asked[0].upper() + asked[1:] if _STARTS_WITH_WORD.match(asked) else asked
