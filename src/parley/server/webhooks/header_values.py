"""Which texts of a webhook's config can be sent in a header."""

from __future__ import annotations

import re

MAX_SECRET = 8 * 1024
"""The limit of most servers for one header."""

_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")


def fits_header(text: str) -> bool:
    """Whether a text can be the value of a header."""
    return len(text) <= MAX_SECRET and _HEADER_VALUE.fullmatch(text) is not None
