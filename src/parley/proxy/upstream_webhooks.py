"""The proxy's own webhooks, which the agent calls, and a log of the agent's notifications for each task.

There is one webhook for each task for which a caller has registered webhooks. Notifications are stored as events with
the caller's names, and `deliveries` read them from the log. Webhooks and logs are in memory and bounded: when one is
dropped, its undelivered events are lost.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from msgspec import structs

from parley.client.streams.streamed_task import StreamedTask
from parley.client.webhooks.receiver import WebhookReceiver
from parley.client.webhooks.seen import MAX_IDS, Delivery, DeliveryVerdict, MemorySeen
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
from parley.proxy.id_mapping import CallerView
from parley.stores.interface import NewTask, Owner, Store, TaskKey, Write

logger = logging.getLogger(__name__)

MAX_WEBHOOKS = 10_000
"""Tasks with webhooks."""

MAX_BYTES = 64 * 1024 * 1024
"""Of all events of these tasks."""

EVENT_BYTES = 500
"""The memory for an event without its content."""

FAIR_SHARE = 0.125
"""The share of both limits up to which a caller may displace the webhooks of others."""


@dataclass(frozen=True, slots=True)
class SeenByWebhook:
    """The deliveries to one webhook, in the memory that all of them share: the agent chooses how many ids it sends."""

    seen: MemorySeen
    token: str

    async def judge(self, delivery: Delivery) -> DeliveryVerdict:
        """Whether a delivery is new."""
        return await self.seen.judge(replace(delivery, source=self.token))

    async def add(self, delivery: Delivery) -> None:
        """Remember a delivery that was handled."""
        await self.seen.add(replace(delivery, source=self.token))


@dataclass(slots=True, eq=False)
class UpstreamWebhook:
    """A webhook of the proxy for one task. `key` is the task in the log, once the task is known."""

    token: str
    config: PushConfig
    """What is registered at the agent."""
    seen: SeenByWebhook
    view: CallerView
    tenant: str | None
    pending: list[PushConfig] = field(default_factory=list[PushConfig])
    """Webhooks of messages that the agent has not answered yet."""
    remote_id: str | None = None
    key: TaskKey | None = None
    size: int = 0
    receiver: WebhookReceiver | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def owner(self) -> Owner:
        """The owner of the task."""
        return self.view.caller.owner


class UpstreamWebhooks:
    """All webhooks of the proxy. Their URLs consist of `url` and a random token."""

    def __init__(self, store: Store, deliveries: Deliveries, *, agent: str, url: str) -> None:
        self.by_token: OrderedDict[str, UpstreamWebhook] = OrderedDict()
        self.by_key: dict[TaskKey, UpstreamWebhook] = {}
        self._store = store
        self._deliveries = deliveries
        self._agent = agent
        self._url = url
        self._seen = MemorySeen(max_ids=MAX_IDS, max_tasks=MAX_WEBHOOKS)
        self._bytes = 0

    def create(self, view: CallerView, tenant: str | None) -> UpstreamWebhook:
        """A new webhook, for a task that may not be known yet."""
        token = secrets.token_urlsafe(32)
        config = PushConfig(f"{self._url}{token}", id=f"parley-{secrets.token_hex(8)}", token=token)
        webhook = self.by_token[token] = UpstreamWebhook(token, config, SeenByWebhook(self._seen, token), view, tenant)
        return webhook

    async def open(self, webhook: UpstreamWebhook, task: Task) -> None:
        """Begin the log of a task with its present state; `task` has the caller's names."""
        key = key_of(webhook.view.caller, task.id)
        if key in self.by_key:  # a caller of 0.1 has used the name for another task
            await self.remove(self.by_key[key])
        now = datetime.now(UTC)
        created = TaskCreated(task.id, task.context_id, TaskStatus(TaskState.SUBMITTED), task.metadata)
        events = (created, *_new_events(fold(None, [created]), task))
        new = NewTask(self._agent, task.context_id or "", webhook.view.caller.version, now)
        await self._store.tasks.write(Write(key, 0, events, task.status.state, now, new=new))
        webhook.key, self.by_key[key] = key, webhook
        await self._count(webhook, events)

    async def write(self, webhook: UpstreamWebhook, event: StreamEvent) -> None:
        """Store the new events in a notification about the task of an open webhook.

        Raises:
            PeerProtocolError: it is about another task, or contradicts earlier notifications.
        """
        remote_id = event.id if isinstance(event, Task) else event.task_id
        if remote_id not in (None, webhook.remote_id):
            raise PeerProtocolError("The notification is about another task")
        stored = await self._store.tasks.read(webhook.key) if webhook.key is not None else None
        if webhook.key is None or stored is None:
            return
        before = fold_stored(stored)
        events = tuple(_new_events(before, webhook.view.event(event)))
        if not events:
            return
        try:
            task = fold(before, events)
        except LocalProtocolError as error:
            raise PeerProtocolError(f"The notification contradicts earlier ones: {error}") from error
        seq, now = stored.head.last_seq, datetime.now(UTC)
        await self._store.tasks.write(Write(webhook.key, seq, events, task.status.state, now, snapshot=task))
        self._deliveries.notify(webhook.key)
        await self._count(webhook, events)

    async def remove(self, webhook: UpstreamWebhook) -> None:
        """Accept no more notifications, and drop those that were not delivered."""
        if self.by_token.pop(webhook.token, None) is None:
            return
        self._bytes -= webhook.size
        self._seen.forget(webhook.token)
        if webhook.key is not None and self.by_key.get(webhook.key) is webhook:
            del self.by_key[webhook.key]
            await self._store.tasks.delete(webhook.key)

    async def _count(self, webhook: UpstreamWebhook, events: Sequence[TaskEvent]) -> None:
        """Count new events. Above the limits, drop the oldest webhook: of this caller if it has many, else of all."""
        size = sum(EVENT_BYTES + size_of_event(event) for event in events)
        webhook.size += size
        self._bytes += size
        while self._bytes > MAX_BYTES or len(self.by_token) > MAX_WEBHOOKS:
            own = [other for other in self.by_token.values() if other.owner == webhook.owner]
            share = max(len(own) / MAX_WEBHOOKS, sum(other.size for other in own) / MAX_BYTES)
            oldest = own[0] if own and share > FAIR_SHARE else next(iter(self.by_token.values()))
            logger.warning("The webhooks of task %s are dropped: there are too many", oldest.key and oldest.key.task_id)
            await self.remove(oldest)


