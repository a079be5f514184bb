"""A command in a terminal of its own: what it shows, and what is typed into it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SECONDS = 30.0


class Terminal:
    """A command that believes to talk to a person."""

    def __init__(self, command: Sequence[str], *, cwd: Path) -> None:
        self._ours, theirs = pty.openpty()
        environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            # A terminal that can do nothing: no colors, no cursor to move.
            env={**environment, "TERM": "dumb", "NO_COLOR": "1", "INPUTRC": "/dev/null"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(theirs)
        self.shown = ""
        self._read_to = 0

    def until(self, words: str) -> str:
        """What is shown from where the last wait ended, up to these words."""
        deadline = time.monotonic() + SECONDS
        while (found := self.shown.find(words, self._read_to)) < 0:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{words!r} is never shown: {self.shown!r}"
            assert self._take_more(), f"It has ended without {words!r}: {self.shown!r}"
        start, self._read_to = self._read_to, found + len(words)
        return self.shown[start : self._read_to]

    def interrupt(self, words: str) -> None:
        """Press Ctrl+C until these words are shown.

        A key pressed while Python sets a prompt up may be noticed with the next key only; a person presses again.
        """
        for _ in range(int(SECONDS)):
            self.press(b"\x03")
            deadline = time.monotonic() + 1
            while (found := self.shown.find(words, self._read_to)) < 0 and time.monotonic() < deadline:
                if select.select([self._ours], [], [], 0.1)[0]:
                    self._take_more()
            if found >= 0:
                self._read_to = found + len(words)
                return
        raise AssertionError(f"{words!r} is never shown: {self.shown!r}")

    def type(self, text: str) -> None:
        """Type a line."""
        os.write(self._ours, f"{text}\n".encode())

    def press(self, key: bytes) -> None:
        """Press a key: b"\\x03" for Ctrl+C, b"\\x04" for Ctrl+D."""
        os.write(self._ours, key)

    def ended(self) -> int:
        """The exit code, when it has ended and everything is read."""
        while self._take_more():
            pass
        return self.process.wait(SECONDS)

    def _take_more(self) -> bool:
        try:
            raw = os.read(self._ours, 65_536)
        except OSError:  # how Linux tells that the other side is closed
            return False
        self.shown += raw.decode(errors="replace").replace("\r\n", "\n")
        return bool(raw)

    def close(self) -> None:
        """End the command, if it has not ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS)
        os.close(self._ours)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def terminal(*arguments: str, cwd: Path) -> Generator[Terminal]:
    """`parley` with these arguments, in a terminal, over when the block is."""
    opened = Terminal([sys.executable, "-m", "parley.cli.main", *arguments], cwd=cwd)
    try:
        yield opened
    finally:
        opened.close()
