"""A shell in a terminal, as a newcomer has it: its screen, what is typed into it, and Ctrl+C.

The prompt has a mark that no command prints, so that the end of a command's output is certain. Closing the terminal
ends what runs in it, as closing a window does.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.tutorial.pages import SHELL, Pressed, Shown, Typed

SECONDS = 60.0
"""How long a command may take on a machine under load; most take one."""
MARK = "\N{SYMBOL FOR RECORD SEPARATOR}"
ROWS, COLUMNS = 50, 240
"""Wide enough for every line that a page shows."""
ANYTHING = r"(?:.*\n)*?.*?"


class Shell:
    """A shell that believes to talk to a person."""

    def __init__(self, cwd: Path, environment: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        terminal = {"TERM": "dumb", "NO_COLOR": "1", "INPUTRC": "/dev/null", "PS1": f"{MARK}$ ", "PS2": ""}
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "--noediting", "-i"],
            cwd=cwd,
            env={**environment, **terminal},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.screen = ""
        self._read_to = 0
        self._typed_at = 0
        """Where the output of the last command begins."""
        self._waits_at: str | None = None
        """The prompt at which the last block ended."""
        self._is_in_background = False

    def follow(self, actions: Sequence[Typed | Pressed | Shown]) -> None:
        """Do what a block says, and compare what is shown. Raises AssertionError where that differs."""
        output = ""
        for action in actions:
            match action:
                case Shown():
                    output = action.pattern()
                case Typed(prompt, text):
                    self._reach(prompt, output)
                    output = ""
                    if text is not None:
                        self._type(text)
                case Pressed():
                    if output:
                        self._expect(output)
                    os.write(self._ours, b"\x03")
                    self._expect(("" if output else ANYTHING) + re.escape("^C"))
                    output = ANYTHING
        match actions[-1]:
            case Shown(lines) if lines[-1].endswith("…"):
                self._expect(output.removesuffix(r".*?\n"))
            case Typed(_, None):
                pass
            case _:
                self._reach(SHELL, output)

    def _reach(self, prompt: str, output: str) -> None:
        """Read this output, and the prompt after it."""
        shown = f"{MARK}$ " if prompt == SHELL else f"{prompt} "
        is_there = self._waits_at == prompt or (self._is_in_background and shown in self.screen[self._typed_at :])
        if not is_there or output:
            # Some commands, such as curl, do not end their last line; and a shell says when a job has ended.
            self._expect(re.sub(r"\\n$", r"\\n?", output) + r"(?:\[\d+\].*\n)*" + re.escape(shown))
        self._read_to = max(self._read_to, self.screen.rfind(shown) + len(shown))
        self._waits_at = prompt

    def _type(self, text: str) -> None:
        before_echo = ANYTHING if self._is_in_background else ""
        self._waits_at = None
        self._is_in_background = text.endswith("&")
        os.write(self._ours, f"{text}\n".encode())
        self._expect(f"{before_echo}{re.escape(text)}\n")
        self._typed_at = self._read_to

    def _expect(self, pattern: str) -> None:
        """Read until what is new on the screen begins with this."""
        wanted = re.compile(pattern)
        deadline = time.monotonic() + SECONDS
        while (found := wanted.match(self.screen, self._read_to)) is None:
            has_ended = self.screen.endswith(f"{MARK}$ ") and len(self.screen) > self._read_to
            assert not has_ended or self._is_in_background, self._difference(pattern)
            is_readable = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert is_readable, self._difference(pattern)
            assert self._take_more(), self._difference(pattern)
        self._read_to = found.end()

    def _difference(self, pattern: str) -> str:
        expected = re.sub(r"\\(\W)", r"\1", pattern.replace(r"\n", "\n"))
        before = "\n".join(self.screen[: self._read_to].splitlines()[-20:])
        return f"expected:\n{expected}\nshown:\n{self.screen[self._read_to :]}\n\nbefore:\n{before}"

    def _take_more(self) -> bool:
        try:
            raw = os.read(self._ours, 65_536)
        except OSError:  # how Linux tells that the other side is closed
            return False
        self.screen += self._decoder.decode(raw).replace("\r", "")
        return bool(raw)

    def close(self) -> None:
        """Close the terminal: what still runs in it is told so, and ends."""
        os.close(self._ours)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(SECONDS)


def _take_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
