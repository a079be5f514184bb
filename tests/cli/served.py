"""`parley serve` in a process of its own, on free ports, with everything it says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

SECONDS = 60.0
"""A process imports for a second; a machine under load takes many times that, and workers start one after the other."""

LAST_LINE = "Press Ctrl+C to stop"


class Served:
    """A running command. Only this handle ends it."""

    def __init__(self, command: Sequence[str], *, cwd: Path, stdin: int | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=stdin,
            env={**os.environ, "COLUMNS": "60", "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that what it starts can be ended with it, and nothing else
        )
        self.said: list[str] = []
        self.logged: list[str] = []
        self._new_said: SimpleQueue[str | None] = SimpleQueue()
        self._new_logged: SimpleQueue[str | None] = SimpleQueue()
        self._readers = [
            threading.Thread(target=self._read, args=(self.process.stdout, self.said, self._new_said)),
            threading.Thread(target=self._read, args=(self.process.stderr, self.logged, self._new_logged)),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: Any, lines: list[str], new: SimpleQueue[str | None]) -> None:
        with stream:
            for line in stream:
                lines.append(line.rstrip("\n"))
                new.put(lines[-1])
        new.put(None)

    def until_ready(self) -> str:
        """The URL, once everything is said."""
        self._until(self._new_said, LAST_LINE)
        (*_, url) = re.findall(r"card +(\S+)/\.well-known", "\n".join(self.said))
        return url

    def ready_line(self) -> dict[str, Any]:
        """The line of the log that says where everything is, of a server that logs JSON."""
        return json.loads(self.until_logged("Serving at "))

    def until_said(self, words: str) -> str:
        """The next line of its output that has these words."""
        return self._until(self._new_said, words)

    def until_logged(self, words: str) -> str:
        """The next line of the log that has these words."""
        return self._until(self._new_logged, words)

    def _until(self, new: SimpleQueue[str | None], words: str) -> str:
        while True:
            try:
                line = new.get(timeout=SECONDS)
            except Empty:
                raise AssertionError(f"It says nothing more: {self.said} {self.logged}") from None
            assert line is not None, f"It has ended: {self.said} {self.logged}"
            if words in line:
                return line

    @property
    def curl(self) -> str:
        """The line to try, as it was last printed."""
        return self._curl("-sS")

    @property
    def curl_stream(self) -> str:
        """The line to watch it work."""
        return self._curl("-sSN")

    def _curl(self, flags: str) -> str:
        (*_, line) = [line.strip() for line in self.said if line.strip().startswith(f"curl {flags} ")]
        return line

    def ended(self) -> int:
        """Its exit code, when it has ended by itself or by a signal that was sent."""
        code = self.process.wait(SECONDS)
        for reader in self._readers:
            reader.join(SECONDS)
        return code

    def end(self) -> int:
        self.process.terminate()
        return self.ended()


@contextmanager
def served(*arguments: str, cwd: Path) -> Generator[Served]:
    """`parley serve`, which is over when the block is."""
    with running(sys.executable, "-m", "parley.cli.main", "serve", *arguments, cwd=cwd) as command:
        yield command


@contextmanager
def running(*words: str, cwd: Path) -> Generator[Served]:
    """A command that serves, and is over when the block is."""
    command = Served(words, cwd=cwd)
    try:
        yield command
    finally:
        command.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            command.process.wait(5)
        with suppress(ProcessLookupError):
            os.killpg(command.process.pid, signal.SIGKILL)
        command.ended()


def call(url: str, method: str, params: Any) -> Any:
    """The reply to a JSON-RPC request."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(f"{url}/", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as reply:
        return json.load(reply)


def fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=SECONDS) as reply:
        return reply.read()


def message(text: str, message_id: str = "m-1") -> dict[str, Any]:
    return {"message": {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]}}
