"""`--reload`: runs a command in a process of its own and starts it again when a Python file changes.

The command is the real thing, with its own ports, store and drain, so what works with `--reload` works without. One
that ends with an error stays down until the next change. The files' times are looked at a few times a second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

POLL_SECONDS = 0.3
"""Soon enough for somebody who changes windows; some thousand files are looked at in a few milliseconds."""

SKIPPED = {"__pycache__", "node_modules", "site-packages"}


def run_reloading(command: Sequence[str], directories: Iterable[Path], say: Callable[[str], None]) -> int:
    """Run a command until SIGTERM or SIGINT, again after every change; the exit code is that of its last run."""
    watched = sorted(set(directories))
    stop = threading.Event()

    def end(_number: int, _frame: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    times = watched_times(watched)
    process = subprocess.Popen(command)
    is_down = False
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
        _end(process)
        process = subprocess.Popen(command)
        is_down = False
    _end(process)
    return process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let it drain; a second Ctrl+C reaches it from the terminal too."""
    if process.poll() is None:
        process.terminate()
    process.wait()


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
