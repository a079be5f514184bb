"""The `Idempotency-Key` header: a name that a caller gives to a send, so that repeats of it are recognized.

The value is bare text (`8e03978e-40d5`), or quoted as a structured-field string (`"8e03978e-40d5"`), as the IETF draft
writes it; both name the same key. Spec: draft-ietf-httpapi-idempotency-key-header, RFC 9651 section 3.3.3.
"""

from __future__ import annotations

import re

from parley.protocol.errors import InvalidParamsError

HEADER = "idempotency-key"

MAX_KEY = 256
"""A UUID has 36 characters, and Stripe's API, from which the draft comes, takes 255."""

_BARE = re.compile(r"[\x21\x23-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])+)"')
_ESCAPED = re.compile(r'\\(["\\])')


def read_idempotency_key(value: str) -> str:
    """The key in a header's value. `'"k-1"'` → `'k-1'`, `'k-1'` → `'k-1'`

    Raises:
        InvalidParamsError: the value is empty, too long, or not of printable ASCII characters.
    """
    text = value.strip(" \t")
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        key = _ESCAPED.sub(r"\1", quoted[1])
    elif _BARE.fullmatch(text):
        key = text
    else:
        raise InvalidParamsError(f"Idempotency-Key must have 1 to {MAX_KEY} printable ASCII characters")
    if len(key) > MAX_KEY:
        raise InvalidParamsError(f"Idempotency-Key may have up to {MAX_KEY} characters")
    return key


def write_idempotency_key(key: str) -> str:
    """The header's value for a key. It is quoted only where bare text would be read as something else.

    Raises:
        InvalidParamsError: the key is empty, too long, or not printable ASCII.
    """
    text = key if _BARE.fullmatch(key) else '"' + re.sub(r'(["\\])', r"\\\1", key) + '"'
    read_idempotency_key(text)
    return text
