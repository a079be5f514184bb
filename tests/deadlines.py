"""Every test has a deadline. One that misses it fails with all stacks: of threads, and of tasks that wait on the loop.

The alarm is a signal, so it reaches a test wherever its main thread waits, and it repeats for a test that swallows the
first one. Where no Python runs any more, pytest's faulthandler ends the process (see pyproject.toml).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import traceback
from collections.abc import Generator
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

import anyio
import pytest

PATIENCE = float(os.environ.get("PARLEY_TEST_PATIENCE", "4"))
"""By how much a machine may be slower than a quiet one: other work beside the tests must not fail them."""
SECONDS = float(os.environ.get("PARLEY_TEST_SECONDS", "180"))
"""The slowest tests take ten on a machine of their own. `@pytest.mark.deadline(…)` says otherwise for one of them, and
the variable for all: `make soak` gives them an hour."""
REPEAT_SECONDS = 15.0


def fail_after(seconds: float) -> AbstractContextManager[anyio.CancelScope]:
    """Fail if the block hangs: it has `seconds` on a quiet machine, and `PATIENCE` times as many on any other."""
    return anyio.fail_after(seconds * PATIENCE)


class Missed(pytest.fail.Exception, SystemExit):
    """A test that takes too long. Loops let go of what is a SystemExit; uvloop logs all else that a signal raises."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    marker = item.get_closest_marker("deadline")
    seconds = marker.args[0] if marker else SECONDS

    def miss(_number: int, frame: FrameType | None) -> None:
        raise Missed(f"The test has not ended after {seconds:g} seconds.\n\n{all_stacks(frame)}", pytrace=False)

    before = signal.signal(signal.SIGALRM, miss)
    signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def all_stacks(interrupted: FrameType | None) -> str:
    """Where each thread is, and where each unfinished task of the running loop waits."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    here = threading.get_ident()
    stacks = {f"Thread {names.get(ident)}": frame for ident, frame in sys._current_frames().items() if ident != here}
    stacks[f"Thread {names.get(here)}"] = interrupted
    lines = [f"{name}:\n{''.join(traceback.format_stack(frame))}" for name, frame in stacks.items()]
    try:
        tasks = asyncio.all_tasks()
    except RuntimeError:  # no loop runs in this thread
        tasks = set[asyncio.Task[Any]]()
    lines += [f"Task {task.get_name()}:\n{''.join(traceback.format_list(waiting(task.get_coro())))}" for task in tasks]
    return "\n".join(lines)


def waiting(awaited: Any) -> list[traceback.FrameSummary]:
    """The frames of a coroutine and of all that it awaits, outermost first."""
    frames: list[traceback.FrameSummary] = []
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is not None:
            frames += traceback.StackSummary.extract([(frame, frame.f_lineno)])
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)
    return frames
