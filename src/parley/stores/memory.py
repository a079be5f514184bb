"""The store in memory: the twin of the durable stores, for tests, demos and agents that may forget.

It behaves as they do and lives as long as its object: close it, open it again, and everything is still there. Nothing
here waits, so every call is one step of the event loop and needs no lock. Values are shared with readers, who cannot
change them: structs are frozen, and what is not frozen (the values of contexts) is kept encoded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeAlias

from parley.protocol.events import TaskEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.lifecycle import TERMINAL
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.encoding import decode_value, encode
from parley.stores.interface import (
    ConflictError,
    ContextKey,
    NewTask,
    Owner,
    SendKey,
    SendRecord,
    StoredTask,
    TaskFilter,
    TaskHead,
    TaskHeads,
    TaskKey,
    Webhook,
    Write,
)

_TaskId: TypeAlias = tuple[str, str]
"""Tenant and task id: unique without the owner, as in every store."""
_SendId: TypeAlias = tuple[Owner, SendKey]


class _Record:
    """One task: its events, and what the latest write said of it."""

    __slots__ = (
        "attempts",
        "events",
        "key",
        "new",
        "push_configs",
        "sends",
        "snapshot",
        "snapshot_seq",
        "state",
        "status_at",
    )

    def __init__(self, key: TaskKey, new: NewTask) -> None:
        self.key = key
        self.new = new
        self.state = TaskState.SUBMITTED
        self.status_at = new.created_at
        self.attempts = 0
        self.events: list[TaskEvent] = []
        self.snapshot: Task | None = None
        self.snapshot_seq = 0
        self.push_configs: dict[str, tuple[PushConfig, Version, int]] = {}
        self.sends: list[_SendId] = []
        """The messages that came to it, also some that are forgotten by now."""

    def head(self) -> TaskHead:
        return TaskHead(
            self.key,
            self.new.agent,
            self.new.context_id,
            self.state,
            self.status_at,
            self.new.created_at,
            len(self.events),
            self.new.created_in,
            self.attempts,
        )


class MemoryDatabase:
    """What a store in memory holds."""

    def __init__(self) -> None:
        self.tasks: dict[_TaskId, _Record] = {}
        self.owned: dict[Owner, dict[str, _Record]] = {}
        self.sends: dict[_SendId, SendRecord] = {}
        self.contexts: dict[ContextKey, dict[str, tuple[str, datetime]]] = {}

    def find(self, key: TaskKey) -> _Record | None:
        """A task, if this owner has it."""
        record = self.tasks.get((key.owner.tenant, key.task_id))
        return record if record is not None and record.key.owner == key.owner else None


class MemoryStore:
    """A store that forgets everything with the process."""

    is_shared = False

    def __init__(self) -> None:
        self.database = MemoryDatabase()
        self.tasks = MemoryTasks(self.database)
        self.sends = MemorySends(self.database)
        self.outbox = MemoryOutbox(self.database)
        self.contexts = MemoryContexts(self.database)

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Nothing to do: the same object may be opened again."""

    def trouble(self) -> str | None:
        """None: memory can always be written."""
        return None


