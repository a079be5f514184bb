"""Rows of a list whose secrets cannot be read: each is logged once, with the cure, and stops none of the others.

Lists are read again and again, some of them every second, so a row is not logged at every read.
"""

from __future__ import annotations

import logging

from parley.sealed.errors import SecretError

logger = logging.getLogger(__name__)

MOST_REMEMBERED = 1_000
"""Rows that are remembered as logged: some 300 KB. If there are more, all of them are logged again."""


class UnreadableRows:
    """The rows of one table that were logged."""

    def __init__(self, table: str) -> None:
        self._table = table
        self._logged: set[tuple[str, ...]] = set()

    def report(self, error: SecretError, *key: str) -> None:
        """Log a row, by its key, with why its secrets cannot be read, unless that was done for the same reason."""
        logged = (*key, str(error))
        if logged in self._logged:
            return
        if len(self._logged) >= MOST_REMEMBERED:
            self._logged.clear()
        self._logged.add(logged)
        logger.warning("The secrets of %s %s cannot be read: %s", self._table, "/".join(key), error)
