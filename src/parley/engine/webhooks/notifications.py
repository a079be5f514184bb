"""What is sent to webhooks: in 1.0 each update itself, in older versions the task after each change of its state."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent, TaskEvent
from parley.protocol.lifecycle import fold
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import Store, TaskKey, Webhook

EVENTS_AT_ONCE = 500
"""Events read from the store in one page."""


class Notification(Struct, frozen=True):
    """One event for one webhook: the update itself in 1.0, in older dialects the task right after the update."""

    key: TaskKey
    agent: str
    config: PushConfig
    version: Version
    seq: int
    event: StreamEvent


async def notification_of(store: Store, webhook: Webhook, seq: int, event: TaskEvent) -> Notification | None:
    """The notification that a webhook gets for an event, or None."""
    told: StreamEvent | None = None
    if webhook.version is Version.V1_0:
        if isinstance(event, StatusUpdate | ArtifactUpdate):
            told = event
    elif isinstance(event, StatusUpdate) and _is_change(event):
        told = await _task_at(store, webhook.key, seq)
    if told is None:
        return None
    return Notification(webhook.key, webhook.agent, webhook.config, webhook.version, seq, told)


def _is_change(event: StatusUpdate) -> bool:
    """Whether a status changes the state: `working` with a message only reports progress."""
    return event.status.state is not TaskState.WORKING or event.status.message is None


async def _task_at(store: Store, key: TaskKey, seq: int) -> Task | None:
    """A task as it stood right after an event, or None if it is there no longer."""
    stored = await store.tasks.read(key)
    if stored is None:
        return None
    if stored.snapshot_seq <= seq:
        return await asyncio.to_thread(fold, stored.snapshot, stored.events[: seq - stored.snapshot_seq])
    events: list[TaskEvent] = []
    while len(events) < seq:
        page = await store.tasks.events(key, after=len(events), limit=min(EVENTS_AT_ONCE, seq - len(events)))
        if not page:
            return None
        events += [event for _, event in page]
    return await asyncio.to_thread(fold, None, events)
