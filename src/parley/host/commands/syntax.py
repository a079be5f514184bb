"""From a model's reply to its commands: which lines are commands, and which lines belong to them.

A reply is read line by line. A command starts in the first column with a slash and a known name; other lines are text.
Lines between fences (three backticks or tildes in the first column, closed by the same three characters) are text, too.
A block command owns all lines up to its end marker, fences included. `ReplyScanner` is the only implementation of these
rules: `parse_commands` and `visible_text` both use it, so a line is either run or shown.

This module does not know what arguments mean (`arguments`) or which agent may use a command (`capabilities`).
"""

from __future__ import annotations

import re
from enum import Enum, auto

from msgspec import Struct, structs

COMMAND_NAMES = frozenset(
    {
        "a2a", "advise", "agent", "browse", "exec", "fetch", "help", "lesson", "list", "map", "mcp", "mem", "pane",
        "parallel", "read", "schedule", "search", "todo", "write",
    }
)  # fmt: skip
"""All names of the language, without the slash. Those that this host does not run are commands, too: they are answered
with an error, and never shown to the user as text."""

LONGEST_START = max(map(len, COMMAND_NAMES)) + 2
"""How many characters of a line tell whether it is a command: the slash, the name and the blank after it."""

_FENCES = ("```", "~~~")
_BLANKS = " \t\r"
_COMMAND_LINE = re.compile(r"/([a-z0-9]+)(?:[ \t\r]|\Z)")


class Command(Struct, frozen=True):
    """One command of a reply."""

    name: str
    """Without the slash: `agent`, `fetch`."""
    args: str = ""
    """The rest of the first line, trimmed."""
    body: str = ""
    """The lines of a block command, without its first line and its end marker."""
    is_truncated: bool = False
    """Whether the reply ended before the end marker of the block."""
    line: str = ""
    """The first line as written, without trailing blanks."""


class LineKind(Enum):
    """What a line of a reply is."""

    TEXT = auto()
    COMMAND = auto()
    """The first line of a command."""
    BODY = auto()
    """A line within a block command."""
    END = auto()
    """The end marker of a block command."""


class ReplyScanner:
    """Classifies the lines of one reply, in their order."""

    def __init__(self) -> None:
        self._fence = ""
        self._end_marker = ""

    @property
    def is_in_block(self) -> bool:
        """Whether the next line belongs to a block command."""
        return bool(self._end_marker)

    def classify(self, line: str) -> LineKind:
        """What the next line is, given without its newline."""
        if self._end_marker:
            if line.rstrip(_BLANKS) != self._end_marker:
                return LineKind.BODY
            self._end_marker = ""
            return LineKind.END
        if self._fence:
            if line.startswith(self._fence):
                self._fence = ""
            return LineKind.TEXT
        if line.startswith(_FENCES):
            self._fence = line[:3]
            return LineKind.TEXT
        name = _command_name(line)
        if name is None:
            return LineKind.TEXT
        self._end_marker = _end_marker(name, _args(name, line))
        return LineKind.COMMAND

    def may_be_hidden(self, start: str) -> bool:
        """Whether the next line may be anything but text, if it starts like this.

        The answer for the first `LONGEST_START` characters of a line holds for the whole line.
        """
        if self._end_marker:
            return True
        if self._fence or not start.startswith("/"):
            return False
        return _command_name(start) is not None or any(name.startswith(start[1:]) for name in COMMAND_NAMES)


def parse_commands(reply: str) -> list[Command]:
    """The commands of a reply, in their order."""
    lines = reply.removesuffix("\n").split("\n")
    scanner = ReplyScanner()
    commands: list[Command] = []
    body: list[str] = []
    for line in lines:
        match scanner.classify(line):
            case LineKind.COMMAND:
                commands.append(_command(line))
                body = []
            case LineKind.BODY:
                body.append(line.removesuffix("\r"))
            case LineKind.END:
                commands[-1] = structs.replace(commands[-1], body="\n".join(body))
            case LineKind.TEXT:
                pass
    if scanner.is_in_block:
        commands[-1] = structs.replace(commands[-1], body="\n".join(body), is_truncated=True)
    return commands


def _command(line: str) -> Command:
    name = _command_name(line) or ""
    return Command(name, _args(name, line), line=line.rstrip(_BLANKS))


def _command_name(line: str) -> str | None:
    match = _COMMAND_LINE.match(line)
    return match[1] if match and match[1] in COMMAND_NAMES else None


def _args(name: str, line: str) -> str:
    return line[len(name) + 1 :].strip()


def _end_marker(name: str, args: str) -> str:
    """The line that closes this command's block; empty for a command of one line."""
    if name in ("write", "parallel"):
        return f"/end{name}"
    if name == "mem" and args.split()[:2] == ["add", "entry"]:
        return "/endmem"
    return ""