def scoped(caller: Caller) -> Caller:
    """The caller with a tenant of its own: task ids are unique within a tenant, and callers may use the same names."""
    return structs.replace(caller, tenant=f"{caller.tenant}/{caller.name}")


def key_of(caller: Caller, name: str) -> TaskKey:
    """The key of a task in the log, from its caller's name."""
    return TaskKey(scoped(caller).owner, name)


def _new_events(before: Task, update: StreamEvent) -> Sequence[TaskEvent]:
    """The events that lead from the stored task to an update of it."""
    if isinstance(update, Message) or is_terminal(before.status.state):
        return ()
    if not isinstance(update, Task):
        return (update,) if not isinstance(update, StatusUpdate) or update.status != before.status else ()
    known = {message.message_id for message in (*before.history, before.status.message) if message is not None}
    events: list[TaskEvent] = [
        MessageAdded(update.id, update.context_id, message)
        for message in update.history
        if message.message_id not in known
    ]
    seen = StreamedTask()
    seen.add(before)
    for event in seen.difference(update):
        match event:
            case ArtifactUpdate() | StatusUpdate():
                events.append(event)
            case Task():  # updates cannot lead there
                events += [ArtifactUpdate(event.id, event.context_id, artifact) for artifact in event.artifacts]
                events.append(StatusUpdate(event.id, event.context_id, event.status))
            case Message():
                pass
    return events
