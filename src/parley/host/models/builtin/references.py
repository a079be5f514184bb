"""References to earlier results: "write that to notes.md", "convert it to miles", "double the result".

The router puts the results that a request refers to behind it, in brackets. Any model can read that; the built-in ones
take it apart again, and put the value in the place of the word that refers to it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from parley.host.models.builtin.number_text import NUMBER
from parley.host.models.builtin.replies import single_line
from parley.host.models.model import ModelRequest

_FOLLOWERS = (
    r"to|in|into|as|by|with|plus|minus|times|divided|multiplied|from|on|at|under|for|and|or|then|too|"
    r"results?|numbers?|amounts?|values?|texts?|dates?|sums?|answers?"
)
_REFERENCE = re.compile(
    rf"\b(?:(?:it|them|that|those|this|these|both)(?:\s+(?:results?|numbers?|amounts?|values?|texts?|dates?|answers?))?"
    rf"(?=\s*(?:$|[.,;:!?()*/+]|-|(?:{_FOLLOWERS})\b))"
    r"|the\s+(?:previous\s+|last\s+|first\s+)?(?:results?|answers?|outcome|output|sum|total|date)"
    r"(?!\s+(?:of|between|from|in\s+\d)\b|\s+\d))",
    re.IGNORECASE,
)
_MARK = "[earlier result"
_LEADING_NUMBER = re.compile(rf"-?{NUMBER}%?")
_LONGEST_REQUEST = 1000  # what follows is not an instruction any more
_MOST_TEXT = 16_384  # the host cuts the results of commands there, too

NEW_LINE = "\\n"
"""A line break within a message of one line."""


def refers_back(text: str) -> bool:
    """Whether the text needs an earlier result to make sense."""
    return _REFERENCE.search(text, 0, _LONGEST_REQUEST) is not None


def with_earlier(text: str, results: Sequence[str]) -> str:
    """The text, followed by the results that it refers to.

    `double it`, `["3 + 4 = 7."]` → `double it [earlier result: 3 + 4 = 7.]`
    """
    lines = [single_line(line) for result in results for line in result.splitlines() if line.strip()]
    earlier = NEW_LINE.join(lines)[:_MOST_TEXT]
    return f"{text} {_MARK}{'s' if len(results) > 1 else ''}: {earlier}]"


def previous_answer(request: ModelRequest) -> str:
    """What was answered last in the conversation before this request; empty if it is the first one."""
    asked = [
        place
        for place, message in enumerate(request.messages)
        if message.role == "user" and message.text.endswith(request.query)
    ]
    before = request.messages[: asked[-1]] if asked else ()
    return next((message.text for message in reversed(before) if message.role == "assistant"), "")


def question_of(request: ModelRequest) -> str:
    """What the user asks; if it refers to what was answered before in the conversation, followed by that."""
    query = request.query
    if split_earlier(query)[1] or not refers_back(query):
        return query
    previous = previous_answer(request)
    return with_earlier(query, [previous]) if previous else query


def split_earlier(text: str) -> tuple[str, str]:
    """The request itself, and the earlier results that follow it; empty if there are none."""
    text = text.strip()
    request, mark, earlier = text.partition(_MARK)
    if not mark or not text.endswith("]"):
        return text, ""
    return request.strip(), with_line_breaks(earlier.removeprefix("s").removeprefix(": ")[:-1])


MAX_REFERRING = 2_000
"""Characters of a request whose references are replaced: as many as the models read that calculate."""

MAX_VALUE = 500
"""Characters that a reference is replaced with: a value is a number or a short phrase."""


def with_values(text: str, *, only_numbers: bool = False) -> str:
    """The request with the value of the earlier result in the place of the words that refer to it.

    `double it [earlier result: 3 + 4 = 7.]` → `double 7`
    """
    request, earlier = split_earlier(text)
    if not earlier.strip() or len(request) > MAX_REFERRING:
        return request
    value = _value_of(earlier.splitlines()[-1])[:MAX_VALUE]
    number = _LEADING_NUMBER.match(value)
    if only_numbers and number is not None:
        value = number[0]
    return _REFERENCE.sub(lambda _found: value, request)


def with_line_breaks(text: str) -> str:
    """The text with real line breaks for the written ones."""
    return text.replace(NEW_LINE, "\n")


def _value_of(sentence: str) -> str:
    """What the sentence says in the end: `5 miles is 8.05 km (exact).` → `8.05 km`."""
    after_is, after_equals = sentence.rpartition(" is ")[2], sentence.rpartition(" = ")[2]
    value = min(after_is, after_equals, key=len).removeprefix("about ")
    return value.partition(" (")[0].strip().rstrip(".")
