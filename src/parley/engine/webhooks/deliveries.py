"""The push outbox: webhooks are told what happens to their tasks, in order and at least once, and no run waits for it.

A delivery is one more reader of the log. Each webhook has a durable position, the number of the last event it was told
of, and what lies beyond it is still to be told; so a restart forgets nothing, and neither writers nor readers of a task
wait. A webhook gets one event at a time. One that fails is tried again after longer and longer pauses, and given up in
the end. A webhook that knows everything costs nothing. Whose turn it is, `delivery_schedule` says; which webhooks are
behind, `delivery_backlog` knows; what they are told, `notifications` says. How a webhook is called is the business of a
`Sender`; nothing here knows HTTP. Spec: 1.0 sections 3.5.3 and 4.3.3.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Protocol

from parley.engine.clock import Clock, SystemClock, random_id
from parley.engine.observer import DeliveryOutcome, Observer
from parley.engine.webhooks.backlog import Backlog, News, PendingWebhook, digest_of
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.engine.webhooks.notifications import Notification, notification_of
from parley.engine.webhooks.schedule import DeliverySchedule, DeliveryTurn, HostOutcome
from parley.network.urls import host_of
from parley.protocol.errors import ParleyError
from parley.stores.interface import Owner, Store, StoreError, TaskKey, Webhook

logger = logging.getLogger(__name__)

LOADED_AT_ONCE = 500
"""Webhooks read from the store in one page."""

STORE_PAUSE = 5.0
"""Seconds until the store is asked again after it refused."""


class DeliveryError(ParleyError):
    """The webhook did not take a notification, and may take it later, `retry_after` seconds from now if it said so."""

    def __init__(self, message: str | None = None, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoAnswerError(DeliveryError):
    """The webhook's host gave no answer at all: no address, no connection, or nothing over it in time."""


class DeliveryRefusedError(DeliveryError):
    """The webhook will never take this notification."""


class Sender(Protocol):
    """What calls webhooks."""

    async def send(self, notification: Notification) -> None:
        """Tell a webhook something; return when it has taken it.

        Raises:
            DeliveryError: it has not, and may later. The text holds no secret of the config.
            NoAnswerError: the same, and the host has not answered at all.
            DeliveryRefusedError: it has not, and never will.
        """
        ...


