"""What a store's refusal means to a caller: translated here, once, at the edge of the engine.

The store's own words name files and tables; they go into the log, and stay with the error as its cause.
"""

from __future__ import annotations

import logging
from types import TracebackType

from parley.protocol.errors import InvalidParamsError, UnavailableError
from parley.stores.interface import StoreError

logger = logging.getLogger(__name__)


class _Translation:
    """A block out of which no StoreError comes. It holds no state, so that one instance serves all."""

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
