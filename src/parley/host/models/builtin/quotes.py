"""Quoted text within a message."""

from __future__ import annotations

import re

_OPENING = re.compile(r"(?<!\w)[\"“‘']")
_CLOSING = {'"': '"', "“": "”", "‘": "’", "'": "'"}


def find_quoted(text: str) -> tuple[int, int] | None:
    """Where the quoted text is, with its quotes: from the first opening to the last closing one.

    An apostrophe within a word is not a quote.
    """
    opening = _OPENING.search(text)
    if opening is None:
        return None
    start, end = opening.start(), len(text)
    while (end := text.rfind(_CLOSING[opening[0]], start + 1, end)) > start + 1:
        if not text[end + 1 : end + 2].isalnum():
            return start, end + 1
    return None


def unquoted(text: str) -> str:
    """The text without the quotes around all of it."""
    text = text.strip()
    found = find_quoted(text)
    return text[1:-1] if found == (0, len(text)) else text
