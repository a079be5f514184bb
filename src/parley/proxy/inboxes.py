"""Inboxes for the agent's notifications, and the log from which callers' webhooks are notified.

Each task with webhooks has an inbox. Notifications that arrive there are logged as events with the caller's names, and
deliveries read them from the log. Both are in memory and bounded: what is dropped is not delivered.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from msgspec import structs

from parley.client.streams.streamed_task import StreamedTask
from parley.client.webhooks import WebhookReceiver
from parley.engine.caller import Caller
from parley.engine.reading.sizes import size_of_event
from parley.engine.reading.views import fold_stored
from parley.engine.webhooks.deliveries import Deliveries
from parley.protocol.errors import LocalProtocolError, PeerProtocolError
from parley.protocol.events import ArtifactUpdate, MessageAdded, StatusUpdate, StreamEvent, TaskCreated, TaskEvent
from parley.protocol.lifecycle import fold, is_terminal
from parley.protocol.messages import Message
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.proxy.caller_view import CallerView
from parley.stores.interface import NewTask, Owner, Store, TaskKey, Write

logger = logging.getLogger(__name__)

MAX_INBOXES = 10_000
"""Tasks with webhooks."""

MAX_BYTES = 64 * 1024 * 1024
"""Of the logs of these tasks together."""

EVENT_BYTES = 500
"""The overhead of an event in memory."""

FAIR_SHARE = 0.125
"""The share of both limits up to which a caller can displace others."""


@dataclass(slots=True, eq=False)
class NotificationInbox:
    """Receives the agent's notifications about one task. `key` is the task in the log, once it is known."""

    token: str
    config: PushConfig
    """The webhook that is registered at the agent."""
    view: CallerView
    tenant: str | None
    waiting: list[PushConfig] = field(default_factory=list[PushConfig])
    """Callers' webhooks from sends that the agent has not answered yet."""
    remote_id: str | None = None
    key: TaskKey | None = None
    size: int = 0
    receiver: WebhookReceiver | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def owner(self) -> Owner:
        """The owner of the task."""
        return self.view.caller.owner


class NotificationInboxes:
    """All inboxes. `url` is their base URL for the agent; each has a random token below it."""

    def __init__(self, store: Store, deliveries: Deliveries, *, agent: str, url: str) -> None:
        self._store = store
        self._deliveries = deliveries
        self._agent = agent
        self._url = url
        self._inboxes: OrderedDict[str, NotificationInbox] = OrderedDict()
        self._by_key: dict[TaskKey, NotificationInbox] = {}
        self._bytes = 0

    def named(self, token: str) -> NotificationInbox | None:
        """The inbox by the last segment of its URL."""
        return self._inboxes.get(token)

    def of(self, key: TaskKey) -> NotificationInbox | None:
        """The inbox of a task."""
        return self._by_key.get(key)

    def make(self, view: CallerView, tenant: str | None) -> NotificationInbox:
        """A new inbox, for a task that may not be known yet."""
        token = secrets.token_urlsafe(32)
        config = PushConfig(f"{self._url}{token}", id=f"parley-{secrets.token_hex(8)}", token=token)
        inbox = self._inboxes[token] = NotificationInbox(token, config, view, tenant)
        return inbox

    async def open(self, inbox: NotificationInbox, task: Task) -> None:
        """Start the log of a task at its current state, with the caller's names."""
        key = key_of(inbox.view.caller, task.id)
        before = self._by_key.get(key)
        if before is not None:  # the name of 0.1 is used for another task now
            await self.forget(before)
        now = datetime.now(UTC)
        created = TaskCreated(task.id, task.context_id, TaskStatus(TaskState.SUBMITTED), task.metadata)
        events = (created, *_new_events(fold(None, [created]), task))
        new = NewTask(self._agent, task.context_id or "", inbox.view.caller.version, now)
        await self._store.tasks.write(Write(key, 0, events, task.status.state, now, new=new))
        inbox.key, self._by_key[key] = key, inbox
        await self._grow(inbox, events)

    async def write(self, inbox: NotificationInbox, event: StreamEvent) -> None:
        """Log what is new in a notification.

        Raises:
            PeerProtocolError: it is about another task, or contradicts earlier notifications.
        """
        remote_id = event.id if isinstance(event, Task) else event.task_id
        if remote_id not in (None, inbox.remote_id):
            raise PeerProtocolError("The notification is about another task")
        stored = await self._store.tasks.read(inbox.key) if inbox.key is not None else None
        if inbox.key is None or stored is None:
            return
        before = fold_stored(stored)
        events = tuple(_new_events(before, inbox.view.event(event)))
        if not events:
            return
        try:
            task = fold(before, events)
        except LocalProtocolError as error:
            raise PeerProtocolError(f"The notification does not follow from those before: {error}") from error
        seq, now = stored.head.last_seq, datetime.now(UTC)
        await self._store.tasks.write(Write(inbox.key, seq, events, task.status.state, now, snapshot=task))
        self._deliveries.notify(inbox.key)
        await self._grow(inbox, events)

    async def forget(self, inbox: NotificationInbox) -> None:
        """Remove an inbox; notifications that are not delivered yet are dropped."""
        if self._inboxes.pop(inbox.token, None) is None:
            return
        self._bytes -= inbox.size
        if inbox.key is not None and self._by_key.get(inbox.key) is inbox:
            del self._by_key[inbox.key]
            await self._store.tasks.delete(inbox.key)

    async def _grow(self, inbox: NotificationInbox, events: Sequence[TaskEvent]) -> None:
        """Count what was logged; over the limit, remove the oldest inbox: of a caller with too many, or of all."""
        size = sum(EVENT_BYTES + size_of_event(event) for event in events)
        inbox.size += size
        self._bytes += size
        while self._bytes > MAX_BYTES or len(self._inboxes) > MAX_INBOXES:
            own = [other for other in self._inboxes.values() if other.owner == inbox.owner]
            taken = max(len(own) / MAX_INBOXES, sum(other.size for other in own) / MAX_BYTES)
            loser = own[0] if own and taken > FAIR_SHARE else next(iter(self._inboxes.values()))
            logger.warning("Task %s: its webhooks are removed to free memory", loser.key and loser.key.task_id)
            await self.forget(loser)


def scoped(caller: Caller) -> Caller:
    """The caller with a tenant of its own: in a log, ids are unique within a tenant, and callers choose names."""
    return structs.replace(caller, tenant=f"{caller.tenant}/{caller.name}")


def key_of(caller: Caller, name: str) -> TaskKey:
    """A task in the log, by its caller's name for it."""
    return TaskKey(scoped(caller).owner, name)


def _new_events(before: Task, received: StreamEvent) -> Sequence[TaskEvent]:
    """The events that lead from a task as it was to the notification."""
    if isinstance(received, Message) or is_terminal(before.status.state):
        return ()
    if not isinstance(received, Task):
        return (received,) if not isinstance(received, StatusUpdate) or received.status != before.status else ()
    known = {message.message_id for message in (*before.history, before.status.message) if message is not None}
    added = [
        MessageAdded(received.id, received.context_id, message)
        for message in received.history
        if message.message_id not in known
    ]
    replay = StreamedTask()
    replay.add(before)
    steps: list[TaskEvent] = []
    for step in replay.difference(received):
        match step:
            case ArtifactUpdate() | StatusUpdate():
                steps.append(step)
            case Task():  # no updates lead there
                steps += [ArtifactUpdate(step.id, step.context_id, artifact) for artifact in step.artifacts]
                steps.append(StatusUpdate(step.id, step.context_id, step.status))
            case Message():
                pass
    return (*added, *steps)
