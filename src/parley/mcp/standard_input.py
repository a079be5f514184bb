"""The lines of standard input for an event loop, from a thread that does not outlive the process.

A read of standard input cannot be interrupted: a thread that the loop waits for would hold up Ctrl+C until the next
line. This thread is not waited for, and reads the file descriptor itself, so that it holds no lock of Python's when the
process ends. It reads no faster than the lines are used.
"""

from __future__ import annotations

import asyncio
import logging
import os
from threading import Thread

logger = logging.getLogger(__name__)

CHUNK_BYTES = 64 * 1024

MAX_LINE_BYTES = 64 * 1024 * 1024
"""One message: files of 48 MiB in base64. A longer line is dropped."""

STANDARD_INPUT = 0


class InputLines:
    """An asynchronous iterator over the lines of a file descriptor."""

    def __init__(self, descriptor: int = STANDARD_INPUT) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue(1)
        Thread(target=self._read, name="parley-standard-input", daemon=True).start()

    def __aiter__(self) -> InputLines:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line

    def close(self) -> None:
        """End the iteration, although there may be more lines."""
        if self._lines.full():
            self._lines.get_nowait()
        self._lines.put_nowait(None)

    def _read(self) -> None:
        rest = bytearray()
        is_too_long = False
        while chunk := self._chunk():
            *lines, end = chunk.split(b"\n")
            for line in lines:
                rest += line
                if not is_too_long:
                    self._hand_over(rest.decode(errors="replace"))
                rest.clear()
                is_too_long = False
            rest += end
            if len(rest) > MAX_LINE_BYTES:
                logger.warning("A message of more than %d bytes was dropped", MAX_LINE_BYTES)
                rest.clear()
                is_too_long = True
        if rest and not is_too_long:
            self._hand_over(rest.decode(errors="replace"))
        self._hand_over(None)

    def _chunk(self) -> bytes:
        try:
            return os.read(self._descriptor, CHUNK_BYTES)
        except OSError:
            return b""

    def _hand_over(self, line: str | None) -> None:
        """Wait until the loop has taken the line before. The loop may be closed by then."""
        try:
            asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()
        except (RuntimeError, asyncio.CancelledError):
            return
