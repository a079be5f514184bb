"""A file beside the store into which all replicas append what their handlers do: runs that began, and effects of steps.

It shows what no log can: an effect that was done again although its result was recorded. Lines are written by one
`write` to a file that is opened to append, so those of several processes do not mix, and are in the order of time.
Moments are those of the machine's monotonic clock, which a wrong clock of a replica does not change.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct


class RunBegan(Struct, frozen=True, tag="run"):
    """A run of a handler began."""

    at: float
    task: str
    run: str
    worker: str
    pid: int


class EffectDone(Struct, frozen=True, tag="effect"):
    """The function of a step was called."""

    at: float
    task: str
    step: str
    run: str


SideEvent = RunBegan | EffectDone


class SideFile:
    """Where the handlers of one process write what they do."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def run_began(self, task: str, run: str, worker: str) -> None:
        """Note that a run began."""
        self._write(RunBegan(time.monotonic(), task, run, worker, os.getpid()))

    def effect_done(self, task: str, step: str, run: str) -> None:
        """Note that a step was taken."""
        self._write(EffectDone(time.monotonic(), task, step, run))

    def _write(self, event: SideEvent) -> None:
        os.write(self._file, msgspec.json.encode(event) + b"\n")


def read_side_file(path: Path) -> list[SideEvent]:
    """All lines, in their order."""
    if not path.exists():
        return []
    return [msgspec.json.decode(line, type=SideEvent) for line in path.read_bytes().splitlines()]
