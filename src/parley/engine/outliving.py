"""Work that goes on when its caller disconnects, because what was begun must be written and announced."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, TypeVar

from parley.protocol.errors import ParleyError

logger = logging.getLogger(__name__)

T = TypeVar("T")


async def outliving(task: asyncio.Task[T]) -> T:
    """The result of a task, which is not cancelled with its caller; without a caller, its error is only logged."""
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.add_done_callback(_log_error)
        raise


def _log_error(task: asyncio.Task[Any]) -> None:
    error = None if task.cancelled() else task.exception()
    if isinstance(error, ParleyError):
        logger.info("What a caller did not wait for has failed: %s", error)
    elif error is not None:
        logger.error("What a caller did not wait for has failed", exc_info=error)
