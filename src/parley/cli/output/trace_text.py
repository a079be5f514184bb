"""A proxy's trace for people to read along: with bodies, or a line each; cut, and nothing that a terminal would obey.

A terminal may stand still, and a pipe may be full. The conversation does not wait for either: lines are written by a
thread of their own, and what finds no room is counted and left out.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from enum import Enum, auto
from typing import TYPE_CHECKING, TextIO

import msgspec

from parley.protocol.jsonvalue import JsonValue
from parley.safe_text import printable

if TYPE_CHECKING:
    from parley.proxy.trace import Line

LONGEST_TEXT = 1_000
"""Characters of one text that are shown: a screen or two. Files in base64 have millions."""

MOST_ROWS = 200
"""Rows of one body."""

LONGEST_LINE = 200
"""Characters of a line that stands for a whole message."""

GIST = frozenset({"text", "state", "message"})
"""Members that say in a line what a body is about; an error has its sentence in `message`."""

MOST_WAITING = 1_000
"""Lines that wait to be written."""

LAST_SECONDS = 1.0
"""For what is not written yet when the proxy ends."""


class Detail(Enum):
    """How much is shown."""

    LINES = auto()
    BODIES = auto()


class TraceText:
    """Writes lines of a trace as text. Use it as `with TraceText(out) as write: …`."""

    def __init__(self, out: TextIO, detail: Detail = Detail.BODIES) -> None:
        self._out = out
        self._render = rendered if detail is Detail.BODIES else in_one_line
        self._lines: queue.Queue[str | None] = queue.Queue(MOST_WAITING)
        self._left_out = 0
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> TraceText:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._lines.put(None, timeout=LAST_SECONDS)
        except queue.Full:
            return
        self._thread.join(LAST_SECONDS)

    def __call__(self, line: Line) -> None:
        """Show a line, if there is room for it."""
        text = self._render(line)
        if self._left_out:
            text = f"… {self._left_out} lines are left out: this is not read fast enough\n{text}"
        try:
            self._lines.put_nowait(text)
        except queue.Full:
            self._left_out += 1
        else:
            self._left_out = 0

    def _write(self) -> None:
        while (text := self._lines.get()) is not None:
            try:
                self._out.write(text)
                self._out.flush()
            except (OSError, ValueError):  # nobody is there any more
                return


def rendered(line: Line) -> str:
    """A line with what was said below it."""
    rows = [_head(line)]
    rows += [f"    {name}: {value}" for name, value in line.headers.items()]
    if line.body is not None:
        rows += [f"    {row}" for row in _body(line.body)]
    return "".join(f"{_one_row(row)}\n" for row in rows)


def in_one_line(line: Line) -> str:
    """A line with the words and states in what was said behind it."""
    text = _one_row(f"{_head(line)}  {' '.join(_gist(line.body))}".rstrip())
    return f"{text if len(text) <= LONGEST_LINE else text[: LONGEST_LINE - 1] + '…'}\n"


def _head(line: Line) -> str:
    head = f"{line.time[11:23]}  #{line.exchange}  {line.way:<14}  {line.kind:<7}  A2A {line.version} {line.binding}"
    return f"{head}  {line.what}"


def _gist(body: JsonValue) -> Iterator[str]:
    """What people look for in a body, in its order: texts, states, and what an error says."""
    match body:
        case list():
            for item in body:
                yield from _gist(item)
        case dict():
            for name, item in body.items():
                if name not in GIST or not isinstance(item, str):
                    yield from _gist(item)
                elif name == "state":
                    yield item
                else:
                    yield msgspec.json.encode(item).decode()
        case _:
            return


def _body(body: JsonValue) -> list[str]:
    body = _cut(body)
    text = body if isinstance(body, str) else msgspec.json.format(msgspec.json.encode(body), indent=2).decode()
    rows = text.split("\n")
    return rows if len(rows) <= MOST_ROWS else [*rows[:MOST_ROWS], f"… {len(rows) - MOST_ROWS} more rows"]


def _cut(value: JsonValue) -> JsonValue:
    match value:
        case str() if len(value) > LONGEST_TEXT:
            return f"{value[:LONGEST_TEXT]}… {len(value) - LONGEST_TEXT:,} more characters"
        case list():
            return [_cut(item) for item in value]
        case dict():
            return {name: _cut(item) for name, item in value.items()}
        case _:
            return value


def _one_row(text: str) -> str:
    """One row, whatever is in it."""
    return printable(text).replace("\n", "␊")
