"""Bytes of a process as lines of bounded length. What is longer is skipped, and only its two ends are kept.

They are enough to find which request a JSON-RPC message answers, so that only that request fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

ENDS_KEPT = 256
"""Bytes of each end of a line that is skipped."""

MAX_SKIPPED_BYTES = 256 * 1024 * 1024
"""Of one line. A server that writes more without a newline does not speak MCP."""

# Python's SDK writes the id first, TypeScript's writes it last.
_ID_FIRST = re.compile(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*(\d{1,15})\s*,')
_ID_LAST = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*\}\s*\Z')


class EndlessLineError(Exception):
    """A line has no end."""


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line that is too long."""

    head: bytes
    tail: bytes


def answered_id(head: bytes, tail: bytes) -> int | None:
    """The id of the request that a message with these ends answers; None if it cannot be told."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    return int(found[1]) if found else None


@dataclass(slots=True)
class LineBuffer:
    """Splits bytes into lines of at most `max_bytes`."""

    max_bytes: int
    _line: bytearray = field(default_factory=bytearray)
    _skipped: int = 0
    _head: bytes = b""

    def feed(self, chunk: bytes) -> Iterator[bytes | SkippedLine]:
        """The lines that these bytes complete. Raises EndlessLineError."""
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            self._add(part)
            yield self._take()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._line += part
        if self._skipped or len(self._line) > self.max_bytes:
            if not self._skipped:
                self._head = bytes(self._line[:ENDS_KEPT])
            self._skipped += max(len(part), 1)
            del self._line[:-ENDS_KEPT]
            if self._skipped > MAX_SKIPPED_BYTES:
                raise EndlessLineError

    def _take(self) -> bytes | SkippedLine:
        line = bytes(self._line)
        taken = SkippedLine(self._head, line) if self._skipped else line
        self._line.clear()
        self._skipped, self._head = 0, b""
        return taken
