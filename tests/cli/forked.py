"""`parley` for commands that end by themselves: one process imports it, and forks for each of them.

As a script it reads the commands from standard input, and writes their exit codes and what they said, all as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

SECONDS = 60
NEEDED = (
    "app",
    "run",
    "listener.tls",
    "security.auth_file",
    "telemetry.audit",
    "telemetry.logs",
    "telemetry.metrics",
    "telemetry.tracing",
)
"""Modules of the server that commands import when they need them: here once for all."""


class Ended(NamedTuple):
    """How a command has ended."""

    code: int
    said: list[str]
    logged: list[str]


def run_each(commands: Sequence[Sequence[str]], *, cwd: Path) -> list[Ended]:
    """How each command ends, whose words are those after `parley`."""
    done = subprocess.run(
        [sys.executable, __file__],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "60"},
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return [Ended(*ended) for ended in json.loads(done.stdout)]


def main() -> None:
    from parley.cli import main as command

    for name in NEEDED:
        import_module(f"parley.server.{name}")

    ends: list[Ended] = []
    for words in json.load(sys.stdin):
        with TemporaryFile("w+") as said, TemporaryFile("w+") as logged:
            child = os.fork()
            if child == 0:
                os.dup2(said.fileno(), 1)
                os.dup2(logged.fileno(), 2)
                sys.argv[1:] = words
                command.main()  # ends the process
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said.seek(0)
            logged.seek(0)
            ends.append(Ended(code, said.read().splitlines(), logged.read().splitlines()))
    print(json.dumps(ends))


if __name__ == "__main__":
    main()
