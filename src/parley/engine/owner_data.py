"""One caller's data: exported whole as lines of JSON, or deleted with everything that belongs to it.

A selection is everything of an owner, one conversation, or one task; of all agents or of one. What belongs to a task
goes with it: events, snapshot, webhooks with what is still to be delivered, inbox, sends, credentials that wait for it
and authorizations that are under way. Values of a conversation go with its last task. Sends that got a direct reply
belong to a conversation, and are of no agent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Struct, structs

from parley.engine.caller import Caller
from parley.engine.credentials import delete_credentials
from parley.engine.endings import cancel
from parley.engine.sealed_answers import readable_event
from parley.engine.store_errors import translated
from parley.protocol.errors import TaskBusyError, TaskNotCancelableError, TaskNotFoundError
from parley.protocol.jsonvalue import JsonValue
from parley.protocol.lifecycle import ends_stream
from parley.protocol.masking import masked
from parley.stores.interface import ContextKey, Owner, Record, SendKey, SendRecord, Store, TaskFilter, TaskHead, TaskKey

if TYPE_CHECKING:
    from parley.engine.engine import Engine

FORMAT = 1
PAGE = 100
EVENT_BYTES = 1_000_000
"""About how many characters of events are read at once."""
NAMED_TASKS = 5
"""Tasks at work that an error names."""


class Selection(Struct, frozen=True):
    """Which data of an owner: what fits all that is given; with nothing given, everything."""

    agent: str | None = None
    context_id: str | None = None
    task_id: str | None = None


EVERYTHING = Selection()


class DeletedData(Struct, frozen=True, kw_only=True, rename="camel"):
    """How much was deleted."""

    tasks: int = 0
    events: int = 0
    webhooks: int = 0
    context_values: int = 0
    sends: int = 0
    """Without those that went with their tasks."""
    records: Mapping[str, int] = {}
    """Of a host, by collection."""
    is_erased: bool = True
    """Whether no file of the store holds bytes of it; False: the next deletion, or a restart, makes sure of it."""


class OwnerRecords(Protocol):
    """What a host keeps of its tenants beside their tasks."""

    def of(self, owner: Owner, selection: Selection, tasks: Sequence[TaskHead]) -> AsyncIterator[Record]:
        """The records that belong to a selection, whose tasks are given."""
        ...

    async def delete(self, owner: Owner, selection: Selection, tasks: Sequence[TaskHead]) -> Mapping[str, int]:
        """Delete them, and reduce the audit; how many there were in each collection."""
        ...


class OwnerDataOperations:
    """Export and deletion for the callers of an engine."""

    def __init__(self, engine: Engine, records: OwnerRecords | None = None) -> None:
        self._engine = engine
        self._records = records

    async def export(self, caller: Caller, selection: Selection) -> AsyncGenerator[bytes]:
        """The caller's data as lines of JSON.

        Raises:
            TaskNotFoundError: the caller has no such task. It is raised before the first line.
        """
        with translated:
            async for line in export_lines(
                self._engine.store, caller.owner, selection, at=self._engine.clock.now(), records=self._records
            ):
                yield line

    async def delete(self, caller: Caller, selection: Selection, *, cancels: bool) -> DeletedData:
        """Delete the caller's data. Tasks at work are canceled first if `cancels`.

        Raises:
            TaskNotFoundError: the caller has no such task.
            TaskBusyError: a task is at work, and `cancels` is not set. Nothing was deleted.
        """
        engine = self._engine

        async def stop(head: TaskHead) -> None:
            with suppress(TaskNotCancelableError, TaskNotFoundError):
                await cancel(engine, head.key, head.agent)

        with translated:
            deleted = await delete_data(
                engine.store,
                caller.owner,
                selection,
                stop=stop if cancels else None,
                records=self._records,
                forget=engine.feeds.forget,
            )
        if engine.observer is not None:
            engine.observer.deleted(caller, selection, deleted)
        return deleted


# --- what belongs to a selection --------------------------------------------------------------------------------------


async def selected_tasks(store: Store, owner: Owner, selection: Selection) -> Sequence[TaskHead]:
    """The heads of the tasks.

    Raises:
        TaskNotFoundError: a task is named that the owner does not have.
    """
    if selection.task_id is not None:
        head = await store.tasks.head(TaskKey(owner, selection.task_id))
        if head is None or selection.agent not in (None, head.agent):
            raise TaskNotFoundError.for_task(selection.task_id)
        return [head] if selection.context_id in (None, head.context_id) else []
    heads: list[TaskHead] = []
    query = TaskFilter(agent=selection.agent, context_id=selection.context_id, limit=PAGE)
    while page := (await store.tasks.list(owner, query)).heads:
        heads += page
        query = structs.replace(query, after=(page[-1].status_at, page[-1].key.task_id))
    return list({head.key.task_id: head for head in heads}.values())  # one may have moved to a later page


async def _contexts(store: Store, owner: Owner, selection: Selection) -> Sequence[ContextKey]:
    """The contexts whose values belong to a selection."""
    if selection.task_id is not None:
        return ()
    return await store.owner_data.contexts(owner, agent=selection.agent, context_id=selection.context_id)


async def _sends(store: Store, owner: Owner, selection: Selection) -> AsyncIterator[tuple[SendKey, SendRecord]]:
    """The sends that belong to a selection, without those of a task."""
    after: SendKey | None = None
    while selection.task_id is None and (page := await store.owner_data.sends(owner, after=after, limit=PAGE)):
        for send, record in page:
            if record.task_id is None and _is_in(record, selection.context_id):
                yield send, record
        after = page[-1][0]


def _is_in(record: SendRecord, context_id: str | None) -> bool:
    return context_id is None or (record.reply is not None and record.reply.context_id == context_id)


# --- export -----------------------------------------------------------------------------------------------------------


async def export_lines(
    store: Store, owner: Owner, selection: Selection, *, at: datetime, records: OwnerRecords | None = None
) -> AsyncGenerator[bytes]:
    """The data of an owner as lines of JSON: a head, then what there is, then an end with counts.

    Raises:
        TaskNotFoundError: a task is named that the owner does not have. It is raised before the first line.
    """
    heads = await selected_tasks(store, owner, selection)
    counts: dict[str, int] = {}

    def line(kind: str, **members: object) -> bytes:
        counts[kind] = counts.get(kind, 0) + 1
        return msgspec.json.encode({"kind": kind, **members}) + b"\n"

    yield line("export", format=FORMAT, tenant=owner.tenant, owner=owner.name, exportedAt=at)
    for head in heads:
        async for kind, members in _task_members(store, head):
            yield line(kind, **members)
    for context in await _contexts(store, owner, selection):
        async for name, value in _context_values(store, context):
            yield line("contextValue", agent=context.agent, contextId=context.context_id, name=name, value=value)
    async for send, record in _all_sends(store, owner, selection, heads):
        yield line(
            "send",
            messageId=send.message_id,
            digest=send.digest.hex(),
            sentAt=record.sent_at,
            taskId=record.task_id,
            reply=record.reply,
        )
    if records is not None:
        async for kept in records.of(owner, selection, heads):
            yield line("record", collection=kept.key.collection, id=kept.key.id, value=kept.value)
    yield line("end", counts={kind: count for kind, count in counts.items() if kind != "export"})


async def _task_members(store: Store, head: TaskHead) -> AsyncIterator[tuple[str, dict[str, object]]]:
    task_id = head.key.task_id
    fixed = {"agent": head.agent, "contextId": head.context_id, "createdAt": head.created_at}
    yield "task", {"id": task_id, **fixed, "state": head.state, "statusAt": head.status_at, "events": head.last_seq}
    after = 0
    while page := await store.tasks.timed_events(head.key, after=after, limit=PAGE, size=EVENT_BYTES):
        for event in page:
            shown = readable_event(event.event)
            yield "event", {"taskId": task_id, "seq": event.seq, "writtenAt": event.written_at, "event": shown}
        after = page[-1].seq
    for webhook in await store.outbox.webhooks(head.key):
        delivered = {"version": webhook.version, "deliveredSeq": webhook.delivered_seq}
        yield "webhook", {"taskId": task_id, "config": masked(webhook.config), **delivered}


async def _context_values(store: Store, context: ContextKey) -> AsyncIterator[tuple[str, JsonValue]]:
    for name, value in (await store.contexts.get(context)).items():
        yield name, value
    for name in await store.contexts.conversations(context):
        yield name, await store.contexts.value(context, name)


async def _all_sends(
    store: Store, owner: Owner, selection: Selection, heads: Sequence[TaskHead]
) -> AsyncIterator[tuple[SendKey, SendRecord]]:
    """The sends of a selection, also those of its tasks."""
    tasks = {head.key.task_id for head in heads}
    after: SendKey | None = None
    while page := await store.owner_data.sends(owner, after=after, limit=PAGE):
        for send, record in page:
            is_direct = record.task_id is None and selection.task_id is None and _is_in(record, selection.context_id)
            if is_direct or record.task_id in tasks:
                yield send, record
        after = page[-1][0]


# --- deletion ---------------------------------------------------------------------------------------------------------


async def delete_data(
    store: Store,
    owner: Owner,
    selection: Selection,
    *,
    stop: Callable[[TaskHead], Awaitable[None]] | None = None,
    records: OwnerRecords | None = None,
    forget: Callable[[TaskKey], None] = lambda key: None,
) -> DeletedData:
    """Delete the data of an owner. `stop` ends a task that is at work; without it such a task is refused.
    `forget` is called for each task that was deleted.

    Deleting a task ends its log: a run that is still at work elsewhere fails at its next write, and keeps nothing.

    Raises:
        TaskNotFoundError: a task is named that the owner does not have.
        TaskBusyError: a task is at work, and there is no `stop`. Nothing was deleted.
    """
    heads = await selected_tasks(store, owner, selection)
    at_work = [head for head in heads if not ends_stream(head.state)]
    if stop is not None:
        for head in at_work:
            await stop(head)
    elif at_work:
        raise _busy(at_work)
    deleted_records: Mapping[str, int] = {}
    if records is not None:
        deleted_records = await records.delete(owner, selection, heads)
    tasks = events = webhooks = 0
    for head in heads:
        known = await store.outbox.configs(head.key)
        last = await store.tasks.head(head.key)
        if await store.tasks.delete(head.key):
            forget(head.key)
            tasks, events, webhooks = tasks + 1, events + (last or head).last_seq, webhooks + len(known)
    await delete_credentials(store.records, {head.key for head in heads})
    contexts = [*await _contexts(store, owner, selection), *await _left_contexts(store, heads, selection)]
    values = sum([await store.owner_data.delete_context(context) for context in contexts])
    sends = [send async for send, _ in _sends(store, owner, selection)]
    count = await store.owner_data.delete_sends(owner, sends) if sends else 0
    return DeletedData(
        tasks=tasks,
        events=events,
        webhooks=webhooks,
        context_values=values,
        sends=count,
        records=deleted_records,
        is_erased=await store.owner_data.erase(),
    )


async def _left_contexts(store: Store, heads: Sequence[TaskHead], selection: Selection) -> Sequence[ContextKey]:
    """The contexts of a task that was deleted alone and was the last one in them."""
    if selection.task_id is None or not heads:
        return ()
    (head,) = heads
    rest = await store.tasks.list(head.key.owner, TaskFilter(agent=head.agent, context_id=head.context_id, limit=1))
    return () if rest.heads else [ContextKey(head.key.owner, head.agent, head.context_id)]


def _busy(heads: Sequence[TaskHead]) -> TaskBusyError:
    named = ", ".join(head.key.task_id for head in heads[:NAMED_TASKS])
    more = f" and {len(heads) - NAMED_TASKS} more" if len(heads) > NAMED_TASKS else ""
    return TaskBusyError(
        f"Nothing was deleted: these tasks are at work: {named}{more}. Cancel them first, or delete with cancel",
        details={"taskId": heads[0].key.task_id, "reason": "task_busy"},
    )
