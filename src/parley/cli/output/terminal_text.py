"""Agents' texts, made harmless for a terminal.

An agent may send any character. Some of them move the cursor, set the window's title, type for the user, or make text
read backwards; none of these reaches a terminal. They are shown as what they are, so that nobody wonders what is gone.
"""

from __future__ import annotations

import re

_BEYOND_ASCII = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Control characters, ends of lines and paragraphs, and what changes the direction of what follows."""

_DANGEROUS = re.compile(f"[\x00-\x08\x0b-\x1f{_BEYOND_ASCII}]")
"""These, and the control characters of ASCII but for tab and newline."""

_DANGEROUS_IN_JSON = re.compile(f"[{_BEYOND_ASCII}]")
"""What JSON lets stand in a string as it is."""


def harmless(text: str) -> str:
    """The text with its control characters as pictures: ESC becomes ␛.

    Newlines and tabs stay, and so does the end of a line as Windows writes it.
    """
    return _DANGEROUS.sub(_picture, text.replace("\r\n", "\n"))


def harmless_line(text: str) -> str:
    """The same in one line, for names and titles."""
    return " ".join(harmless(text).split())


def harmless_json(raw: bytes) -> str:
    r"""JSON that says the same, with everything that a terminal might obey written as `\u009b`."""
    return _DANGEROUS_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", raw.decode())


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "�"
