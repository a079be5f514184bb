"""Pieces that a framework's callbacks report, while the framework runs in a task of its own.

A callback can wait until what it reported is in the log, so that the framework does not go on before.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from parley.adapters.adapter import Piece


class PieceQueue:
    """The pieces of one run."""

    def __init__(self) -> None:
        self._reported: asyncio.Queue[tuple[tuple[Piece, ...], asyncio.Event] | None] = asyncio.Queue()

    def put(self, *pieces: Piece) -> asyncio.Event:
        """Report pieces. The event is set when they were taken; after a checkpoint, that is when it is in the log."""
        is_taken = asyncio.Event()
        self._reported.put_nowait((pieces, is_taken))
        return is_taken

    async def pieces_of(self, work: Coroutine[Any, Any, None]) -> AsyncIterator[Piece]:
        """What is reported while some work is done. The work is cancelled if this is closed.

        Raises:
            Exception: what the work raises.
        """
        task = asyncio.create_task(self._run(work))
        try:
            while (reported := await self._reported.get()) is not None:
                pieces, is_taken = reported
                for piece in pieces:
                    yield piece
                is_taken.set()
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (SystemExit, KeyboardInterrupt) as error:  # asyncio would end the server for it
            raise RuntimeError(f"The framework's run ended with {error!r}") from error
        finally:
            self._reported.put_nowait(None)