class MemoryTasks:
    """Tasks and their events."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    def write(self, write: Write) -> asyncio.Future[None]:
        """Append events to a task, or create it, at once. The future is done when this returns."""
        done = asyncio.get_running_loop().create_future()
        try:
            self._write(write)
        except ConflictError as conflict:
            done.set_exception(conflict)
        else:
            done.set_result(None)
        return done

    def _write(self, write: Write) -> None:
        key = write.key
        if write.new is not None:
            record = self._create(key, write.new, write.expected_seq)
        else:
            record = self._data.find(key)
            if record is None or len(record.events) != write.expected_seq:
                raise ConflictError
        record.events.extend(write.events)
        record.state = write.state
        record.status_at = write.status_at
        record.attempts = write.attempts
        if write.snapshot is not None:
            record.snapshot = write.snapshot
            record.snapshot_seq = len(record.events)
        for send, sent in write.sends:
            send_id = (key.owner, send)
            self._data.sends[send_id] = sent
            record.sends.append(send_id)
        for config, version in write.webhooks:
            _put_webhook(record, config, version, write.expected_seq)

    def _create(self, key: TaskKey, new: NewTask, expected_seq: int) -> _Record:
        task_id = (key.owner.tenant, key.task_id)
        if expected_seq != 0 or task_id in self._data.tasks:
            raise ConflictError
        record = self._data.tasks[task_id] = _Record(key, new)
        self._data.owned.setdefault(key.owner, {})[key.task_id] = record
        return record

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        record = self._data.find(key)
        return record.head() if record else None

    async def read(self, key: TaskKey) -> StoredTask | None:
        """A task as of one moment, or None if this owner has no such task."""
        record = self._data.find(key)
        if record is None:
            return None
        seq = record.snapshot_seq
        return StoredTask(record.head(), record.snapshot, seq, tuple(record.events[seq:]))

    async def read_many(
        self, keys: Sequence[TaskKey], *, artifacts: bool = True, size: int | None = None
    ) -> Sequence[StoredTask | None]:
        """Tasks, each as of one moment. They are in memory, with all that belongs to them."""
        return [await self.read(key) for key in keys]

    async def events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[tuple[int, TaskEvent]]:
        """A task's events after a number, oldest first, at most `limit`. They are in memory, whatever their size."""
        record = self._data.find(key)
        after = max(after, 0)
        return tuple(enumerate(record.events[after : after + limit], after + 1)) if record else ()

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        found = [record for record in self._data.owned.get(owner, {}).values() if _matches(record, query)]
        found.sort(key=lambda record: record.key.task_id)
        found.sort(key=lambda record: record.status_at, reverse=True)
        page: Iterable[_Record] = found
        if query.after is not None:
            at, task_id = query.after
            page = (r for r in found if r.status_at < at or (r.status_at == at and r.key.task_id > task_id))
        heads = tuple(record.head() for record, _ in zip(page, range(query.limit), strict=False))
        return TaskHeads(heads, len(found))

    async def delete(self, key: TaskKey) -> bool:
        """Forget a task with its events, sends and webhooks; whether there was one."""
        record = self._data.find(key)
        if record is None:
            return False
        self._delete(record)
        return True

    async def delete_finished(self, *, before: datetime, limit: int) -> int:
        """Forget tasks of all owners that ended before a moment, the oldest first; how many, at most `limit`."""
        ended = [r for r in self._data.tasks.values() if r.state in TERMINAL and r.status_at < before]
        ended.sort(key=lambda record: record.status_at)
        for record in ended[:limit]:
            self._delete(record)
        return len(ended[:limit])

    def _delete(self, record: _Record) -> None:
        owner = record.key.owner
        del self._data.tasks[owner.tenant, record.key.task_id]
        del self._data.owned[owner][record.key.task_id]
        if not self._data.owned[owner]:
            del self._data.owned[owner]
        for send_id in record.sends:
            sent = self._data.sends.get(send_id)
            if sent is not None and sent.task_id == record.key.task_id:
                del self._data.sends[send_id]

    async def unfinished(self) -> Sequence[TaskHead]:
        """Tasks of all owners that are submitted or working."""
        active = (TaskState.SUBMITTED, TaskState.WORKING)
        return tuple(record.head() for record in self._data.tasks.values() if record.state in active)


