"""What must hold in a file beyond its pages: the rules of the store, checked in a pass over all rows.

Each function is a generator: it says what is wrong, a sentence each, and holds one task at a time.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.stores.encoding import (
    decode_artifacts,
    decode_dead_letters,
    decode_events,
    decode_failure,
    decode_inbox_item,
    decode_message,
    decode_object,
    decode_push_config,
    decode_task,
    decode_value,
)

REPORT_EVERY = 500
"""Tasks after which the progress is reported."""


def check_rules(connection: sqlite3.Connection, report: Callable[[str], None]) -> Generator[str]:
    """Everything that is wrong with what the tables hold. The connection sees one state of the file meanwhile."""
    yield from _check_events(connection, report)
    report("Checking snapshots, sends, webhooks, conversations and records …")
    for query, sentence in _EXCEPTIONS:
        yield from (sentence.format(*row) for row in connection.execute(query))
    for query, decode, sentence in _VALUES:
        rows = connection.execute(query)
        yield from (sentence.format(*names) for value, *names in rows if not _decodes(decode, value))


_OF_TASK = "tenant = t.tenant AND task = t.id"
_WEBHOOK_BEHIND = f"EXISTS (SELECT 1 FROM push_configs WHERE {_OF_TASK} AND delivered_seq < t.last_seq)"
_TASK_OF = "SELECT 1 FROM tasks AS t WHERE t.tenant = r.tenant AND t.id = r.task AND t.owner = r.owner"

_EXCEPTIONS = (
    (
        "SELECT DISTINCT task FROM events WHERE task NOT IN (SELECT number FROM tasks)",
        "There are events of a task number {}, and no such task",
    ),
    (
        "SELECT id, snapshot_seq, last_seq FROM tasks WHERE snapshot_seq > last_seq",
        "Task {}: its snapshot is of event {}, its last event is {}",
    ),
    (
        f"SELECT id FROM tasks AS t WHERE (snapshot_seq > 0) <> EXISTS (SELECT 1 FROM snapshots WHERE {_OF_TASK})",
        "Task {}: it says that it has a snapshot and has none, or the other way round",
    ),
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
    (
        "SELECT id, state FROM tasks "
        "WHERE wake_at IS NOT NULL AND (holder <> '' OR state NOT IN ('submitted', 'working'))",
        "Task {}: it is {} or held by a worker, and yet it sleeps",
    ),
    (
        "SELECT id, collection, revision FROM records WHERE revision < 1",
        "Record {!r} of {!r}: its revision is {}, and the first one is 1",
    ),
)
"""What no row may be, and the sentence that names one which is."""

_VALUES: tuple[tuple[str, Callable[[str], Any], str], ...] = (
    ("SELECT state, id FROM tasks", TaskState, "Task {}: its state is unknown"),
    ("SELECT created_in, id FROM tasks", Version, "Task {}: its version is unknown"),
    ("SELECT snapshot, task FROM snapshots", decode_task, "Task {}: its snapshot cannot be read"),
    (
        "SELECT artifacts, task FROM snapshots WHERE artifacts IS NOT NULL",
        decode_artifacts,
        "Task {}: the artifacts of its snapshot cannot be read",
    ),
    (
        "SELECT reply, message_id FROM sends WHERE reply IS NOT NULL",
        decode_message,
        "Message {}: its reply cannot be read",
    ),
    ("SELECT config, id, task FROM push_configs", decode_push_config, "Webhook {!r} of task {}: it cannot be read"),
    (
        "SELECT failure, id, task FROM push_configs WHERE failure IS NOT NULL",
        decode_failure,
        "Webhook {!r} of task {}: its failure cannot be read",
    ),
    (
        "SELECT dead_letters, id, task FROM push_configs WHERE dead_letters IS NOT NULL",
        decode_dead_letters,
        "Webhook {!r} of task {}: its dead letters cannot be read",
    ),
    ("SELECT version, id, task FROM push_configs", Version, "Webhook {!r} of task {}: its version is unknown"),
    ("SELECT item, task FROM inbox", decode_inbox_item, "Task {}: what waits for its worker cannot be read"),
    (
        "SELECT value, context, name FROM context_values",
        decode_value,
        "Conversation {}: its value {!r} cannot be read",
    ),
    ("SELECT value, id, collection FROM records", decode_object, "Record {!r} of {!r}: its value cannot be read"),
    ("SELECT report, worker FROM leases", decode_object, "Worker {}: its report cannot be read"),
)
"""Values, how they are decoded, and the sentence that names one which cannot be."""


def _check_events(connection: sqlite3.Connection, report: Callable[[str], None]) -> Generator[str]:
    (total,) = connection.execute("SELECT count(*) FROM tasks").fetchone()
    for count, (number, task_id, last_seq) in enumerate(connection.execute("SELECT number, id, last_seq FROM tasks")):
        if count % REPORT_EVERY == 0:
            report(f"Checking tasks: {count:,} of {total:,} …")
        reached = 0
        rows = connection.execute("SELECT last_seq, events FROM events WHERE task = ? ORDER BY last_seq", (number,))
        for row_seq, text in rows:
            try:
                length = len(decode_events(text))
            except msgspec.MsgspecError:
                yield f"Task {task_id}: the events up to {row_seq} cannot be read"
            else:
                if reached + length != row_seq:
                    what = f"event {reached + 1} is missing, or there twice: {length} events end with {row_seq}"
                    yield f"Task {task_id}: {what}"
            reached = row_seq
        if reached != last_seq:
            yield f"Task {task_id}: its last event is {reached}, and not {last_seq}"


def _decodes(decode: Callable[[str], Any], text: str) -> bool:
    try:
        decode(text)
    except (msgspec.MsgspecError, ValueError):
        return False
    return True
