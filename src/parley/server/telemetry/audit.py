"""The audit trail: one JSON line for each task created, change of state, cancellation and change of a webhook.

It is a file beside the store, only ever appended to, in the order in which things became durable. A thread writes it,
so that a slow disk holds nobody up. A line that cannot be written is lost, counted and logged, and the trail itself
says how many are missing; service goes on. See docs/decisions/0008.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version

logger = logging.getLogger(__name__)

LINES_WAITING = 100_000
"""Lines that may wait for a disk that hangs: some 50 MB. Further ones are lost."""

LINES_AT_ONCE = 1_000
"""Lines in one write."""

What: TypeAlias = Literal["created", "state", "cancel", "push-config-created", "push-config-deleted", "lines-lost"]


class AuditLine(Struct, frozen=True, omit_defaults=True, rename={"from_state": "from", "to_state": "to"}):
    """One line: when, what, whose task, and by whom.

    `caller` is who asked, or whose task it is where the agent itself moved on. `from` is missing where this process has
    not seen the task before: right after a restart. `lost` is how many lines are missing here.
    """

    time: datetime
    what: What
    tenant: str = ""
    caller: str = ""
    agent: str = ""
    task: str = ""
    context: str | None = None
    from_state: TaskState | None = None
    to_state: TaskState | None = None
    config: str | None = None
    dialect: Version | None = None
    trace_id: str | None = None
    lost: int = 0


class _Order(Enum):
    """What the writing thread is told besides lines."""

    REOPEN = "reopen"
    CLOSE = "close"


class AuditTrail:
    """An audit trail in a file. Several processes may append to the same one."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._queue: SimpleQueue[AuditLine | _Order] = SimpleQueue()
        self._thread: Thread | None = None
        self._file = -1
        # Each is written by one thread only: the first by whoever appends, the second by the one that writes.
        self._dropped = 0
        self._unwritten = 0
        self._told = 0
        self._is_failing = False
        self._is_torn = False

    @property
    def lost(self) -> int:
        """How many lines could not be written."""
        return self._dropped + self._unwritten

    def open(self) -> None:
        """Begin to write; a trail that is open stays so.

        Raises:
            OSError: the file cannot be opened. A server that was to keep a trail should not start without one.
        """
        if self._thread is not None:
            return
        self._file = self._opened()
        self._thread = Thread(target=self._work, name="parley-audit", daemon=True)
        self._thread.start()

    def append(self, line: AuditLine) -> None:
        """Write a line soon; never waits."""
        if self._queue.qsize() >= LINES_WAITING:
            self._dropped += 1
        else:
            self._queue.put(line)

    def reopen(self) -> None:
        """Go on in a new file, because the old one was moved away. Safe to call from a signal handler."""
        self._queue.put(_Order.REOPEN)

    def close(self) -> None:
        """Write what waits, make sure that it is on the disk, and let go. Waits for the disk."""
        if self._thread is None:
            return
        self._queue.put(_Order.CLOSE)
        self._thread.join()
        self._thread = None
        with contextlib.suppress(OSError):  # pipes and terminals have no disk
            os.fsync(self._file)
        os.close(self._file)

    # --- in the thread ------------------------------------------------------------------------------------------------

    def _opened(self) -> int:
        # With O_APPEND each write is put at the end as a whole, whoever else writes there.
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def _work(self) -> None:
        while True:
            lines, order = self._next()
            if lines:
                self._write(lines)
            if order is _Order.CLOSE:
                return
            if order is _Order.REOPEN:
                self._reopen()

    def _next(self) -> tuple[list[AuditLine], _Order | None]:
        """The lines that wait, up to the next order; waits for the first."""
        lines: list[AuditLine] = []
        item = self._queue.get()
        while True:
            if isinstance(item, _Order):
                return lines, item
            lines.append(item)
            if len(lines) == LINES_AT_ONCE:
                return lines, None
            try:
                item = self._queue.get_nowait()
            except Empty:
                return lines, None

    def _write(self, lines: list[AuditLine]) -> None:
        missing = self.lost - self._told
        gap = [AuditLine(lines[0].time, "lines-lost", lost=missing)] if missing else []
        # After a write that a full disk cut short, the next line must not become part of the last.
        text = b"\n" * self._is_torn + b"".join(map(encode_line, gap + lines))
        written, error = self._put(text)
        whole = max(text.count(b"\n", 0, written) - self._is_torn, 0)
        if gap and whole:
            self._told += missing
            whole -= 1
        self._unwritten += len(lines) - whole
        if written:
            self._is_torn = not text.endswith(b"\n", 0, written)
        if error is not None and not self._is_failing:  # once for as long as it lasts
            logger.error("The audit trail %s cannot be written, its lines are lost: %s", self.path, error)
        elif error is None and self._is_failing:
            logger.warning("The audit trail %s is written again; it has lost %d lines", self.path, self.lost)
        self._is_failing = error is not None

    def _put(self, text: bytes) -> tuple[int, OSError | None]:
        """How much of the text got into the file, and why no more."""
        written = 0
        try:
            while written < len(text):
                written += os.write(self._file, text[written:])
        except OSError as error:
            return written, error
        return written, None

    def _reopen(self) -> None:
        try:
            file = self._opened()
        except OSError as error:
            logger.error("The audit trail %s cannot be opened again; the old file is used: %s", self.path, error)
            return
        os.close(self._file)
        self._file, self._is_torn = file, False


def encode_line(line: AuditLine) -> bytes:
    """A line as it stands in the file, with its end."""
    try:
        return msgspec.json.encode(line) + b"\n"
    except UnicodeEncodeError:  # half a surrogate pair in a name: no UTF-8, but JSON has an escape for it
        return json.dumps(msgspec.to_builtins(line)).encode() + b"\n"


def utc_now() -> datetime:
    """The present moment, to the millisecond as tasks have it."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
