"""A watchdog for the event loop: it logs which handler blocks the loop, and with it all tasks and health checks.

Python cannot interrupt a function that blocks. So a thread logs the run and the line that blocks while it lasts, and
how long it took when it is over. The remedy is to make the handler a plain function, which runs in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

from parley.engine.runs.author_code import without_parley

if TYPE_CHECKING:
    from parley.engine.runs.run import Run

logger = logging.getLogger(__name__)

RUN_NAME = "run "
"""The prefix of the names of all asyncio tasks of runs, in every engine."""


class Watchdog:
    """A thread that pings the loop regularly, and logs an error when no answer comes for `seconds`.

    `find_run` gives the run that an asyncio task does the work of, if it is one of this engine. `on_end` is called on
    the loop when it goes on, with that run and the seconds that it took.
    """

    def __init__(
        self,
        seconds: float,
        find_run: Callable[[asyncio.Task[object]], Run | None],
        on_end: Callable[[Run | None, float], None],
    ) -> None:
        self._seconds = seconds
        self._find_run = find_run
        self._on_end = on_end
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to watch the loop that runs here."""
        loop, ident = asyncio.get_running_loop(), threading.get_ident()
        threading.Thread(target=self._watch, args=(loop, ident), name="parley watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop to watch the loop."""
        self._stop.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, ident: int) -> None:
        # Often enough that nothing which takes twice as long as the limit goes unseen.
        while not self._stop.wait(self._seconds / 4):
            answered = threading.Event()
            asked_at = monotonic()
            try:
                loop.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return  # the loop is closed
            if answered.wait(self._seconds) or self._stop.is_set():
                continue
            task = asyncio.current_task(loop)
            run = self._find_run(task) if task is not None else None
            is_ours = run is not None or task is None or not task.get_name().startswith(RUN_NAME)
            if is_ours:  # otherwise the engine of that run logs it
                self._complain(run, sys._current_frames().get(ident))  # pyright: ignore[reportPrivateUsage]
            answered.wait()
            if is_ours:
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._on_end, run, monotonic() - asked_at)

    def _complain(self, run: Run | None, frame: FrameType | None) -> None:
        stack = without_parley(traceback.extract_stack(frame)) if frame else traceback.StackSummary()
        who = "Something" if run is None else f"The handler of {run.program.id} (task {run.key.task_id})"
        cure = "If it is an agent's handler, make it" if run is None else "Make it"
        where = f"It is in {stack[0].name}, line {stack[0].lineno} of {stack[0].filename}." if stack else ""
        text = (
            f"{who} has blocked the event loop for {self._seconds:g} seconds, and with it all tasks and health checks. "
            f"{cure} a plain function: those run in threads. {where}"
        )
        extra = None if run is None else run.log_fields
        lines = "".join(stack.format())
        logger.handle(
            logger.makeRecord(logger.name, logging.ERROR, __file__, 0, "%s", (text,), None, None, extra, lines)
        )
