"""The push outbox: webhooks are told what happens to their tasks, in order, at least once, and in nobody's way.

A delivery is one more reader of the log. Each webhook has a durable place, the number of the last event it was told of,
and what lies beyond it is still to be told; so a restart forgets nothing, and nobody who writes or reads a task waits.
A webhook gets one event at a time. One that fails is tried again after longer and longer pauses, and given up in the
end. A webhook that is behind has a lane here; one that is not costs nothing. How a webhook is called is the business of
a `Sender`; nothing here knows HTTP. Spec: 1.0 sections 3.5.3 and 4.3.3.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from time import perf_counter
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from parley.engine.clock import Clock, SystemClock
from parley.engine.observer import DeliveryOutcome, Observer
from parley.protocol.errors import ParleyError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent, TaskEvent
from parley.protocol.lifecycle import fold
from parley.protocol.push import PushConfig
from parley.protocol.tasks import Task, TaskState
from parley.protocol.versions import Version
from parley.stores.interface import StoreError, TaskKey, TaskLog, Webhook

logger = logging.getLogger(__name__)

LOADED_AT_ONCE = 500
"""Webhooks read from the store in one page when deliveries start."""

STORE_PAUSE = 5.0
"""Seconds until the store is asked again after it refused."""

CLOCK_SLACK = 0.001
"""Seconds by which a clock may be woken too early, so that nobody sleeps twice for one pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryLimits:
    """How hard webhooks are called."""

    at_once: int = 64
    """Calls under way. They wait for others most of their time."""
    at_once_per_host: int = 8
    """Calls of one host under way, so that a slow one leaves room for the rest and is not flooded."""
    attempts: int = 15
    """Calls for one event. With the pauses below, half an hour to an hour: longer than a deployment, not for ever."""
    first_pause: float = 1.0
    """Seconds before the second attempt; each further pause is twice as long; up to half of it is left to chance."""
    longest_pause: float = 600.0
    """No pause is longer, also where the webhook asks for it."""
    page_events: int = 20
    """Events told in one turn, before others who wait for the same host get theirs."""


class Notification(Struct, frozen=True):
    """One thing to tell one webhook: the update itself in 1.0, before that the task as it stood right after it."""

    key: TaskKey
    agent: str
    config: PushConfig
    version: Version
    seq: int
    event: StreamEvent


