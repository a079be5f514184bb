"""A served agent in a process of its own, for tests that attack it from outside."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

SECONDS_TO_END = 20


@dataclass(frozen=True, slots=True)
class Served:
    """Where the agent listens."""

    http: int
    grpc: int


@contextmanager
def served_agent(*options: str) -> Generator[Served]:
    """The agent of `fuzzed_process.py`, until the block ends; then it must have logged no failure of its own."""
    script = Path(__file__).with_name("fuzzed_process.py")
    with TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [sys.executable, script, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                log.seek(0)
                raise AssertionError(f"The agent could not be served:\n{log.read()}")
            yield Served(**json.loads(line))
        finally:
            process.stdin.close()
            code = process.wait(SECONDS_TO_END)
            process.stdout.close()
        log.seek(0)
        said = log.read()
        assert (code, [line for line in said.splitlines() if "ERROR" in line or "Traceback" in line]) == (0, []), said
