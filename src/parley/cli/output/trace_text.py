"""Prints a proxy's trace as text, with bodies or one line per message, truncated and without control characters.

The conversation does not wait for a terminal that is paused or a pipe that is full: a thread writes the lines, and
lines that do not fit in its queue are counted and dropped.
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
    from parley.proxy.trace import TraceLine

MAX_TEXT = 1_000
"""Characters of one text that are shown, about a screen: files in base64 have millions."""

MAX_ROWS = 200
"""Rows of one body."""

MAX_LINE = 200
"""Characters of a line for a whole message."""

SUMMARY_MEMBERS = frozenset({"text", "state", "message"})
"""Members that summarize a body; an error has its text in `message`."""

MAX_WAITING = 1_000
"""Lines that wait to be written."""

FLUSH_SECONDS = 1.0
"""How long the proxy waits at its end for lines to be written."""


class TraceDetail(Enum):
    """How much of each message is shown."""

    LINES = auto()
    BODIES = auto()


class TraceText:
    """Writes lines of a trace as text. Use it as `with TraceText(out) as write: …`."""

    def __init__(self, out: TextIO, detail: TraceDetail = TraceDetail.BODIES) -> None:
        self._out = out
        self._render = render if detail is TraceDetail.BODIES else render_line
        self._commands: queue.Queue[str | None] = queue.Queue(MAX_WAITING)
        self._left_out = 0
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> TraceText:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._commands.put(None, timeout=FLUSH_SECONDS)
        except queue.Full:
            return
        self._thread.join(FLUSH_SECONDS)

    def __call__(self, line: TraceLine) -> None:
        """Print a line, if the queue has room."""
        text = self._render(line)
        if self._left_out:
            text = f"… {self._left_out} lines were dropped: this output is not read fast enough\n{text}"
        try:
            self._commands.put_nowait(text)
        except queue.Full:
            self._left_out += 1
        else:
            self._left_out = 0

    def _write(self) -> None:
        while (text := self._commands.get()) is not None:
            try:
                self._out.write(text)
                self._out.flush()
            except (OSError, ValueError):  # the output was closed
                return


def render(line: TraceLine) -> str:
    """A line of the trace with its body below."""
    rows = [_head(line)]
    rows += [f"    {name}: {value}" for name, value in line.headers.items()]
    if line.body is not None:
        rows += [f"    {row}" for row in _body(line.body)]
    return "".join(f"{_one_row(row)}\n" for row in rows)


def render_line(line: TraceLine) -> str:
    """A line of the trace with the texts and states of its body."""
    text = _one_row(f"{_head(line)}  {' '.join(_summary(line.body))}".rstrip())
    return f"{text if len(text) <= MAX_LINE else text[: MAX_LINE - 1] + '…'}\n"


def _head(line: TraceLine) -> str:
    head = (
        f"{line.time[11:23]}  #{line.exchange}  {line.direction:<14}  {line.kind:<7}  A2A {line.version} {line.binding}"
    )
    return f"{head}  {line.what}"


def _summary(body: JsonValue) -> Iterator[str]:
    """Texts, states and error messages of a body, in its order."""
    match body:
        case list():
            for item in body:
                yield from _summary(item)
        case dict():
            for name, item in body.items():
                if name not in SUMMARY_MEMBERS or not isinstance(item, str):
                    yield from _summary(item)
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
    return rows if len(rows) <= MAX_ROWS else [*rows[:MAX_ROWS], f"… {len(rows) - MAX_ROWS} more rows"]


def _cut(value: JsonValue) -> JsonValue:
    match value:
        case str() if len(value) > MAX_TEXT:
            return f"{value[:MAX_TEXT]}… {len(value) - MAX_TEXT:,} more characters"
        case list():
            return [_cut(item) for item in value]
        case dict():
            return {name: _cut(item) for name, item in value.items()}
        case _:
            return value


def _one_row(text: str) -> str:
    """The text on one line."""
    return printable(text).replace("\n", "␊")
