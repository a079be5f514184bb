"""`--reload`: runs a command in a process of its own and starts it again when a Python file changes.

The command is the real thing, with its own ports, store and drain, so what works with `--reload` works without. One
that ends with an error stays down until the next change. The files' times are looked at a few times a second. The
process holds one end of a pipe, and ends when the other end closes: even a reloader that was killed leaves nobody
behind. Windows cannot hand such a pipe on.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

POLL_SECONDS = 0.3
"""Soon enough for somebody who changes windows; some thousand files are looked at in a few milliseconds."""

SKIPPED = {"__pycache__", "node_modules", "site-packages"}

Command = Callable[[int | None, bool], Sequence[str]]
"""The command line for a process that holds this end of the pipe, and whether one before it was up already."""


def run_reloading(command: Command, directories: Iterable[Path], say: Callable[[str], None]) -> int:
    """Run a command until SIGTERM or SIGINT, again after every change; the exit code is that of its last run."""
    watched = sorted(set(directories))
    stop = threading.Event()

    def end(_number: int, _frame: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    held = None if sys.platform == "win32" else os.pipe()[0]  # the other end is open for as long as this process lives
    times = watched_times(watched)
    process = _start(command, held, was_up=False)
    is_down, was_up = False, False
    while not stop.wait(POLL_SECONDS):
        if not is_down and process.poll() is not None:
            if process.returncode == 0:
                return 0
            is_down = True
            say("It ended with an error. It is started again when a file changes.")
        now = watched_times(watched)
        if now == times:
            continue
        changed = sorted({path for path, _ in now.items() ^ times.items()})
        times = now
        say(f"{changed[0]} has changed. Starting again.")
        was_up = was_up or not is_down
        _end(process)
        process = _start(command, held, was_up=was_up)
        is_down = False
    _end(process)
    return process.returncode


def _start(command: Command, held: int | None, *, was_up: bool) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(held, was_up), pass_fds=() if held is None else (held,))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it drain; a second Ctrl+C reaches it from the terminal too."""
    if process.poll() is None:
        process.terminate()
    process.wait()


def end_with_reloader(held: int) -> None:
    """End this process, as SIGTERM would, when the reloader that holds the other end of this pipe is gone."""

    def wait() -> None:
        os.read(held, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="end with the reloader").start()


def free_port(host: str) -> int:
    """A port that nobody uses at this host; 0 if it has none."""
    try:
        (family, *_, address), *_ = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind(address)
            return trial.getsockname()[1]
    except OSError:  # the server itself says best what is wrong
        return 0


def watched_times(directories: Iterable[Path]) -> dict[str, int]:
    """Every Python file below the directories, and when it was last written."""
    return {path: modified for directory in directories for path, modified in _python_files(directory)}


def _python_files(directory: Path) -> Iterator[tuple[str, int]]:
    for place, folders, files in os.walk(directory):
        if "pyvenv.cfg" in files:  # an environment, thousands of files that nobody edits
            folders.clear()
            continue
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(place, name)
                try:
                    yield path, os.stat(path).st_mtime_ns
                except OSError:  # an editor has just replaced it; the next look sees the new one
                    continue
