"""Counts the values of JSON before it is parsed: a megabyte of `[[],[],…` would become a hundred megabytes of objects.

The bytes may come in pieces. Text within strings does not count, however long it is. Lines outside of strings count as
well, so that a stream of empty events has an end.
"""

from __future__ import annotations

import re

MAX_MESSAGE_VALUES = 100_000
"""Of one answer, or of one stream of events. Parsing as many takes a part of a second; a model reads a few thousand."""

# A string ends with its line, in JSON as in events: a quotation mark in a comment of a stream opens nothing after it.
_STRING = re.compile(rb'"(?:[^"\\\r\n]++|\\[^\r\n])*+(?:"|(\\?)\Z|\\?(?=[\r\n]))')
_COUNTED = (b",", b"[", b"{", b"\r", b"\n")
_PIECE = 64 * 1024


class ValueCount:
    """The values in the bytes so far; never fewer than there are."""

    def __init__(self) -> None:
        self.values = 0
        self._open = b""
        """How the string begins that the last piece has left open; empty if there is none."""

    def add(self, piece: bytes) -> None:
        """Count what these bytes hold."""
        opened = b""

        def remove(string: re.Match[bytes]) -> bytes:
            nonlocal opened
            if string[1] is not None:
                opened = b'"' + string[1]
            return b""

        outside = _STRING.sub(remove, self._open + piece)
        self._open = opened
        self.values += sum(outside.count(sign) for sign in _COUNTED)


def has_many_message_values(message: bytes) -> bool:
    """Whether a message as JSON holds more values than one may have."""
    if sum(message.count(sign) for sign in _COUNTED) <= MAX_MESSAGE_VALUES:
        return False
    count = ValueCount()
    for start in range(0, len(message), _PIECE):
        count.add(message[start : start + _PIECE])
        if count.values > MAX_MESSAGE_VALUES:
            return True
    return False