class Deliveries:
    """All webhooks of a log, for whichever engines share it: `async with Deliveries(log, sender) as deliveries: …`.

    Start them before the engines and stop them after, while the log is open. `chance` gives numbers between 0 and 1.
    """

    def __init__(
        self,
        store: Store,
        sender: Sender,
        *,
        clock: Clock | None = None,
        limits: DeliveryLimits | None = None,
        observer: Observer | None = None,
        chance: Callable[[], float] = random.random,
        worker: str | None = None,
    ) -> None:
        self._store = store
        self._sender = sender
        self._clock: Clock = clock or SystemClock()
        self._limits = limits or DeliveryLimits()
        self._observer = observer
        self._chance = chance
        self.worker = worker or random_id()
        """The worker in whose outbox the tasks are of which this tells: the engine's beside it."""
        self._is_running = False
        self._forget()
        self._working: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._timing: asyncio.Task[None] | None = None

    def _forget(self) -> None:
        self._news = News()
        self._backlog = Backlog(self._limits.in_memory)
        self._schedule = DeliverySchedule(self._limits, self._chance)
        self._is_sweeping = self._has_swept = False
        self._swept_to: Owner | None = None
        self._wakes_at: float | None = None

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to deliver; first of all what an earlier process left undelivered."""
        self._is_running = True
        self.sweep()

    async def stop(self, *, grace: float = 5.0) -> None:
        """Let calls that are under way end for some seconds, then cut them off: they are made again after a start."""
        self._is_running = False
        if self._working:
            await asyncio.wait(self._working, timeout=grace)
        others = (self._looking, self._reading, self._timing)
        tasks = [*self._working, *(task for task in others if task is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._forget()

    async def __aenter__(self) -> Deliveries:
        """Begin to deliver."""
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    @property
    def pending(self) -> int:
        """Webhooks in memory that are behind."""
        return len(self._backlog)

    @property
    def under_way(self) -> int:
        """Webhooks that are being called."""
        return self._schedule.under_way

    @property
    def unanswered(self) -> int:
        """Hosts that did not answer their last call, counted for each owner that has webhooks there."""
        return self._schedule.unanswered_routes

    # --- what is behind -----------------------------------------------------------------------------------------------

    def notify(self, key: TaskKey) -> None:
        """Hear that a task with webhooks has new events, or a new webhook. The caller waits for nothing."""
        if not self._is_running:
            return
        if not self._news.add(key):
            self._backlog.read_again(key.owner)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        """Find out which webhooks of the tasks that have news are behind."""
        while (key := self._news.take()) is not None:
            await self._until_read(partial(self._take_behind, key))
            self._dispatch()
            await asyncio.sleep(0)  # many tasks may have news at once
        self._read_more()

    def sweep(self) -> None:
        """Look through the outbox for tasks of which this worker does not know, and for those of dead workers."""
        self._is_sweeping = True
        self._read_more()

    def _read_more(self) -> None:
        """Read what is in the outbox, as far as there is room in memory."""
        is_wanted = self._is_running and (self._is_sweeping or self._backlog.next_to_read() is not None)
        if is_wanted and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            if self._is_sweeping:
                await self._until_read(self._sweep_page)
            elif (unread := self._backlog.next_to_read()) is not None:
                await self._until_read(partial(self._read_page, *unread))
            else:
                return
            self._dispatch()

    async def _until_read(self, read: Callable[[], Awaitable[None]]) -> None:
        """Read something, again and again while the store refuses."""
        while True:
            try:
                return await read()
            except StoreError as error:
                logger.warning("Webhooks could not be looked up: %s", error)
                await self._clock.sleep(STORE_PAUSE)

    async def _sweep_page(self) -> None:
        """Take up a page of the outbox, of each owner one at most; the first time, page after page to the end."""
        page = await self._page(self._swept_to)
        for key in await self._claim([key for key in page if not self._backlog.holds(key)]):
            await self._take_behind(key)
        if len(page) < LOADED_AT_ONCE:
            self._swept_to, self._has_swept = None, True
        else:
            self._swept_to = page[-1].owner
            self._backlog.read_again(page[-1].owner, after=page[-1])
        self._is_sweeping = not self._has_swept

    async def _read_page(self, owner: Owner, after: TaskKey | None) -> None:
        """Take up more of an owner's tasks, as far as there is room in memory."""
        page = await self._page(after, owner)
        is_end = len(page) < LOADED_AT_ONCE
        for key in await self._claim(page):
            if not self._backlog.has_room(owner):
                is_end = False
                break
            await self._take_behind(key)
            after = key
        self._backlog.note_read(owner, after=after, is_end=is_end)

    async def _page(self, after: TaskKey | Owner | None, owner: Owner | None = None) -> Sequence[TaskKey]:
        """The next tasks in the outbox of this worker and of dead ones."""
        worker, live = self.worker, await self._live()
        return await self._store.outbox.undelivered(
            holder=worker, live=live, after=after, owner=owner, limit=LOADED_AT_ONCE
        )

    async def _claim(self, keys: Sequence[TaskKey]) -> Sequence[TaskKey]:
        """Put tasks into the outbox of this worker; which ones no other live worker has."""
        return await self._store.outbox.claim(keys, holder=self.worker, live=await self._live()) if keys else ()

    async def _live(self) -> frozenset[str]:
        return await self._store.leases.live() | {self.worker}

    async def _take_behind(self, key: TaskKey) -> None:
        """Let those webhooks of a task that are behind wait for their turn."""
        for webhook in await self._store.outbox.webhooks(key):
            if webhook.delivered_seq < webhook.last_seq:
                self._take(webhook)

    def _take(self, webhook: Webhook) -> None:
        """Let a webhook that is behind wait for its turn, or know that there is more."""
        pending = self._backlog.find(webhook)
        if pending is None:
            pending = self._backlog.hold(webhook)
            if pending is not None:
                self._schedule.add(pending)
        else:
            pending.has_news = True
            self._correct(pending, webhook)

    def _correct(self, pending: PendingWebhook, webhook: Webhook) -> bool:
        """Let a webhook whose config was replaced begin anew; whether it was."""
        digest = digest_of(webhook.config)
        if pending.digest == digest:
            return False
        pending.digest = digest
        pending.attempts = 0
        pending.has_given_up = False
        pending.was_corrected = True
        self._schedule.correct(pending, host_of(webhook.config.url))
        return True

    # --- turns --------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Begin as many turns as may be under way, and look again when a pause ends."""
        while self._is_running and (turn := self._schedule.take(self._clock.monotonic())) is not None:
            task = asyncio.create_task(self._take_turn(turn))
            self._working.add(task)
            task.add_done_callback(self._working.discard)
        wakes_at = self._schedule.next_pause_end() if self._is_running else None
        if wakes_at is not None and (self._wakes_at is None or wakes_at < self._wakes_at):
            if self._timing is not None:
                self._timing.cancel()
            self._wakes_at = wakes_at
            self._timing = asyncio.create_task(self._wake(wakes_at))

    async def _wake(self, wakes_at: float) -> None:
        await self._clock.sleep(max(0.0, wakes_at - self._clock.monotonic()))
        self._wakes_at = self._timing = None
        self._dispatch()

    async def _take_turn(self, turn: DeliveryTurn) -> None:
        """Tell a webhook what it does not know yet, and put it where it belongs then."""
        pending = turn.pending
        fields = {"task": pending.key.task_id, "webhook": pending.config_id}
        try:
            pause = await self._tell_all(turn)
        except StoreError as error:
            text = "Task %s, webhook %r: not told now: %s"
            logger.warning(text, pending.key.task_id, pending.config_id, error, extra=fields)
            pause = STORE_PAUSE
        except Exception:
            text = "Task %s, webhook %r: given up for now"
            logger.exception(text, pending.key.task_id, pending.config_id, extra=fields)
            pause = None
        now = self._clock.monotonic()
        self._schedule.end(turn, now)
        if pause is None and not pending.has_news:
            self._backlog.release(pending)
            self._read_more()
        elif pause:
            self._schedule.pause(pending, now + pause)
        else:
            self._schedule.add(pending)
        self._dispatch()

    async def _tell_all(self, turn: DeliveryTurn) -> float | None:
        """Tell a webhook the next page of events; the seconds until its next turn, or None if it knows everything."""
        pending = turn.pending
        key, config_id = pending.key, pending.config_id
        pending.has_news = pending.was_corrected = False
        if self._store.is_shared and not await self._claim([key]):  # others may believe that this worker has died
            return None
        webhooks = [
            webhook for webhook in await self._store.outbox.webhooks(key) if (webhook.config.id or "") == config_id
        ]
        if not webhooks:
            return None
        webhook = webhooks[0]
        if self._correct(pending, webhook):
            return 0.0  # its host may be another one, with turns of its own
        if turn.is_over:
            return await self._give_up_waiting(turn, webhook)
        seq = max(webhook.delivered_seq, pending.unmarked_seq)
        marked = webhook.delivered_seq
        events = await self._store.tasks.events(key, after=seq, limit=self._limits.turn_events)
        for seq, event in events:
            if not self._is_running:
                return 0.0
            notification = await notification_of(self._store, webhook, seq, event)
            if notification is None:
                continue
            if self._is_long_enough(turn):
                return 0.0
            pause = await self._tell(turn, notification)
            if pause is not None:
                return pause
            pending.unmarked_seq = seq
            if not await self._store.outbox.mark_delivered(key, config_id, seq, holder=self.worker):
                return None
            marked, pending.unmarked_seq = seq, 0
        if seq > marked:
            await self._store.outbox.mark_delivered(key, config_id, seq, holder=self.worker)
        return 0.0 if len(events) == self._limits.turn_events else None

    def _is_long_enough(self, turn: DeliveryTurn) -> bool:
        """Whether a turn has told enough: it took its time, or how to go on is known now better than at its begin."""
        if turn.outcome is HostOutcome.NOT_CALLED:
            return False
        is_long = self._clock.monotonic() - turn.begun >= self._limits.turn_seconds
        return is_long or turn.is_probe or turn.pending.was_corrected

    async def _tell(self, turn: DeliveryTurn, notification: Notification) -> float | None:
        """Tell a webhook one thing; the seconds until its next turn, or None if that is done with."""
        pending, begun = turn.pending, perf_counter()
        try:
            await self._sender.send(notification)
        except DeliveryError as error:
            failure = error
        except Exception:
            logger.exception("Task %s: the sender failed", notification.key.task_id, extra=_log_fields(notification))
            failure = DeliveryError("The sender failed")
        else:
            turn.outcome = HostOutcome.ANSWERED
            pending.attempts = 0
            pending.has_given_up = False
            self._observe(notification, "delivered", begun)
            return None
        turn.outcome = HostOutcome.UNANSWERED if isinstance(failure, NoAnswerError) else HostOutcome.ANSWERED
        if pending.was_corrected:  # meanwhile: this says nothing about its present config
            self._observe(notification, "retried", begun)
            return 0.0
        pending.attempts += 1
        is_last = isinstance(failure, DeliveryRefusedError) or pending.has_given_up
        fields = _log_fields(notification)
        if not is_last and pending.attempts < self._limits.attempts:
            self._observe(notification, "retried", begun)
            logger.info("%s: attempt %d: %s", _name(notification), pending.attempts, failure, extra=fields)
            pause = self._limits.pause_after(pending.attempts, self._chance())
            return max(pause, min(failure.retry_after, self._limits.longest_pause))
        self._observe(notification, "failed", begun)
        text = "%s: given up after attempt %d: %s"
        logger.error(text, _name(notification), pending.attempts, failure, extra=fields)
        pause = None if is_last else await self._give_up(pending, notification)
        pending.attempts = 0
        pending.has_given_up = pause is not None and not pending.was_corrected
        return pause

    async def _give_up(self, pending: PendingWebhook, notification: Notification) -> float | None:
        """Drop what waits behind an event that was tried often enough, except for the last, which is tried once.

        Each further event would take as long as this one, and a receiver that was gone for so long must read the task
        anyway. The last event says where the task stands.
        """
        head = await self._store.tasks.head(pending.key)
        if head is None or head.last_seq == notification.seq:
            return None
        await self._store.outbox.mark_delivered(pending.key, pending.config_id, head.last_seq - 1, holder=self.worker)
        logger.error(
            "%s: events up to %d are not delivered",
            _name(notification),
            head.last_seq - 1,
            extra={**_log_fields(notification), "context": head.context_id},
        )
        return 0.0

    async def _give_up_waiting(self, turn: DeliveryTurn, webhook: Webhook) -> None:
        """Drop what a webhook should have been told while its host gave no answer to all attempts of others."""
        key, config_id = turn.pending.key, turn.pending.config_id
        await self._store.outbox.mark_delivered(key, config_id, webhook.last_seq, holder=self.worker)
        text = "Task %s, webhook %r: events up to %d are not delivered: %s gave no answer to %d calls"
        fields = {"task": key.task_id, "webhook": config_id}
        logger.error(text, key.task_id, config_id, webhook.last_seq, turn.route.host, turn.route.failures, extra=fields)
        if self._observer is not None:
            self._observer.delivered(key, webhook.agent, config_id, "failed", 0.0)

    def _observe(self, notification: Notification, outcome: DeliveryOutcome, begun: float) -> None:
        if self._observer is not None:
            config_id = notification.config.id or ""
            seconds = perf_counter() - begun
            self._observer.delivered(notification.key, notification.agent, config_id, outcome, seconds)


def _log_fields(notification: Notification) -> dict[str, str]:
    return {"task": notification.key.task_id, "webhook": notification.config.id or ""}


def _name(notification: Notification) -> str:
    """A notification as the log may name it: the URL may hold secrets, its host does not."""
    host = host_of(notification.config.url)
    return f"Task {notification.key.task_id}, event {notification.seq}, webhook {notification.config.id!r} at {host}"