class DeliveryError(ParleyError):
    """The webhook did not take a notification, and may take it later, `retry_after` seconds from now if it said so."""

    def __init__(self, message: str | None = None, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeliveryRefusedError(DeliveryError):
    """The webhook will never take this notification."""


class Sender(Protocol):
    """Somebody who can call webhooks."""

    async def send(self, notification: Notification) -> None:
        """Tell a webhook something; return when it has taken it.

        Raises:
            DeliveryError: it has not, and may later. The text holds no secret of the config.
            DeliveryRefusedError: it has not, and never will.
        """
        ...


_LaneId: TypeAlias = tuple[TaskKey, str]


class _Lane:
    """A webhook that is behind. It is ready, at work, waiting for its host, or pausing; never two of these."""

    __slots__ = ("attempts", "has_given_up", "has_news", "is_pausing", "lane_id", "unmarked_seq", "url")

    def __init__(self, lane_id: _LaneId, url: str) -> None:
        self.lane_id = lane_id
        self.url = url
        self.attempts = 0
        self.has_news = False
        self.has_given_up = False
        self.is_pausing = False
        self.unmarked_seq = 0
        """What was delivered although the store could not note it, so that it is not delivered for as long as that."""

    @property
    def host(self) -> str:
        try:
            return urlsplit(self.url).hostname or ""
        except ValueError:  # no URL; the sender will say so
            return ""


class _Host:
    """The calls of one host: how many are under way, and who waits for their turn."""

    __slots__ = ("busy", "waiting")

    def __init__(self) -> None:
        self.busy = 0
        self.waiting: deque[_Lane] = deque()


class Deliveries:
    """All webhooks of a log, for whichever engines share it: `async with Deliveries(log, sender) as deliveries: …`.

    Start them before the engines and stop them after, while the log is open. `chance` gives numbers between 0 and 1.
    """

    def __init__(
        self,
        log: TaskLog,
        sender: Sender,
        *,
        clock: Clock | None = None,
        limits: DeliveryLimits | None = None,
        observer: Observer | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._log = log
        self._sender = sender
        self._clock: Clock = clock or SystemClock()
        self._limits = limits or DeliveryLimits()
        self._observer = observer
        self._chance = chance
        self._is_running = False
        self._news: dict[TaskKey, None] = {}
        self._lanes: dict[_LaneId, _Lane] = {}
        self._ready: deque[_Lane] = deque()
        self._hosts: dict[str, _Host] = {}
        self._pausing: list[tuple[float, int, _Lane]] = []
        self._order = count()
        self._working: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._timing: asyncio.Task[None] | None = None
        self._next_due: float | None = None

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to deliver; first of all what an earlier process left undelivered."""
        self._is_running = True
        self._loading = asyncio.create_task(self._load())

    async def stop(self, *, grace: float = 5.0) -> None:
        """Let calls that are under way end for some seconds, then cut them off: they are made again after a start."""
        self._is_running = False
        if self._working:
            await asyncio.wait(self._working, timeout=grace)
        tasks = [task for task in (self._loading, self._looking, self._timing, *self._working) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._news.clear()
        self._lanes.clear()
        self._ready.clear()
        self._hosts.clear()
        self._pausing.clear()

    async def __aenter__(self) -> Deliveries:
        """Begin to deliver."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    @property
    def pending(self) -> int:
        """Webhooks that are behind, as far as is known; for whoever counts them."""
        return len(self._lanes)

    async def _load(self) -> None:
        """Take up what an earlier process left."""
        last: Webhook | None = None
        while True:
            try:
                page = await self._log.undelivered(after=last, limit=LOADED_AT_ONCE)
            except StoreError as error:
                logger.warning("Webhooks could not be looked up: %s", error)
                await self._clock.sleep(STORE_PAUSE)
                continue
            for webhook in page:
                self._take(webhook)
            if len(page) < LOADED_AT_ONCE:
                return
            last = page[-1]

    # --- news ---------------------------------------------------------------------------------------------------------

    def notify(self, key: TaskKey) -> None:
        """Hear that a task with webhooks has new events, or a new webhook. Nobody waits here for anything."""
        if not self._is_running:
            return
        self._news[key] = None
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        """Find out which webhooks of the tasks that have news are behind."""
        while self._news:
            key = next(iter(self._news))
            del self._news[key]
            try:
                webhooks = await self._log.webhooks(key)
            except StoreError as error:
                logger.warning(
                    "Task %s: its webhooks could not be looked up: %s",
                    key.task_id,
                    error,
                    extra={"task": key.task_id},
                )
                self._news[key] = None
                await self._clock.sleep(STORE_PAUSE)
                continue
            for webhook in webhooks:
                if webhook.delivered_seq < webhook.last_seq:
                    self._take(webhook)
            await asyncio.sleep(0)  # many tasks may have news at once

    def _take(self, webhook: Webhook) -> None:
        """Give a webhook that is behind a lane, or tell its lane that there is more."""
        lane_id = (webhook.key, webhook.config.id or "")
        lane = self._lanes.get(lane_id)
        if lane is None:
            lane = self._lanes[lane_id] = _Lane(lane_id, webhook.config.url)
            self._ready.append(lane)
        else:
            lane.has_news = True
            if lane.is_pausing and lane.url != webhook.config.url:  # put right by its owner: no reason to wait
                lane.attempts = 0
                lane.is_pausing = False
                self._ready.append(lane)
        self._dispatch()

    # --- turns --------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Begin as many turns as may be under way."""
        while self._is_running and self._ready and len(self._working) < self._limits.at_once:
            lane = self._ready.popleft()
            name = lane.host
            host = self._hosts.setdefault(name, _Host())
            if host.busy >= self._limits.at_once_per_host:
                host.waiting.append(lane)
                continue
            host.busy += 1
            task = asyncio.create_task(self._take_turn(lane))
            self._working.add(task)
            task.add_done_callback(lambda done, lane=lane, name=name: self._end_turn(done, lane, name))

    async def _take_turn(self, lane: _Lane) -> None:
        """Tell a webhook what it does not know yet, and leave the lane where it belongs then."""
        key, config_id = lane.lane_id
        try:
            pause = await self._tell_all(lane)
        except StoreError as error:
            fields = {"task": key.task_id, "webhook": config_id}
            logger.warning("Task %s, webhook %r: not told now: %s", key.task_id, config_id, error, extra=fields)
            pause = STORE_PAUSE
        except Exception:
            fields = {"task": key.task_id, "webhook": config_id}
            logger.exception("Task %s, webhook %r: given up for now", key.task_id, config_id, extra=fields)
            pause = None
        if pause is None and not lane.has_news:
            del self._lanes[lane.lane_id]
        elif pause:
            self._pause(lane, pause)
        else:
            self._ready.append(lane)

    def _end_turn(self, task: asyncio.Task[None], lane: _Lane, name: str) -> None:
        self._working.discard(task)
        host = self._hosts.get(name)
        if host is not None:
            host.busy -= 1
            if host.waiting:
                self._ready.appendleft(host.waiting.popleft())
            elif host.busy == 0:
                del self._hosts[name]
        self._dispatch()

    async def _tell_all(self, lane: _Lane) -> float | None:
        """Tell a webhook the next page of events; the seconds until its next turn, or None if it knows everything."""
        key, config_id = lane.lane_id
        lane.has_news = False
        webhooks = [webhook for webhook in await self._log.webhooks(key) if (webhook.config.id or "") == config_id]
        if not webhooks:
            return None
        webhook = webhooks[0]
        lane.url = webhook.config.url
        seq = max(webhook.delivered_seq, lane.unmarked_seq)
        marked = webhook.delivered_seq
        events = await self._log.events(key, after=seq, limit=self._limits.page_events)
        for seq, event in events:
            if not self._is_running:
                return 0.0
            notification = await self._notification(webhook, seq, event)
            if notification is None:
                continue
            pause = await self._tell(lane, notification)
            if pause is not None:
                return pause
            lane.unmarked_seq = seq
            if not await self._log.mark_delivered(key, config_id, seq):
                return None
            marked, lane.unmarked_seq = seq, 0
        if seq > marked:
            await self._log.mark_delivered(key, config_id, seq)
        return 0.0 if len(events) == self._limits.page_events else None

    async def _tell(self, lane: _Lane, notification: Notification) -> float | None:
        """Tell a webhook one thing; the seconds until its next turn, or None if that is done with."""
        begun = perf_counter()
        try:
            await self._sender.send(notification)
        except DeliveryError as error:
            failure = error
        except Exception:
            logger.exception("Task %s: the sender failed", notification.key.task_id, extra=_log_fields(notification))
            failure = DeliveryError("The sender failed")
        else:
            lane.attempts = 0
            lane.has_given_up = False
            self._observe(notification, "delivered", begun)
            return None
        lane.attempts += 1
        is_last = isinstance(failure, DeliveryRefusedError) or lane.has_given_up
        if not is_last and lane.attempts < self._limits.attempts:
            self._observe(notification, "retried", begun)
            fields = _log_fields(notification)
            logger.info("%s: attempt %d: %s", _name(notification), lane.attempts, failure, extra=fields)
            return self._pause_after(lane.attempts, failure.retry_after)
        self._observe(notification, "failed", begun)
        fields = _log_fields(notification)
        logger.error("%s: given up after attempt %d: %s", _name(notification), lane.attempts, failure, extra=fields)
        lane.attempts = 0
        lane.has_given_up = False
        return None if is_last else await self._give_up(lane, notification)

    async def _give_up(self, lane: _Lane, notification: Notification) -> float | None:
        """Drop what waits behind an event that was tried often enough, except for the last, which is tried once.

        Each further event would take as long as this one, and a receiver that was gone for so long must read the task
        anyway. The last event says where the task stands.
        """
        key, config_id = lane.lane_id
        head = await self._log.head(key)
        if head is None or head.last_seq == notification.seq:
            return None
        lane.has_given_up = True
        await self._log.mark_delivered(key, config_id, head.last_seq - 1)
        logger.error(
            "%s: events up to %d are not delivered",
            _name(notification),
            head.last_seq - 1,
            extra={**_log_fields(notification), "context": head.context_id},
        )
        return 0.0

    def _observe(self, notification: Notification, outcome: DeliveryOutcome, begun: float) -> None:
        if self._observer is not None:
            config_id = notification.config.id or ""
            seconds = perf_counter() - begun
            self._observer.delivered(notification.key, notification.agent, config_id, outcome, seconds)

    # --- what is told -------------------------------------------------------------------------------------------------

    async def _notification(self, webhook: Webhook, seq: int, event: TaskEvent) -> Notification | None:
        """What a webhook is told of an event, or None if that is nothing."""
        told: StreamEvent | None = None
        if webhook.version is Version.V1_0:
            if isinstance(event, StatusUpdate | ArtifactUpdate):
                told = event
        elif isinstance(event, StatusUpdate) and _is_change(event):
            told = await self._task_at(webhook.key, seq)
        if told is None:
            return None
        return Notification(webhook.key, webhook.agent, webhook.config, webhook.version, seq, told)

    async def _task_at(self, key: TaskKey, seq: int) -> Task | None:
        """A task as it stood right after an event, or None if it is there no longer."""
        stored = await self._log.task(key)
        if stored is None:
            return None
        if stored.snapshot_seq <= seq:
            return await asyncio.to_thread(fold, stored.snapshot, stored.events[: seq - stored.snapshot_seq])
        events: list[TaskEvent] = []
        while len(events) < seq:
            page = await self._log.events(key, after=len(events), limit=min(LOADED_AT_ONCE, seq - len(events)))
            if not page:
                return None
            events += [event for _, event in page]
        return await asyncio.to_thread(fold, None, events)

    # --- pauses -------------------------------------------------------------------------------------------------------

    def _pause_after(self, attempt: int, wanted: float) -> float:
        pause = min(self._limits.first_pause * 2 ** (attempt - 1), self._limits.longest_pause)
        return max(pause * (0.5 + self._chance() / 2), min(wanted, self._limits.longest_pause))

    def _pause(self, lane: _Lane, seconds: float) -> None:
        """Make a lane ready again after some time."""
        lane.is_pausing = True
        due = self._clock.monotonic() + seconds
        heapq.heappush(self._pausing, (due, next(self._order), lane))
        if self._next_due is None or due < self._next_due:
            if self._timing is not None:
                self._timing.cancel()
            self._next_due = due
            self._timing = asyncio.create_task(self._time())

    async def _time(self) -> None:
        """Wake lanes when their pauses are over; end when none is left."""
        while self._pausing:
            self._next_due = self._pausing[0][0]
            await self._clock.sleep(max(0.0, self._next_due - self._clock.monotonic()))
            now = self._clock.monotonic() + CLOCK_SLACK
            while self._pausing and self._pausing[0][0] <= now:
                _, _, lane = heapq.heappop(self._pausing)
                if lane.is_pausing:  # and not woken before
                    lane.is_pausing = False
                    self._ready.append(lane)
            self._dispatch()
        self._next_due = None


def _is_change(event: StatusUpdate) -> bool:
    """Whether a status tells of another state: `working` with a message is said by a run that has been at work."""
    return event.status.state is not TaskState.WORKING or event.status.message is None


def _log_fields(notification: Notification) -> dict[str, str]:
    return {"task": notification.key.task_id, "webhook": notification.config.id or ""}


def _name(notification: Notification) -> str:
    """A notification as the log may name it: the URL may hold secrets, its host does not."""
    host = _Lane((notification.key, ""), notification.config.url).host
    return f"Task {notification.key.task_id}, event {notification.seq}, webhook {notification.config.id!r} at {host}"
