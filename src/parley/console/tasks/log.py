"""The log of a task: every event with its number, its moment and its size, a page at a time, and as it grows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from datetime import datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta, Raw, Struct, structs

from parley.console.api.errors import ConsoleError
from parley.console.streams.channel import ChannelCall
from parley.console.tasks.access import TaskAccess
from parley.console.tasks.event_summaries import kind_of, summary_of_event
from parley.console.tasks.moments import show_moment
from parley.console.tasks.rows import TaskRow, rows_of
from parley.console.tasks.summaries import Summaries
from parley.engine.reading.large import run_beside_loop
from parley.engine.sealed_answers import readable_event
from parley.protocol.events import ArtifactUpdate, StatusUpdate, TaskCreated
from parley.stores.interface import StoredEvent, TaskHead, TaskKey

MAX_EVENTS = 500
MAX_PAGE = 2_000_000
"""About how many characters a page has."""

MAX_BODY = 16 * 1024
"""Bytes of an event that a page shows; a longer one is read by itself."""

LOOK_SECONDS = 1.0
"""How often a log is looked at that no feed tells of: that of a task which has ended, or another process writes."""

RETRY_SECONDS = 0.05

_encoder = msgspec.json.Encoder()


class LogEvent(Struct, frozen=True):
    """An event of a log, as the page gets it."""

    seq: int
    kind: str
    at: str | None
    size: int
    pause_ms: float | None
    summary: str
    is_streamed: bool
    body: Raw | None


class LogPage(Struct, frozen=True):
    """Some events of a log."""

    events: list[LogEvent]
    last: int
    oldest: int = 1


class LogQuery(Struct, frozen=True):
    """Which events of a log."""

    agent: str = ""
    tenant: str | None = None
    after: Annotated[int, Meta(ge=0, le=2**53)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS)] = MAX_EVENTS


async def read_log(access: TaskAccess, head: TaskHead, after: int, limit: int = MAX_EVENTS) -> list[LogEvent]:
    """The events of a task after a number, as many as fit into a page."""
    # With the event before them, which says how long the first of them came after it.
    before = 1 if after > 0 else 0
    tasks = access.store.tasks
    page = await tasks.timed_events(head.key, after=after - before, limit=limit + before, size=MAX_PAGE)
    if before and len(page) == 1 and after < head.last_seq:  # the event before them fills a page by itself
        moment = page[0].written_at
        page = await tasks.timed_events(head.key, after=after, limit=limit, size=MAX_PAGE)
        return await run_beside_loop(_shown, page, moment)
    moment = page[0].written_at if before and page else None
    return await run_beside_loop(_shown, page[before:], moment)


async def read_event(access: TaskAccess, head: TaskHead, seq: int) -> StoredEvent:
    """One event of a task. Raises ConsoleError if there is none with this number."""
    if 1 <= seq <= head.last_seq:
        page = await access.store.tasks.timed_events(head.key, after=seq - 1, limit=1)
        if page:
            return structs.replace(page[0], event=readable_event(page[0].event))
    raise ConsoleError("not_found", f"The task has {head.last_seq} events; there is none with number {seq}")


async def show_event_in_full(access: TaskAccess, head: TaskHead, stored: StoredEvent) -> LogEvent:
    """An event with its whole body, however long it is."""
    before = await access.store.tasks.timed_events(head.key, after=stored.seq - 2, limit=1) if stored.seq > 1 else ()
    moment = before[0].written_at if before else None
    (shown,) = await run_beside_loop(_shown, [stored], moment, most=None)
    return shown


def _shown(events: Sequence[StoredEvent], before: datetime | None, *, most: int | None = MAX_BODY) -> list[LogEvent]:
    shown: list[LogEvent] = []
    for each in events:
        body = _encoder.encode(readable_event(each.event))
        pause = None
        if before is not None and each.written_at is not None:  # a clock may have been set back
            pause = max(0.0, (each.written_at - before) / timedelta(milliseconds=1))
        before = each.written_at
        shown.append(
            LogEvent(
                seq=each.seq,
                kind=kind_of(each.event),
                at=show_moment(each.written_at),
                size=len(body),
                pause_ms=pause,
                summary=summary_of_event(each.event),
                is_streamed=isinstance(each.event, StatusUpdate | ArtifactUpdate | TaskCreated),
                body=None if most is not None and len(body) > most else Raw(body),
            )
        )
    return shown


# --- the channel ------------------------------------------------------------------------------------------------------


class TaskLogParameters(Struct, frozen=True):
    """Which log, and from where on."""

    task: str
    agent: str = ""
    tenant: str | None = None
    after: Annotated[int, Meta(ge=0, le=2**53)] = 0


class LogChange(Struct, frozen=True):
    """Some more events, and the task as it is now."""

    events: list[LogEvent]
    task: TaskRow


async def open_task_log(call: ChannelCall) -> AsyncGenerator[object]:
    """The events of a task after a number, and those to come, until the channel is closed or the task deleted."""
    wanted = call.read(TaskLogParameters)
    access, summaries = TaskAccess(call.backend, call.caller), call.console.shared(Summaries)
    found = await access.find(wanted.task, agent=wanted.agent, tenant=wanted.tenant)
    if wanted.after > found.last_seq:
        raise ConsoleError("bad_request", f"The task has {found.last_seq} events", path="$.after")
    cursor, is_first = wanted.after, True
    async for head in heads_of(access, found.key):
        while cursor < head.last_seq or is_first:
            events = await read_log(access, head, cursor)
            cursor = events[-1].seq if events else head.last_seq
            (row,) = await rows_of(access, summaries, [head])
            is_first = False
            yield LogChange(events, row)
            del events


async def heads_of(access: TaskAccess, key: TaskKey) -> AsyncGenerator[TaskHead]:
    """The head of a task, again whenever it has new events, until it is deleted.

    The feed of the task tells at once what this process, or the hint of another one, has written.
    """
    feeds, last = access.engine.feeds, -1
    while (head := await access.store.tasks.head(key)) is not None:
        if head.last_seq != last:
            last = head.last_seq
            yield head
            continue
        feed = feeds.use(key, head.agent)
        try:
            if feed.last_seq > last:  # the hint of another process may be wrong
                await asyncio.sleep(RETRY_SECONDS)
            else:
                async with asyncio.timeout(LOOK_SECONDS):
                    await feed.wait()
        except TimeoutError:
            pass
        finally:
            feeds.release(key, feed)
    raise ConsoleError("not_found", "The task was deleted")
