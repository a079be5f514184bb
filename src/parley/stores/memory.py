"""The store in memory: it does what the durable stores do, for tests, demos and agents that need no disk.

It behaves as they do and lives as long as its object: close it, open it again, and everything is still there. Several
stores on one `MemoryDatabase` are as several processes on one database. Nothing here waits, so every call is one step
of the event loop and needs no lock. Values are shared with readers, which cannot change them: structs are frozen, and
what is not frozen (the values of contexts) is kept encoded.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from heapq import nlargest
from itertools import chain, islice
from time import time_ns
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from parley.protocol.events import TaskEvent
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.lifecycle import TERMINAL
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.sealed.sealer import Sealer
from parley.stores.encoding import decode_time, decode_value, encode, encode_time
from parley.stores.interface import (
    CONVERSATION,
    ConflictError,
    ContextKey,
    ContextValues,
    DeadLetter,
    DeliveryFailure,
    Inbox,
    InboxItem,
    Leases,
    NewTask,
    Outbox,
    Owner,
    OwnerData,
    Records,
    RepeatedSendError,
    SendKey,
    SendRecord,
    SendRecords,
    StoredEvent,
    StoredTask,
    StoreError,
    TaskFilter,
    TaskHead,
    TaskHeads,
    TaskKey,
    TaskLog,
    Webhook,
    Workload,
    Write,
)
from parley.stores.interface.delivery_state import add_dead_letter, dead_letters_up_to
from parley.stores.memory_owner_data import MemoryOwnerData
from parley.stores.memory_records import MemoryRecords
from parley.stores.process_leases import ProcessLeases

_RUNNING = (TaskState.SUBMITTED, TaskState.WORKING)

_TaskId: TypeAlias = tuple[str, str]
"""Tenant and task id: unique without the owner, as in every store."""
_SendId: TypeAlias = tuple[Owner, SendKey]


class _Record(Struct):
    """One task: its events, and what the latest write said of it."""

    key: TaskKey
    new: NewTask
    state: TaskState
    status_at: datetime
    attempts: int = 0
    holder: str = ""
    wake_at: datetime | None = None
    events: list[TaskEvent] = []
    written_at: list[int | None] = []
    """When each of them was written, in nanoseconds since 1970."""
    snapshot: Task | None = None
    snapshot_seq: int = 0
    webhooks: dict[str, Webhook] = {}
    """Those of it, as they were at their last change: the task may have more events by now."""
    outbox_holder: str = ""
    sends: list[_SendId] = []
    """The messages that came to it, also some that are deleted by now."""

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
            self.holder,
            self.wake_at,
        )


class MemoryDatabase:
    """What a store in memory holds."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        """`now` is a clock of seconds, for leases."""
        self.tasks: dict[_TaskId, _Record] = {}
        self.owned: dict[Owner, dict[str, _Record]] = {}
        self.running: dict[_TaskId, _Record] = {}
        """Tasks that are submitted or working, without those that sleep."""
        self.sleeping: list[tuple[datetime, _TaskId]] = []
        """Tasks that sleep, in the order in which they are to wake."""
        self.sends: dict[_SendId, SendRecord] = {}
        self.outbox: dict[_TaskId, _Record] = {}
        """Tasks of which a webhook is behind."""
        self.contexts: dict[ContextKey, dict[str, tuple[str, datetime]]] = {}
        self.inbox: dict[tuple[_TaskId, str], InboxItem] = {}
        self.records = MemoryRecords()
        self.leases = ProcessLeases(now)
        self.sealer = Sealer.for_this_process()

    def find(self, key: TaskKey) -> _Record | None:
        """A task, if this owner has it."""
        record = self.tasks.get(_task_id(key))
        return record if record is not None and record.key.owner == key.owner else None

    def set_wake(self, record: _Record, wake_at: datetime | None) -> None:
        """Let a task sleep until a moment, or end its sleep."""
        task_id = _task_id(record.key)
        if record.wake_at is not None:
            del self.sleeping[bisect_left(self.sleeping, (record.wake_at, task_id))]
        if wake_at is not None:
            insort(self.sleeping, (wake_at, task_id))
        record.wake_at = wake_at

    def count_due(self, moment: datetime) -> int:
        """How many sleeping tasks are to wake at or before a moment."""
        return bisect_right(self.sleeping, moment, key=lambda wake: wake[0])

    def require_new(self, owner: Owner, send: SendKey, since: datetime, *, holder: str = "") -> None:
        """Refuse a message that was sent since a moment, unless a worker is working on its reply."""
        found = self.sends.get((owner, send))
        if found is not None and found.sent_at >= since and not found.is_in_work(holder):
            raise RepeatedSendError(found)

    def sort_into_outbox(self, record: _Record, holder: str) -> None:
        """Put a task into the outbox of a worker if a webhook is behind, unless it is there; or take it out."""
        task_id = _task_id(record.key)
        if all(webhook.delivered_seq >= len(record.events) for webhook in record.webhooks.values()):
            self.outbox.pop(task_id, None)
        elif task_id not in self.outbox:
            self.outbox[task_id] = record
            record.outbox_holder = holder


class MemoryStore:
    """A store that is gone with its process; with a database, one of several stores that share it."""

    def __init__(self, database: MemoryDatabase | None = None) -> None:
        self.is_shared = database is not None
        self.database = database or MemoryDatabase()
        self.tasks: TaskLog = MemoryTasks(self.database)
        self.sends: SendRecords = MemorySends(self.database)
        self.outbox: Outbox = MemoryOutbox(self.database)
        self.contexts: ContextValues = MemoryContexts(self.database)
        self.inbox: Inbox = MemoryInbox(self.database)
        self.records: Records = self.database.records
        self.leases: Leases = self.database.leases
        self.owner_data: OwnerData = MemoryOwnerData(self.database)
        self.sealer = self.database.sealer

    async def open(self) -> None:
        """End the leases of all workers before, unless other stores share the database."""
        if not self.is_shared:
            self.database.leases.end_all()

    async def close(self) -> None:
        """Nothing to do: the same object may be opened again."""

    def problem(self) -> str | None:
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
        except StoreError as error:
            done.set_exception(error)
        else:
            done.set_result(None)
        return done

    def _write(self, write: Write) -> None:
        key, data = write.key, self._data
        task_id = _task_id(key)
        record = data.tasks.get(task_id)
        if record is None:
            write.check_fence(None)
        else:
            write.check_fence(record.key.owner.name, len(record.events), record.holder)
        if write.sends_since is not None:
            for send, sent in write.sends:
                data.require_new(key.owner, send, write.sends_since, holder=sent.holder)
        if record is None:
            assert write.new is not None  # as expected
            record = data.tasks[task_id] = _Record(key, write.new, write.state, write.status_at)
            data.owned.setdefault(key.owner, {})[key.task_id] = record
        record.events.extend(write.events)
        record.written_at += _moments(write) if write.written_at else [time_ns()] * len(write.events)
        if record.wake_at != write.wake_at:
            data.set_wake(record, write.wake_at)
        if write.state in _RUNNING and write.wake_at is None:
            data.running.setdefault(task_id, record)
        else:
            data.running.pop(task_id, None)
        record.state = write.state
        record.status_at = write.status_at
        record.attempts = write.attempts
        record.holder = write.holder
        if write.snapshot is not None:
            record.snapshot = write.snapshot
            record.snapshot_seq = len(record.events)
        for send, sent in write.sends:
            send_id = (key.owner, send)
            data.sends[send_id] = sent
            record.sends.append(send_id)
        for config, version in write.webhooks:
            _put_webhook(record, config, version, write.expected_seq)
        if record.webhooks:
            data.sort_into_outbox(record, write.holder or write.expected_holder)
        for item in write.taken:
            data.inbox.pop((task_id, item), None)

    async def head(self, key: TaskKey) -> TaskHead | None:
        """A task's head, or None if this owner has no such task."""
        record = self._data.find(key)
        return record.head() if record else None

    async def find(self, task_id: str, *, tenant: str | None = None, name: str | None = None) -> Sequence[TaskHead]:
        """The tasks with an id, by tenant: of all tenants or of one, and of owners of any name or of one."""
        tenants = sorted({owner.tenant for owner in self._data.owned}) if tenant is None else [tenant]
        found = [record for each in tenants if (record := self._data.tasks.get((each, task_id))) is not None]
        return [record.head() for record in found if name in (None, record.key.owner.name)]

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

    async def timed_events(
        self, key: TaskKey, *, after: int, limit: int, size: int | None = None
    ) -> Sequence[StoredEvent]:
        """What `events` gives, each with the moment at which it was written."""
        record = self._data.find(key)
        after = max(after, 0)
        if record is None:
            return ()
        events, moments = record.events[after : after + limit], record.written_at[after : after + limit]
        return [
            StoredEvent(seq, event, decode_time(moment // 1_000) if moment is not None else None)
            for seq, (event, moment) in enumerate(zip(events, moments, strict=True), after + 1)
        ]

    async def list(self, owner: Owner, query: TaskFilter) -> TaskHeads:
        """An owner's tasks."""
        found = [record for record in self._data.owned.get(owner, {}).values() if _matches(record, query)]
        return TaskHeads(tuple([record.head() for record in islice(_page(found, query), query.limit)]), len(found))

    async def list_all(
        self, query: TaskFilter, *, tenant: str | None = None, name: str | None = None
    ) -> Sequence[TaskHead]:
        """Tasks of all tenants or of one, and of owners of any name or of one: newest status first, then by id."""
        page = _page(self._of_owners(query, tenant, name), query)
        heads = [record.head() for record in islice(page, query.limit)]
        last = (heads[-1].status_at, heads[-1].key.task_id) if heads else None
        heads += [record.head() for record in page if (record.status_at, record.key.task_id) == last]
        return heads

    async def count_all(
        self, query: TaskFilter, *, tenant: str | None = None, name: str | None = None, most: int
    ) -> int:
        """How many tasks `list_all` shows on all pages."""
        return len(self._of_owners(query, tenant, name))

    def _of_owners(self, query: TaskFilter, tenant: str | None, name: str | None) -> list[_Record]:
        return [
            record
            for owner, records in self._data.owned.items()
            if tenant in (None, owner.tenant) and name in (None, owner.name)
            for record in records.values()
            if _matches(record, query)
        ]

    async def newest(
        self, tenant: str, *, before: tuple[datetime, str] | None = None, limit: int
    ) -> Sequence[TaskHead]:
        """Tasks of all owners in a tenant, by falling creation time and id."""
        found = [
            ((record.new.created_at, record.key.task_id), record)
            for record in self._data.tasks.values()
            if record.key.owner.tenant == tenant
        ]
        earlier = [each for each in found if before is None or each[0] < before]
        return [record.head() for _, record in nlargest(limit, earlier, key=lambda each: each[0])]

    async def orphaned(
        self,
        live: frozenset[str],
        *,
        now: datetime | None = None,
        agents: frozenset[str] | None = None,
        after: tuple[datetime, str] | None = None,
        limit: int,
    ) -> Sequence[TaskHead]:
        """Tasks of all owners that are submitted or working, that no `live` worker holds and that do not sleep."""
        data = self._data
        due = data.sleeping[: data.count_due(now)] if now is not None else ()
        found = [
            ((record.new.created_at, record.key.task_id), record)
            for record in chain(data.running.values(), [data.tasks[task_id] for _, task_id in due])
            if record.holder not in live and (agents is None or record.new.agent in agents)
        ]
        found.sort(key=lambda each: each[0])
        return [record.head() for age, record in found if after is None or age > after][:limit]

    async def next_wake(self, *, after: datetime) -> datetime | None:
        """The earliest moment after another one at which a sleeping task is to wake; None if there is none."""
        sleeping, due = self._data.sleeping, self._data.count_due(after)
        return sleeping[due][0] if due < len(sleeping) else None

    async def workload(self, live: frozenset[str]) -> Workload:
        """How many tasks of all owners are submitted or working; `live` are the workers that are alive."""
        running = self._data.running.values()
        waiting = [record.status_at for record in running if record.holder not in live]
        return Workload(
            held=len(running) - len(waiting),
            waiting=len(waiting),
            waiting_since=min(waiting, default=None),
            sleeping=len(self._data.sleeping),
        )

    async def delete(self, key: TaskKey) -> bool:
        """Delete a task with its events, sends, webhooks and inbox. Return True if there was such a task."""
        record = self._data.find(key)
        if record is None:
            return False
        self._delete(record)
        return True

    async def delete_finished(
        self, *, before: datetime, limit: int, tenant: str | None = None, agent: str | None = None
    ) -> int:
        """Delete tasks of all owners that ended before a moment, the oldest first; how many, at most `limit`."""
        ended = [
            record
            for record in self._data.tasks.values()
            if record.state in TERMINAL
            and record.status_at < before
            and tenant in (None, record.key.owner.tenant)
            and agent in (None, record.new.agent)
        ]
        ended.sort(key=lambda record: record.status_at)
        for record in ended[:limit]:
            self._delete(record)
        return len(ended[:limit])

    def _delete(self, record: _Record) -> None:
        owner, data = record.key.owner, self._data
        task_id = _task_id(record.key)
        del data.tasks[task_id]
        del data.owned[owner][record.key.task_id]
        if not data.owned[owner]:
            del data.owned[owner]
        data.running.pop(task_id, None)
        data.set_wake(record, None)
        data.outbox.pop(task_id, None)
        for item in [item for item in data.inbox if item[0] == task_id]:
            del data.inbox[item]
        for send_id in record.sends:
            sent = data.sends.get(send_id)
            if sent is not None and sent.task_id == record.key.task_id:
                del data.sends[send_id]


class MemorySends:
    """What became of messages."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    async def find(self, owner: Owner, send: SendKey, *, since: datetime) -> SendRecord | None:
        """What became of a message that was sent at or after a moment."""
        record = self._data.sends.get((owner, send))
        return record if record is not None and record.sent_at >= since else None

    async def digests(self, owner: Owner, message_id: str, *, since: datetime) -> frozenset[bytes]:
        """The contents with which a message id was sent at or after a moment."""
        return frozenset(
            send.digest
            for (sender, send), record in self._data.sends.items()
            if sender == owner and send.message_id == message_id and record.sent_at >= since
        )

    async def put(
        self, owner: Owner, send: SendKey, record: SendRecord, *, since: datetime | None = None, holder: str = ""
    ) -> None:
        """Keep the record of a message that created no task; with `since`, unless it is a repeat."""
        if since is not None:
            self._data.require_new(owner, send, since, holder=holder)
        self._data.sends[owner, send] = record

    async def delete_before(self, moment: datetime) -> None:
        """Delete the records of messages that were sent before a moment."""
        for send_id in [send_id for send_id, record in self._data.sends.items() if record.sent_at < moment]:
            del self._data.sends[send_id]


class MemoryOutbox:
    """Webhooks, and which of them are behind."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    async def put(
        self,
        key: TaskKey,
        config: PushConfig,
        *,
        version: Version = Version.V1_0,
        after: int | None = None,
        holder: str = "",
    ) -> None:
        """Keep a webhook of a task; if it replaces one with its id, it keeps what was delivered to that one."""
        record = self._data.find(key)
        if record is None:
            raise ConflictError
        last = len(record.events)
        _put_webhook(record, config, version, last if after is None else min(after, last))
        self._data.sort_into_outbox(record, holder)

    async def configs(self, key: TaskKey) -> Sequence[PushConfig]:
        """A task's webhooks, by id."""
        return [webhook.config for webhook in await self.webhooks(key)]

    async def delete(self, key: TaskKey, config_id: str) -> None:
        """Delete a webhook, if there is one."""
        if record := self._data.find(key):
            record.webhooks.pop(config_id, None)
            self._data.sort_into_outbox(record, record.outbox_holder)

    async def webhooks(self, key: TaskKey) -> Sequence[Webhook]:
        """A task's webhooks with what was delivered to them, by id."""
        record = self._data.find(key)
        if record is None:
            return ()
        return _webhooks(record)

    async def claim(self, keys: Sequence[TaskKey], *, holder: str, live: frozenset[str]) -> Sequence[TaskKey]:
        """Put tasks that are in the outbox of no live worker into that of `holder`; which ones are in it now."""
        claimed: list[TaskKey] = []
        for key in keys:
            record = self._data.find(key)
            if record is not None and _task_id(key) in self._data.outbox and _may_deliver(record, holder, live):
                record.outbox_holder = holder
                claimed.append(key)
        return claimed

    async def mark_delivered(
        self,
        key: TaskKey,
        config_id: str,
        seq: int,
        *,
        holder: str,
        begun_after: int = 0,
        dead_letter: DeadLetter | None = None,
    ) -> bool:
        """Note that all events up to a number were delivered to a webhook; False if the caller must stop."""
        record = self._mine(key, config_id, holder, begun_after)
        if record is None:
            return False
        webhook = record.webhooks[config_id]
        letters = webhook.dead_letters if dead_letter is None else add_dead_letter(webhook.dead_letters, dead_letter)
        seq = max(webhook.delivered_seq, seq)
        record.webhooks[config_id] = replace(webhook, delivered_seq=seq, failure=None, dead_letters=letters)
        self._data.sort_into_outbox(record, holder)
        return True

    async def note_failure(
        self, key: TaskKey, config_id: str, failure: DeliveryFailure, *, holder: str, begun_after: int = 0
    ) -> bool:
        """Keep the failure of a webhook; False if the caller must stop."""
        record = self._mine(key, config_id, holder, begun_after)
        if record is not None:
            record.webhooks[config_id] = replace(record.webhooks[config_id], failure=failure)
        return record is not None

    def _mine(self, key: TaskKey, config_id: str, holder: str, begun_after: int) -> _Record | None:
        """The task of a webhook that was not rewound below a number, unless it is in the outbox of another worker."""
        record = self._data.find(key)
        if record is None or config_id not in record.webhooks:
            return None
        if _task_id(key) in self._data.outbox and record.outbox_holder not in ("", holder):
            return None
        return record if record.webhooks[config_id].delivered_seq >= begun_after else None

    async def failing(
        self, owner: Owner, *, agent: str | None = None, after: tuple[str, str] | None = None, limit: int
    ) -> Sequence[Webhook]:
        """An owner's webhooks that have a failure or dead letters, by task and id."""
        found = (
            webhook
            for task_id, record in sorted(self._data.owned.get(owner, {}).items())
            if agent in (None, record.new.agent)
            for webhook in _webhooks(record)
            if (webhook.failure or webhook.dead_letters) and (not after or (task_id, webhook.config.id or "") > after)
        )
        return list(islice(found, limit))

    async def rewind(self, key: TaskKey, config_id: str, seq: int, *, holder: str) -> bool:
        """Let a webhook get the events after a number again, if they were delivered. False if it is not there."""
        record = self._data.find(key)
        if record is None or config_id not in record.webhooks:
            return False
        webhook = record.webhooks[config_id]
        letters = dead_letters_up_to(webhook.dead_letters, seq)
        seq = min(webhook.delivered_seq, seq)
        record.webhooks[config_id] = replace(webhook, delivered_seq=seq, failure=None, dead_letters=letters)
        self._data.sort_into_outbox(record, holder)
        return True

    async def backlog(self) -> int:
        """How many tasks of all owners have a webhook that is behind."""
        return len(self._data.outbox)

    async def undelivered(
        self,
        *,
        holder: str,
        live: frozenset[str],
        after: TaskKey | Owner | None,
        limit: int,
        owner: Owner | None = None,
    ) -> Sequence[TaskKey]:
        """Tasks in the outbox of `holder`, or of no live worker, of one owner or of all, by tenant, owner and task."""
        begin = _position(after)
        keys = [
            record.key
            for record in self._data.outbox.values()
            if owner in (None, record.key.owner)
            and _may_deliver(record, holder, live)
            and (not begin or _position(record.key)[: len(begin)] > begin)
        ]
        return sorted(keys, key=_position)[:limit]


class MemoryInbox:
    """What waits for the holders of tasks."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    async def post(self, item: InboxItem) -> None:
        """Leave an item for the holder of a task."""
        record = self._data.find(item.key)
        if record is None or not record.holder:
            raise ConflictError
        self._data.inbox.setdefault(_inbox_id(item), item)

    async def items(self, holder: str) -> Sequence[InboxItem]:
        """The items for tasks that a worker holds now, oldest first."""
        data = self._data
        return [item for (task_id, _), item in data.inbox.items() if data.tasks[task_id].holder == holder]

    async def has(self, item: InboxItem) -> bool:
        """Whether an item still waits."""
        return _inbox_id(item) in self._data.inbox

    async def withdraw(self, item: InboxItem) -> bool:
        """Delete an item; False if it was taken, or withdrawn before."""
        return self._data.inbox.pop(_inbox_id(item), None) is not None


class MemoryContexts:
    """What agents keep for conversations."""

    def __init__(self, database: MemoryDatabase) -> None:
        self._data = database

    async def put(self, context: ContextKey, name: str, value: JsonValue, *, at: datetime) -> None:
        """Keep a value for a context; None deletes it."""
        if value is not None:
            text = encode(value)
            self._data.contexts.setdefault(context, {})[name] = (text, at)
        elif values := self._data.contexts.get(context):
            values.pop(name, None)
            if not values:
                del self._data.contexts[context]

    async def get(self, context: ContextKey) -> dict[str, JsonValue]:
        """All values of a context, except for conversations."""
        return {
            name: decode_value(text)
            for name, (text, _) in self._data.contexts.get(context, {}).items()
            if not name.startswith(CONVERSATION)
        }

    async def conversations(self, context: ContextKey) -> list[str]:
        """The names of a context's conversations."""
        return sorted(name for name in self._data.contexts.get(context, {}) if name.startswith(CONVERSATION))

    async def value(self, context: ContextKey, name: str) -> JsonValue:
        """One value of a context."""
        text, _ = self._data.contexts.get(context, {}).get(name, (None, None))
        return None if text is None else decode_value(text)

    async def delete_unmarked(self, context: ContextKey, name: str, *, marks: str) -> None:
        """Delete a value of a context, unless a mark names it."""
        values, mark = self._data.contexts.get(context, {}), encode(name)
        if not any(other.startswith(marks) and text == mark for other, (text, _) in values.items()):
            values.pop(name, None)

    async def delete_unused(
        self, *, before: datetime, limit: int, tenant: str | None = None, agent: str | None = None
    ) -> int:
        """Delete the values of contexts that have no task left and were last written before a moment."""
        in_use = {ContextKey(r.key.owner, r.new.agent, r.new.context_id) for r in self._data.tasks.values()}
        old = (
            context
            for context, values in self._data.contexts.items()
            if context not in in_use
            and tenant in (None, context.owner.tenant)
            and agent in (None, context.agent)
            and all(at < before for _, at in values.values())
        )
        unused = list(islice(old, limit))
        for context in unused:
            del self._data.contexts[context]
        return len(unused)


def _task_id(key: TaskKey) -> _TaskId:
    return key.owner.tenant, key.task_id


def _inbox_id(item: InboxItem) -> tuple[_TaskId, str]:
    return _task_id(item.key), item.id


def _moments(write: Write) -> list[int | None]:
    """When events that were written elsewhere before were written there, in nanoseconds since 1970."""
    return [encode_time(moment) * 1_000 if moment is not None else None for moment in write.written_at]


def _put_webhook(record: _Record, config: PushConfig, version: Version, after: int) -> None:
    webhook = Webhook(record.key, record.new.agent, config, version, after, len(record.events))
    earlier = record.webhooks.get(config.id or "")
    if earlier is not None:
        webhook = replace(webhook, delivered_seq=earlier.delivered_seq, dead_letters=earlier.dead_letters)
    record.webhooks[config.id or ""] = webhook


def _webhooks(record: _Record) -> list[Webhook]:
    """The webhooks of a task, by id."""
    last = len(record.events)
    return [replace(webhook, last_seq=last) for _, webhook in sorted(record.webhooks.items())]


def _may_deliver(record: _Record, holder: str, live: frozenset[str]) -> bool:
    """Whether a worker may call the webhooks of a task."""
    return record.outbox_holder == holder or record.outbox_holder not in live


def _position(of: TaskKey | Owner | None) -> tuple[str, ...]:
    match of:
        case None:
            return ()
        case Owner():
            return of.tenant, of.name
        case TaskKey():
            return of.owner.tenant, of.owner.name, of.task_id


def _page(records: list[_Record], query: TaskFilter) -> Iterator[_Record]:
    """Records after those of the page before, newest status first, then by id."""
    records.sort(key=lambda record: record.key.task_id)
    records.sort(key=lambda record: record.status_at, reverse=True)
    for record in records:
        if query.after is not None:
            at, task_id = query.after
            if record.status_at > at or (record.status_at == at and record.key.task_id <= task_id):
                continue
        yield record


def _matches(record: _Record, query: TaskFilter) -> bool:
    return (
        (query.agent is None or record.new.agent == query.agent)
        and (query.context_id is None or record.new.context_id == query.context_id)
        and (query.state is None or record.state == query.state)
        and (query.status_at_or_after is None or record.status_at >= query.status_at_or_after)
    )
