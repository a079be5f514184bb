"""Messages that hold several questions for one agent: "5 miles in km and 72 F in C"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from parley.host.models.builtin.references import refers_back, with_earlier, with_values
from parley.host.models.builtin.replies import without_commands

_SEPARATOR = re.compile(
    r"((?:\s*[;\n?!]|\.\s|,)\s*(?:and\s+)?(?:then\s+)?|\s+(?:and|then)\s+(?:then\s+)?)", re.IGNORECASE
)
_BLANK = re.compile(r"[^\S\n]")  # also those that are not ASCII
_PLEASANTRY = re.compile(
    r"\W*(?:(?:hi|hello|hey|please|thanks|thank you|thx|good (?:morning|afternoon|evening|day))\W*"
    r"(?:there\W*|a lot\W*|so much\W*)?)+",
    re.IGNORECASE,
)
MOST_CHARACTERS = 2000
"""Of a message that may hold several questions."""
_MOST_PARTS = 16
_LONGEST_QUOTE = 60


def answer_all(
    question: str, answer: Callable[[str], str | None], *, otherwise: str, prefers_long: bool = False
) -> str:
    """The answers to all questions of a message, a line each; `otherwise` if it holds none.

    A question is the shortest part that `answer` understands, or the longest one: "days between A and B" has no answer
    before its end, but "sum of 3, 4 and 5" has. It may refer to the answer before it.
    """
    if len(question) > MOST_CHARACTERS:
        return f"That is more than I can read: a question may have {MOST_CHARACTERS:,} characters. {otherwise}"
    parts = _SEPARATOR.split(_BLANK.sub(" ", question), maxsplit=_MOST_PARTS)
    lines: list[str] = []
    previous, position = "", 0
    while position < len(parts):
        ends = range(position, len(parts), 2)  # between them are separators
        found, end = _first_answer(parts, position, ends[::-1] if prefers_long else ends, answer, previous)
        if found:
            previous = found
            lines.append(found)
        elif re.search(r"\w", parts[position]) and not is_pleasantry(parts[position]):
            lines.append(f"I could not read “{_shortened(parts[position])}”.")
        position = end + 2
    return without_commands("\n".join(lines)) if previous else otherwise


def _first_answer(
    parts: Sequence[str], start: int, ends: Sequence[int], answer: Callable[[str], str | None], previous: str
) -> tuple[str, int]:
    """The answer to the first understood of the parts that begin at `start`, and where it ends."""
    for end in ends:
        text = "".join(parts[start : end + 1]).strip()
        found = answer(with_values(with_earlier(text, [previous])) if previous and refers_back(text) else text)
        if found is not None:
            return found, end
    return "", start


def is_pleasantry(text: str) -> bool:
    """Whether the text only greets or thanks."""
    return _PLEASANTRY.fullmatch(text) is not None


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…"
