"""What must hold in a file beyond its pages: the rules of the task log, checked in one pass over all rows.

Each function is a generator: it says what is wrong, a sentence each, and holds one task at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any

import msgspec

from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.stores.encoding import (
    decode_artifacts,
    decode_events,
    decode_message,
    decode_push_config,
    decode_task,
    decode_value,
)

TOLD_EACH = 500
"""Tasks after which the progress is told."""

_STATES = {state.value for state in TaskState}
_VERSIONS = {version.value for version in Version}


def check_rules(connection: sqlite3.Connection, tell: Callable[[str], None]) -> Generator[str]:
    """Everything that is wrong with what the tables hold. The connection sees one state of the file meanwhile."""
    yield from _check_tasks(connection, tell)
    tell("Looking at sends, webhooks and conversations …")
    yield from _check_sends(connection)
    yield from _check_webhooks(connection)
    yield from _check_values(connection)


def _check_tasks(connection: sqlite3.Connection, tell: Callable[[str], None]) -> Generator[str]:
    (total,) = connection.execute("SELECT count(*) FROM tasks").fetchone()
    tasks = connection.execute(
        """
        SELECT number, tasks.id, state, created_in, last_seq, snapshot_seq, snapshot, artifacts
        FROM tasks LEFT JOIN snapshots ON snapshots.tenant = tasks.tenant AND snapshots.task = tasks.id
        ORDER BY number
        """
    )
    rows = connection.execute("SELECT task, last_seq, events FROM events ORDER BY task, last_seq")
    events = _Grouped(rows)
    for count, (number, task_id, state, created_in, last_seq, snapshot_seq, snapshot, artifacts) in enumerate(tasks):
        if count % TOLD_EACH == 0:
            tell(f"Looking at tasks: {count:,} of {total:,} …")
        yield from _orphans(events.before(number))
        name = f"Task {task_id}"
        yield from (f"{name}: {what}" for what in _check_events(events.of(number), last_seq))
        if state not in _STATES or created_in not in _VERSIONS:
            yield f"{name}: state {state!r} or version {created_in!r} is unknown"
        if snapshot_seq > last_seq:
            yield f"{name}: its snapshot is of event {snapshot_seq}, its last event is {last_seq}"
        if (snapshot is not None) != (snapshot_seq > 0):
            has = "none" if snapshot is None else "one"
            yield f"{name}: it says that its snapshot is of event {snapshot_seq}, and has {has}"
        if snapshot is not None and not _decodes(decode_task, snapshot):
            yield f"{name}: its snapshot cannot be read"
        if artifacts is not None and not _decodes(decode_artifacts, artifacts):
            yield f"{name}: the artifacts of its snapshot cannot be read"
    yield from _orphans(events.before(None))


def _check_events(rows: Iterable[tuple[int, str]], last_seq: int) -> Generator[str]:
    reached = 0
    for row_seq, text in rows:
        try:
            number = len(decode_events(text))
        except msgspec.MsgspecError:
            yield f"the events up to {row_seq} cannot be read"
        else:
            if reached + number != row_seq:
                yield f"event {reached + 1} is missing, or there twice: {number} events end with {row_seq}"
        reached = row_seq
    if reached != last_seq:
        yield f"its last event is {reached}, and not {last_seq}"


def _orphans(tasks: Iterable[int]) -> Generator[str]:
    for number in tasks:
        yield f"There are events of a task number {number}, and no such task"


class _Grouped:
    """Rows of events, by task, in the order of their numbers; asked for in that order."""

    def __init__(self, rows: Iterator[tuple[int, int, str]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def of(self, number: int) -> Generator[tuple[int, str]]:
        """A task's rows: number of the last event, and the events."""
        while self._next is not None and self._next[0] == number:
            yield self._next[1:]
            self._next = next(self._rows, None)

    def before(self, number: int | None) -> Generator[int]:
        """The tasks, before one or all that are left, which have rows that were not asked for."""
        while self._next is not None and (number is None or self._next[0] < number):
            orphan = self._next[0]
            yield orphan
            for _ in self.of(orphan):
                pass


def _check_sends(connection: sqlite3.Connection) -> Generator[str]:
    rows = connection.execute(
        """
        SELECT message_id, task, reply, tasks.id FROM sends
        LEFT JOIN tasks ON tasks.tenant = sends.tenant AND tasks.id = task AND tasks.owner = sends.owner
        """
    )
    for message_id, task, reply, found in rows:
        if task is not None and found is None:
            yield f"Message {message_id}: it went to task {task}, which is not there"
        if reply is not None and not _decodes(decode_message, reply):
            yield f"Message {message_id}: its reply cannot be read"


def _check_webhooks(connection: sqlite3.Connection) -> Generator[str]:
    rows = connection.execute(
        """
        SELECT p.task, p.id, p.config, p.version, p.delivered_seq, t.last_seq FROM push_configs AS p
        LEFT JOIN tasks AS t ON t.tenant = p.tenant AND t.id = p.task AND t.owner = p.owner
        """
    )
    for task, config_id, config, version, delivered_seq, last_seq in rows:
        name = f"Webhook {config_id!r} of task {task}"
        if last_seq is None:
            yield f"{name}: its owner has no such task"
        elif delivered_seq > last_seq:
            yield f"{name}: it was told of event {delivered_seq}, and the last one is {last_seq}"
        if version not in _VERSIONS or not _decodes(decode_push_config, config):
            yield f"{name}: it cannot be read"


def _check_values(connection: sqlite3.Connection) -> Generator[str]:
    for context, name, value in connection.execute("SELECT context, name, value FROM context_values"):
        if not _decodes(decode_value, value):
            yield f"Conversation {context}: its value {name!r} cannot be read"


def _decodes(decode: Callable[[str], Any], text: str) -> bool:
    try:
        decode(text)
    except msgspec.MsgspecError:
        return False
    return True
