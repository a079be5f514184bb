"""What of a model's stream is shown to the user: all of it but commands, as early as possible.

The stream arrives in pieces of any size. A line is released, character by character, as soon as it cannot become a
command; one that may become a command waits for a few more characters. Lines of commands disappear with their newline.
Fenced and indented lines are never run, so they are shown. How a stream is cut into pieces does not change the text.
"""

from __future__ import annotations

from parley.host.commands.syntax import LONGEST_START, LineKind, ReplyScanner


class VisibleText:
    """Filters one reply. A reply that a further model call continues is fed to the same filter."""

    def __init__(self) -> None:
        self._scanner = ReplyScanner()
        self._start_line()

    def _start_line(self) -> None:
        self._line: list[str] = []
        self._start = ""
        self._is_shown = False

    def feed(self, piece: str) -> str:
        """The text that can be shown now that this piece is known."""
        *ended, rest = piece.split("\n")
        shown: list[str] = []
        for part in ended:
            shown += (self._continue_line(part), self._end_line("\n"))
        shown.append(self._continue_line(rest))
        return "".join(shown)

    def flush(self) -> str:
        """The text that was held back until the end of the reply."""
        return self._end_line("") if self._line else ""

    def _continue_line(self, part: str) -> str:
        if not part:
            return ""
        self._line.append(part)
        if self._is_shown:
            return part
        self._start = (self._start + part)[:LONGEST_START]
        if self._scanner.may_be_hidden(self._start):
            return ""
        self._is_shown = True
        return "".join(self._line)

    def _end_line(self, newline: str) -> str:
        line, was_shown = "".join(self._line), self._is_shown
        self._start_line()
        if self._scanner.classify(line) is not LineKind.TEXT:
            return ""
        return newline if was_shown else line + newline
