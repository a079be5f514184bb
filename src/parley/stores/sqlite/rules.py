"""What must hold in a file beyond its pages: the rules of the store, checked in a pass over all rows.

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
    decode_inbox_item,
    decode_message,
    decode_push_config,
    decode_task,
    decode_value,
)

REPORT_EVERY = 500
"""Tasks after which the progress is reported."""

_STATES = {state.value for state in TaskState}
_VERSIONS = {version.value for version in Version}


def check_rules(connection: sqlite3.Connection, report: Callable[[str], None]) -> Generator[str]:
    """Everything that is wrong with what the tables hold. The connection sees one state of the file meanwhile."""
    yield from _check_tasks(connection, report)
    report("Checking sends, webhooks and conversations …")
    for query, sentence in _EXCEPTIONS:
        yield from [sentence.format(*row) for row in connection.execute(query)]
    for query, decode, sentence in _VALUES:
        yield from [
            sentence.format(*names) for value, *names in connection.execute(query) if not _decodes(decode, value)
        ]


_OF_TASK = "tenant = t.tenant AND task = t.id"
_WEBHOOK_BEHIND = f"EXISTS (SELECT 1 FROM push_configs WHERE {_OF_TASK} AND delivered_seq < t.last_seq)"
_TASK_OF = "SELECT 1 FROM tasks AS t WHERE t.tenant = r.tenant AND t.id = r.task AND t.owner = r.owner"

_EXCEPTIONS = (
    (
        f"SELECT message_id, task FROM sends AS r WHERE task IS NOT NULL AND NOT EXISTS ({_TASK_OF})",
        "Message {}: it went to task {}, which is not there",
    ),
    (
        f"SELECT id, task FROM push_configs AS r WHERE NOT EXISTS ({_TASK_OF})",
        "Webhook {!r} of task {}: its owner has no such task",
    ),
    (
        """
        SELECT r.id, task, delivered_seq, last_seq FROM push_configs AS r
        JOIN tasks AS t ON t.tenant = r.tenant AND t.id = task WHERE delivered_seq > last_seq
        """,
        "Webhook {!r} of task {}: event {} was delivered, and the last one is {}",
    ),
    (
        f"SELECT id FROM tasks AS t WHERE has_webhooks <> EXISTS (SELECT 1 FROM push_configs WHERE {_OF_TASK})",
        "Task {}: it says that it has webhooks and has none, or the other way round",
    ),
    (
        f"SELECT id FROM tasks AS t WHERE has_webhooks AND {_WEBHOOK_BEHIND} "
        f"AND NOT EXISTS (SELECT 1 FROM outbox WHERE {_OF_TASK} AND owner = t.owner)",
        "Task {}: a webhook is behind, and the task is not in the outbox",
    ),
    (
        f"SELECT task FROM outbox AS r WHERE NOT EXISTS ({_TASK_OF} AND {_WEBHOOK_BEHIND})",
        "Task {}: it is in the outbox, and none of its webhooks is behind",
    ),
    (
        f"SELECT task FROM inbox AS r WHERE NOT EXISTS ({_TASK_OF})",
        "Task {}: something waits for its worker, and its owner has no such task",
    ),
    (
        "SELECT id, state, holder FROM tasks WHERE holder <> '' AND state NOT IN ('submitted', 'working')",
        "Task {}: it is {}, and yet worker {} holds it",
    ),
)
"""What no row may be, and the sentence that names one which is."""

_VALUES: tuple[tuple[str, Callable[[str], Any], str], ...] = (
    (
        "SELECT reply, message_id FROM sends WHERE reply IS NOT NULL",
        decode_message,
        "Message {}: its reply cannot be read",
    ),
    ("SELECT config, id, task FROM push_configs", decode_push_config, "Webhook {!r} of task {}: it cannot be read"),
    ("SELECT version, id, task FROM push_configs", Version, "Webhook {!r} of task {}: its version is unknown"),
    ("SELECT item, task FROM inbox", decode_inbox_item, "Task {}: what waits for its worker cannot be read"),
    (
        "SELECT value, context, name FROM context_values",
        decode_value,
        "Conversation {}: its value {!r} cannot be read",
    ),
)
"""Values, how they are decoded, and the sentence that names one which cannot be."""


def _check_tasks(connection: sqlite3.Connection, report: Callable[[str], None]) -> Generator[str]:
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
        if count % REPORT_EVERY == 0:
            report(f"Checking tasks: {count:,} of {total:,} …")
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
    """Rows of events, by task, in the order of their numbers, to be read in that order."""

    def __init__(self, rows: Iterator[tuple[int, int, str]]) -> None:
        self._rows = rows
        self._next = next(rows, None)

    def of(self, number: int) -> Generator[tuple[int, str]]:
        """A task's rows: number of the last event, and the events."""
        while self._next is not None and self._next[0] == number:
            yield self._next[1:]
            self._next = next(self._rows, None)

    def before(self, number: int | None) -> Generator[int]:
        """The tasks, before one or all that are left, which have rows that were not read."""
        while self._next is not None and (number is None or self._next[0] < number):
            orphan = self._next[0]
            yield orphan
            for _ in self.of(orphan):
                pass


def _decodes(decode: Callable[[str], Any], text: str) -> bool:
    try:
        decode(text)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True
