"""Errors of the store, translated into errors for callers at the edge of the engine.

The store's own text names files and tables; it goes into the log, and stays with the error as its cause.
"""

from __future__ import annotations

import logging
from types import TracebackType

from parley.protocol.errors import InvalidParamsError, UnavailableError
from parley.stores.interface import StoreError

logger = logging.getLogger(__name__)


class _Translation:
    """A context that turns a StoreError into an A2AError. It has no state, so one instance is enough."""

    def __enter__(self) -> None: ...

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        if error is None or not isinstance(error, StoreError):
            return
        if isinstance(error.__cause__, UnicodeEncodeError):
            raise InvalidParamsError("The request names something that is not valid Unicode") from error
        logger.error("The store refused: %s", error)
        raise UnavailableError("The agent cannot reach its store now; try again later") from error


translated = _Translation()
"""`with translated: …` raises UnavailableError where the store refuses, or InvalidParamsError for half a character."""
