"""A watchdog for the event loop: a handler that blocks it stops everybody, and must at least be named.

Python cannot interrupt a function that does not let go. So this tells who it is, with the line it is stuck in; the cure
is to make the handler a plain function, which runs in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import traceback

logger = logging.getLogger(__name__)


class Watchdog:
    """A thread that knocks at the loop now and then, and complains when nobody opens."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin to watch the loop that runs here."""
        loop, ident = asyncio.get_running_loop(), threading.get_ident()
        threading.Thread(target=self._watch, args=(loop, ident), name="parley watchdog", daemon=True).start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stop.set()

    def _watch(self, loop: asyncio.AbstractEventLoop, ident: int) -> None:
        while not self._stop.wait(self._seconds):
            opened = threading.Event()
            try:
                loop.call_soon_threadsafe(opened.set)
            except RuntimeError:
                return  # the loop is closed
            if not opened.wait(self._seconds) and not self._stop.is_set():
                frame = sys._current_frames().get(ident)  # pyright: ignore[reportPrivateUsage]
                stack = "".join(traceback.format_stack(frame)) if frame else ""
                logger.error(
                    "Something has blocked the event loop for %g seconds, and with it all tasks. If it is an agent's "
                    "handler, make it a plain function: those run in threads. It is here:\n%s",
                    self._seconds,
                    stack,
                )
                opened.wait()