class MemorySends:
    """What became of messages."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    async def find(self, owner: Owner, send: SendKey, *, since: datetime) -> SendRecord | None:
        """What became of a message that was sent at or after a moment."""
        record = self._data.sends.get((owner, send))
        return record if record is not None and record.sent_at >= since else None

    async def put(self, owner: Owner, send: SendKey, record: SendRecord) -> None:
        """Remember a message that created no task."""
        self._data.sends[owner, send] = record

    async def delete_before(self, moment: datetime) -> None:
        """Forget messages that nobody may repeat any more."""
        for send_id in [send_id for send_id, record in self._data.sends.items() if record.sent_at < moment]:
            del self._data.sends[send_id]


class MemoryOutbox:
    """Webhooks, and which of them are behind."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    async def put(
        self, key: TaskKey, config: PushConfig, *, version: Version = Version.V1_0, after: int | None = None
    ) -> None:
        """Keep a webhook of a task, in place of an earlier one with its id, and in its place."""
        record = self._data.find(key)
        if record is None:
            raise ConflictError
        last = len(record.events)
        _put_webhook(record, config, version, last if after is None else min(after, last))

    async def configs(self, key: TaskKey) -> Sequence[PushConfig]:
        """A task's webhooks, by id."""
        record = self._data.find(key)
        return tuple(kept[0] for _, kept in sorted(record.push_configs.items())) if record else ()

    async def delete(self, key: TaskKey, config_id: str) -> None:
        """Forget a webhook, if there is one."""
        if record := self._data.find(key):
            record.push_configs.pop(config_id, None)

    async def webhooks(self, key: TaskKey) -> Sequence[Webhook]:
        """A task's webhooks with their places, by id."""
        record = self._data.find(key)
        return _webhooks(record) if record else ()

    async def mark_delivered(self, key: TaskKey, config_id: str, seq: int) -> bool:
        """Note that a webhook has been told of everything up to a number; whether it is still there."""
        record = self._data.find(key)
        if record is None or config_id not in record.push_configs:
            return False
        config, version, place = record.push_configs[config_id]
        record.push_configs[config_id] = (config, version, max(place, seq))
        return True

    async def undelivered(
        self, *, after: Webhook | Owner | None, limit: int, owner: Owner | None = None
    ) -> Sequence[Webhook]:
        """Webhooks of one owner or of all that are behind their tasks, by tenant, owner, task and id."""
        records = [
            record
            for record in self._data.tasks.values()
            if record.push_configs and owner in (None, record.key.owner) and _may_follow(record.key, after)
        ]
        records.sort(key=lambda record: _position(record.key.owner, record.key.task_id))
        last = (after.key, after.config.id or "") if isinstance(after, Webhook) else None
        behind = (
            webhook
            for record in records
            for webhook in _webhooks(record)
            if webhook.delivered_seq < webhook.last_seq
            and (last is None or webhook.key != last[0] or (webhook.config.id or "") > last[1])
        )
        return tuple(islice(behind, limit))


class MemoryContexts:
    """What agents keep for conversations."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    async def put(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value for a context; None forgets it."""
        if value is not None:
            text = encode(value)
            self._data.contexts.setdefault(context, {})[name] = (text, at)
        elif values := self._data.contexts.get(context):
            values.pop(name, None)
            if not values:
                del self._data.contexts[context]

    async def get(self, context: ContextKey) -> dict[str, JsonValue]:
        """All values kept for a context."""
        return {name: decode_value(text) for name, (text, _) in self._data.contexts.get(context, {}).items()}

    async def delete_unused(self, *, before: datetime, limit: int) -> int:
        """Forget the values of contexts that have no task left and were last written before a moment."""
        in_use = {ContextKey(r.key.owner, r.new.agent, r.new.context_id) for r in self._data.tasks.values()}
        old = (
            context
            for context, values in self._data.contexts.items()
            if context not in in_use and all(at < before for _, at in values.values())
        )
        forgotten = list(islice(old, limit))
        for context in forgotten:
            del self._data.contexts[context]
        return len(forgotten)


def _put_webhook(record: _Record, config: PushConfig, version: Version, after: int) -> None:
    earlier = record.push_configs.get(config.id or "")
    record.push_configs[config.id or ""] = (config, version, earlier[2] if earlier else after)


def _webhooks(record: _Record) -> tuple[Webhook, ...]:
    return tuple(
        Webhook(record.key, record.new.agent, config, version, place, len(record.events))
        for _, (config, version, place) in sorted(record.push_configs.items())
    )


def _position(owner: Owner, *names: str) -> tuple[str, ...]:
    return owner.tenant, owner.name, *names


def _may_follow(key: TaskKey, after: Webhook | Owner | None) -> bool:
    """Whether webhooks of a task may come after another webhook, or after all of an owner."""
    if after is None:
        return True
    if isinstance(after, Owner):
        return _position(key.owner) > _position(after)
    return _position(key.owner, key.task_id) >= _position(after.key.owner, after.key.task_id)


def _matches(record: _Record, query: TaskFilter) -> bool:
    return (
        (query.agent is None or record.new.agent == query.agent)
        and (query.context_id is None or record.new.context_id == query.context_id)
        and (query.state is None or record.state == query.state)
        and (query.status_at_or_after is None or record.status_at >= query.status_at_or_after)
    )
