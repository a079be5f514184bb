"""Tracebacks of agents that failed lately, for the people who run the server.

Callers get a reference only, because a traceback may hold secrets and names of files. The server's log has it under
that reference; the last ones are kept here, too, so that the author of an agent need not look there. They are lost when
the server ends. Only operators see them, and all callers of a server without authentication.
"""

from __future__ import annotations

import logging
import traceback
from collections import OrderedDict

AGENT_FAILURES = "parley.engine.runs.supervisor"
"""The logger that reports agents that raise."""

KEPT = 200
MOST_CHARACTERS = 16_000
"""Of one traceback: its end, where the error is."""


class RecentFailures(logging.Handler):
    """The tracebacks of the last failures, by task. It is a handler of the log between `open` and `close`."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._texts: OrderedDict[str, str] = OrderedDict()

    def open(self) -> None:
        """Listen from now on."""
        logging.getLogger(AGENT_FAILURES).addHandler(self)  # which does nothing if it is there

    def close(self) -> None:
        """Listen no longer."""
        logging.getLogger(AGENT_FAILURES).removeHandler(self)
        super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a failure, if the record reports one."""
        task, error = getattr(record, "task", None), record.exc_info[1] if record.exc_info else None
        if not isinstance(task, str) or error is None or not hasattr(record, "reference"):
            return
        text = "".join(traceback.format_exception(error))
        self._texts[task] = text[-MOST_CHARACTERS:]
        self._texts.move_to_end(task)
        while len(self._texts) > KEPT:
            self._texts.popitem(last=False)

    def find(self, task_id: str) -> str | None:
        """The end of the traceback of a task that failed lately."""
        return self._texts.get(task_id)
