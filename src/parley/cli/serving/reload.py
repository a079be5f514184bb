"""`--reload`: runs a command in a child process and restarts it when a Python file changes.

The child is the same command without `--reload`, with its own ports, store and drain. If it ends with an error, it is
restarted at the next change. The modification times of files are polled a few times a second. The child has one end of
a pipe and ends when the other end closes, so it also ends when the reloader is killed. Windows cannot pass such a pipe.
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
"""Quick enough for an author; thousands of files take a few milliseconds."""

SKIPPED = {"__pycache__", "node_modules", "site-packages"}

Command = Callable[[int | None, bool], Sequence[str]]
"""The command line for a child, given its end of the pipe and whether an earlier child was running."""


def run_reloading(command: Command, directories: Iterable[Path], log: Callable[[str], None]) -> int:
    """Run a command until SIGTERM or SIGINT, and restart it after every change; return its last exit code."""
    watched = sorted(set(directories))
    stop = threading.Event()

    def end(_number: int, _frame: object) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    pipe = None if sys.platform == "win32" else os.pipe()[0]  # the other end stays open while this process lives
    times = watched_times(watched)
    process = _start(command, pipe, was_up=False)
    is_down, was_up = False, False
    while not stop.wait(POLL_SECONDS):
        if not is_down and process.poll() is not None:
            if process.returncode == 0:
                return 0
            is_down = True
            log("The server ended with an error. It restarts when a file changes.")
        now = watched_times(watched)
        if now == times:
            continue
        changed = sorted({path for path, _ in now.items() ^ times.items()})
        times = now
        log(f"{changed[0]} has changed. Restarting.")
        was_up = was_up or not is_down
        _end(process)
        process = _start(command, pipe, was_up=was_up)
        is_down = False
    _end(process)
    return process.returncode


def _start(command: Command, pipe: int | None, *, was_up: bool) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command(pipe, was_up), pass_fds=() if pipe is None else (pipe,))


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the child drain; a second Ctrl+C also reaches it from the terminal."""
    if process.poll() is None:
        process.terminate()
    process.wait()


def exit_with_parent(pipe: int) -> None:
    """End this process with SIGTERM when its parent closes its end of the pipe, which it does when it ends."""

    def wait() -> None:
        os.read(pipe, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="end with the parent").start()


def free_port(host: str) -> int:
    """A free port at this host; 0 if there is none."""
    try:
        (family, *_, address), *_ = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            trial.bind(address)
            return trial.getsockname()[1]
    except OSError:  # the server reports what is wrong
        return 0


def watched_times(directories: Iterable[Path]) -> dict[str, int]:
    """Every Python file below the directories, and when it was last written."""
    return {path: modified for directory in directories for path, modified in _python_files(directory)}


def _python_files(directory: Path) -> Iterator[tuple[str, int]]:
    for folder, folders, files in os.walk(directory):
        if "pyvenv.cfg" in files:  # a virtual environment
            folders.clear()
            continue
        folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
        for name in files:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                try:
                    yield path, os.stat(path).st_mtime_ns
                except OSError:  # it has just been replaced; the next poll sees the new one
                    continue
