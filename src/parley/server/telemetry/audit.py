"""The audit trail: one JSON line for each created task, change of state, cancellation and change of a webhook.

It is an append-only file, in the order of the commits. A thread writes it, so that a slow disk does not delay requests.
A line that cannot be written is lost: it is counted and logged, and the next line that is written says how many are
missing. The server continues. See docs/decisions/0008.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from parley.engine.owner_data import DeletedData, Selection
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.stores.interface import Owner

logger = logging.getLogger(__name__)

LINES_WAITING = 100_000
"""Lines that may be queued for a slow disk, about 50 MB. Further lines are lost."""

LINES_AT_ONCE = 1_000
"""Lines in one write."""

KeyEvent: TypeAlias = Literal[
    "key-created",
    "key-rotated",
    "key-retired",
    "key-published",
    "key-current",
    "key-withdrawn",
    "keys-reloaded",
    "auth-reloaded",
    "webhook-auth-reloaded",
    "people-reloaded",
]
"""The first three are written by `parley keys`, the others by every process of a server when it notices the change."""

AuditEvent: TypeAlias = Literal[
    "created",
    "state",
    "cancel",
    "push-config-created",
    "push-config-deleted",
    "push-paused",
    "push-resumed",
    "push-redelivered",
    "push-given-up",
    "data-deleted",
    "lines-lost",
    KeyEvent,
]


class AuditLine(Struct, frozen=True, omit_defaults=True, rename={"from_state": "from", "to_state": "to"}):
    """One line of the audit trail.

    `caller` is the caller of the operation, or the owner of the task if the agent changed the state. `from` is missing
    after a restart, when this process has not seen the task before. `deleted` is how
    much a caller has deleted, by kind, and `owner` whose data it was, if not the caller's own. `lost` is the number of
    missing lines.
    """

    time: datetime
    what: AuditEvent
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
    key: str | None = None
    owner: str = ""
    deleted: Mapping[str, int] | None = None
    lost: int = 0
    events: int = 0
    """How many events a webhook will not be sent any more."""


def deletion_line(time: datetime, owner: Owner, by: str, selection: Selection, deleted: DeletedData) -> AuditLine:
    """The line about data that was deleted: when, by whom, whose, of what kind and how much; nothing of what it was."""
    counts = {"tasks": deleted.tasks, "events": deleted.events, "webhooks": deleted.webhooks}
    counts |= {"contextValues": deleted.context_values, "sends": deleted.sends, **deleted.records}
    return AuditLine(
        time,
        "data-deleted",
        owner.tenant,
        by,
        selection.agent or "",
        selection.task_id or "",
        context=selection.context_id,
        owner=owner.name if owner.name != by else "",
        deleted=counts,
    )


class _Command(Enum):
    """Commands for the writer thread."""

    REOPEN = "reopen"
    CLOSE = "close"


class AuditTrail:
    """An audit trail in a file. Several processes may append to the same one."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._queue: SimpleQueue[AuditLine | _Command] = SimpleQueue()
        self._thread: Thread | None = None
        self._file = -1
        # Each is changed by one thread only: the first by the event loop, the second by the writer.
        self._dropped = 0
        self._unwritten = 0
        self._reported = 0
        self._is_failing = False
        self._is_torn = False

    @property
    def lost(self) -> int:
        """How many lines could not be written."""
        return self._dropped + self._unwritten

    def open(self) -> None:
        """Open the file and start the writer, unless that has happened.

        Raises:
            OSError: the file cannot be opened. Then the server should not start.
        """
        if self._thread is not None:
            return
        self._file = self._open_file()
        self._thread = Thread(target=self._run, name="parley-audit", daemon=True)
        self._thread.start()

    def append(self, line: AuditLine) -> None:
        """Queue a line. Never blocks."""
        if self._queue.qsize() >= LINES_WAITING:
            self._dropped += 1
        else:
            self._queue.put(line)

    def reopen(self) -> None:
        """Open a new file at the path, after log rotation. Safe to call from a signal handler."""
        self._queue.put(_Command.REOPEN)

    def close(self) -> None:
        """Write all queued lines, sync the file and close it. Blocks."""
        if self._thread is None:
            return
        self._queue.put(_Command.CLOSE)
        self._thread.join()
        self._thread = None
        with contextlib.suppress(OSError):  # pipes and terminals cannot be synced
            os.fsync(self._file)
        os.close(self._file)

    # --- in the writer thread -----------------------------------------------------------------------------------------

    def _open_file(self) -> int:
        # With O_APPEND each write goes to the end as a whole, even if other processes write to the file.
        return os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)

    def _run(self) -> None:
        while True:
            lines, command = self._next()
            if lines:
                self._write(lines)
            if command is _Command.CLOSE:
                return
            if command is _Command.REOPEN:
                self._reopen()

    def _next(self) -> tuple[list[AuditLine], _Command | None]:
        """The queued lines up to the next command. Blocks until there is one."""
        lines: list[AuditLine] = []
        item = self._queue.get()
        while True:
            if isinstance(item, _Command):
                return lines, item
            lines.append(item)
            if len(lines) == LINES_AT_ONCE:
                return lines, None
            try:
                item = self._queue.get_nowait()
            except Empty:
                return lines, None

    def _write(self, lines: list[AuditLine]) -> None:
        missing = self.lost - self._reported
        gap = [AuditLine(lines[0].time, "lines-lost", lost=missing)] if missing else []
        # If a full disk has cut the last line short, the next one must start on a line of its own.
        text = b"\n" * self._is_torn + b"".join(map(encode_line, gap + lines))
        written, error = self._write_bytes(text)
        whole = max(text.count(b"\n", 0, written) - self._is_torn, 0)
        if gap and whole:
            self._reported += missing
            whole -= 1
        self._unwritten += len(lines) - whole
        if written:
            self._is_torn = not text.endswith(b"\n", 0, written)
        if error is not None and not self._is_failing:  # log the first failure only
            logger.error("The audit trail %s cannot be written, its lines are lost: %s", self.path, error)
        elif error is None and self._is_failing:
            logger.warning("The audit trail %s is written again; it has lost %d lines", self.path, self.lost)
        self._is_failing = error is not None

    def _write_bytes(self, text: bytes) -> tuple[int, OSError | None]:
        """Write the text, and return the number of bytes written and the error, if any."""
        written = 0
        try:
            while written < len(text):
                written += os.write(self._file, text[written:])
        except OSError as error:
            return written, error
        return written, None

    def _reopen(self) -> None:
        try:
            file = self._open_file()
        except OSError as error:
            logger.error("The audit trail %s cannot be reopened; the old file stays in use: %s", self.path, error)
            return
        os.close(self._file)
        self._file, self._is_torn = file, False


def encode_line(line: AuditLine) -> bytes:
    """A line of the file, with the line break."""
    try:
        return msgspec.json.encode(line) + b"\n"
    except UnicodeEncodeError:  # a lone surrogate in a name is not UTF-8, but JSON can escape it
        return json.dumps(msgspec.to_builtins(line)).encode() + b"\n"


def utc_now() -> datetime:
    """The current time in milliseconds, as in tasks."""
    moment = datetime.now(UTC)
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
