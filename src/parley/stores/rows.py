"""How values become rows of a database, and rows become what they were: what SQLite and PostgreSQL have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from msgspec import structs

from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState
from parley.protocol.versions import Version
from parley.sealed.errors import SecretError
from parley.sealed.sealer import Sealer
from parley.stores.encoding import (
    decode_dead_letters,
    decode_failure,
    decode_inbox_item,
    decode_message,
    decode_object,
    decode_push_config,
    decode_time,
    encode,
    encode_time,
    require_encodable,
)
from parley.stores.interface import (
    DeadLetter,
    InboxItem,
    Owner,
    Record,
    RecordKey,
    SendKey,
    SendRecord,
    TaskHead,
    TaskKey,
    Webhook,
)
from parley.stores.interface.tasks import Workload
from parley.stores.secret_fields import open_item, open_record, open_webhook, seal_webhook, without_secrets
from parley.stores.unreadable_rows import UnreadableRows

Value: TypeAlias = str | int | bytes | None
"""What a column holds."""

Row: TypeAlias = Sequence[Any]

HEAD = (
    "tenant, owner, id, agent, context, state, status_at, created_at, last_seq, created_in, attempts, holder, wake_at, "
    "size"
)
"""The columns of a head, in the table `tasks`."""


def decode_head(row: Row) -> TaskHead:
    """A head, from the columns `HEAD`."""
    tenant, owner, task_id, agent, context, state, status_at, created_at, last_seq, created_in, *rest = row
    attempts, holder, wake_at, size = rest
    return TaskHead(
        TaskKey(Owner(tenant, owner), task_id),
        agent,
        context,
        TaskState(state),
        decode_time(status_at),
        decode_time(created_at),
        last_seq,
        Version(created_in),
        attempts,
        holder,
        decode_time(wake_at) if wake_at is not None else None,
        size,
    )


def decode_workload(holders: Iterable[Row], sleeping: int, live: frozenset[str]) -> Workload:
    """The workload, from how many tasks each worker holds, with the earliest status of those, and how many sleep."""
    held, waiting, waiting_since = 0, 0, None
    for holder, count, since in holders:
        if holder in live:
            held += count
        else:
            waiting += count
            waiting_since = since if waiting_since is None else min(since, waiting_since)
    return Workload(held, waiting, decode_time(waiting_since) if waiting_since is not None else None, sleeping)


def encode_send(owner: Owner, send: SendKey, record: SendRecord) -> tuple[Value, ...]:
    """What became of a message, as a row of `sends`; its first four columns are the key.

    Raises:
        StoreError: it holds something that cannot be kept.
    """
    require_encodable(owner.tenant, owner.name, send.message_id, record.task_id or "", record.holder)
    reply = encode(record.reply) if record.reply is not None else None
    return (
        *(owner.tenant, owner.name, send.message_id, send.digest),
        *(encode_time(record.sent_at), record.task_id, reply, record.holder),
    )


def decode_send(sent_at: int, task_id: str | None, reply: str | None, holder: str) -> SendRecord:
    """What became of a message, from the columns after the key."""
    return SendRecord(decode_time(sent_at), task_id, decode_message(reply) if reply is not None else None, holder)


def encode_webhook(sealer: Sealer, key: TaskKey, config: PushConfig, version: Version, after: int) -> tuple[Value, ...]:
    """A webhook that gets the events after a number, as a row of `push_configs`, with its secrets encrypted.

    Raises:
        StoreError: it holds something that cannot be kept.
    """
    owner, config_id = key.owner, config.id or ""
    require_encodable(owner.tenant, owner.name, key.task_id, config_id)
    sealed = encode(seal_webhook(sealer, key, config))
    return (owner.tenant, key.task_id, config_id, owner.name, sealed, version.value, after)


def decode_record(
    sealer: Sealer, collection: str, tenant: str, record_id: str, sort: int, revision: int, value: str
) -> Record:
    """A record, from its columns, with its secrets. Raises SecretError."""
    key = RecordKey(collection, tenant, record_id)
    return Record(key, open_record(sealer, key, decode_object(value)), sort, revision)


def decode_records(sealer: Sealer, unreadable: UnreadableRows, rows: Iterable[Row]) -> list[Record]:
    """The records of a list. One whose secrets cannot be read has empty ones, and says why."""
    return [_decode_listed(sealer, unreadable, *row) for row in rows]


def _decode_listed(
    sealer: Sealer,
    unreadable: UnreadableRows,
    collection: str,
    tenant: str,
    record_id: str,
    sort: int,
    revision: int,
    value: str,
) -> Record:
    try:
        return decode_record(sealer, collection, tenant, record_id, sort, revision, value)
    except SecretError as error:
        unreadable.report(error, collection, tenant, record_id)
        key = RecordKey(collection, tenant, record_id)
        return Record(key, without_secrets(key, decode_object(value)), sort, revision, problem=str(error))


def decode_items(sealer: Sealer, unreadable: UnreadableRows, texts: Iterable[str]) -> list[InboxItem]:
    """What waits for holders of tasks, without items whose secrets cannot be read.

    Those stay in the inbox: another process may have the key, and this one may get it.
    """
    items: list[InboxItem] = []
    for item in map(decode_inbox_item, texts):
        try:
            items.append(open_item(sealer, item))
        except SecretError as error:
            unreadable.report(error, item.key.owner.tenant, item.key.task_id, item.id)
    return items


WEBHOOK = "p.config, p.version, p.delivered_seq, t.last_seq, p.failure, p.dead_letters"
"""The columns of a webhook after the agent, of `push_configs AS p` and `tasks AS t`."""


def decode_webhook(sealer: Sealer, key: TaskKey, row: Row) -> Webhook:
    """A webhook of a task with its secrets, from the agent and the columns `WEBHOOK`.

    If they cannot be read, it has none, and says why: one such row must not keep a reader from the others.
    """
    agent, text, version, delivered_seq, last_seq, failure, letters = row
    config, problem = decode_push_config(text), ""
    try:
        config = open_webhook(sealer, key, config)
    except SecretError as error:
        config, problem = structs.replace(config, token=None, authentication=None), str(error)
    webhook = Webhook(key, agent, config, Version(version), delivered_seq, last_seq, problem=problem)
    if failure is None and letters is None:
        return webhook
    known = decode_failure(failure) if failure is not None else None
    return structs.replace(webhook, failure=known, dead_letters=read_dead_letters(letters))


def read_dead_letters(text: str | None) -> tuple[DeadLetter, ...]:
    """The column `dead_letters`."""
    return () if text is None else decode_dead_letters(text)


def write_dead_letters(letters: tuple[DeadLetter, ...]) -> str | None:
    """The same as it is kept: NULL if there are none."""
    return encode(letters) if letters else None
