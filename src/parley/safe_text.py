"""Foreign text, made safe to print and to log: the one place that knows which characters are dangerous.

Some characters move a terminal's cursor, set a window's title, type for the user, begin a new line of a log, or reverse
the direction of text. They are shown, not dropped, so that a reader sees that something was there.
"""

from __future__ import annotations

import re

_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
"""Control characters, line separators, bidirectional controls, lone surrogates, and what XML does not allow."""

_CONTROLS = re.compile(f"[\x00-\x1f{_BEYOND_ASCII}]")
_CONTROLS_BUT_TAB_AND_NEWLINE = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")
_UNESCAPED_IN_JSON = re.compile(f"[{_BEYOND_ASCII}]")


def printable(text: str) -> str:
    """The text with control characters as symbols: ESC becomes ␛. Tabs and newlines stay; CR LF becomes a newline."""
    return _CONTROLS_BUT_TAB_AND_NEWLINE.sub(_symbol, text.replace("\r\n", "\n"))


def printable_line(text: str) -> str:
    """The same on one line, for names, titles and errors."""
    return printable(" ".join(text.split()))


def printable_json(raw: bytes) -> str:
    r"""JSON with the same value, with control characters escaped: `\u009b`."""
    return _UNESCAPED_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", raw.decode())


def escaped(text: str) -> str:
    """The text with every control character escaped: a newline as `\\n`. For logs, where a line is a record."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _symbol(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"
