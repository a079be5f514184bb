"""Deliveries: webhooks are notified of the events of their tasks, in order and at least once; no run waits for it.

A delivery is one more reader of the log. Each webhook has a durable position, the number of the last event that was
delivered to it. So a restart loses nothing, and neither writers nor readers of a task wait. A webhook gets one event at
a time. After a failure the call is retried with increasing pauses (backoff), until the webhook is paused or its events
are given up. All of that is durable, too: a success is written with the position, and only a failure by itself. An
up-to-date webhook uses no memory, nor does a paused one.

`backlog` knows which webhooks are behind, `schedule` decides whose turn it is, `notifications` makes what is sent,
`retries` decides what follows a failure, and `outcomes` notes it.
A `Sender` calls the webhook; nothing here knows HTTP. Spec: 1.0 sections 3.5.3 and 4.3.3.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from time import perf_counter
from typing import Protocol

from parley.engine.clock import Clock, SystemClock, random_id
from parley.engine.observer import Observer
from parley.engine.webhooks.backlog import Backlog, ChangedTasks, PendingWebhook, digest_of
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.engine.webhooks.notifications import Notification, notification_of
from parley.engine.webhooks.outcomes import DeliveryOutcomes, FailedAttempt
from parley.engine.webhooks.retries import is_paused
from parley.engine.webhooks.schedule import DeliverySchedule, DeliveryTurn, HostOutcome
from parley.network.urls import host_of
from parley.protocol.errors import ParleyError
from parley.stores.interface import DeadLetter, DeliveryFailure, Owner, Store, StoreError, TaskKey, Webhook

logger = logging.getLogger(__name__)

LOADED_AT_ONCE = 500
"""Tasks read from the outbox in one page."""

STORE_PAUSE = 5.0
"""Seconds until the next attempt after the store has failed."""


class DeliveryError(ParleyError):
    """The webhook did not accept a notification. It may later, after `retry_after` seconds if it said so."""

    def __init__(self, message: str | None = None, *, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NoAnswerError(DeliveryError):
    """The webhook's host gave no answer at all: no address, no connection, or nothing over it in time."""


class DeliveryRefusedError(DeliveryError):
    """The webhook will never accept this notification."""


class Sender(Protocol):
    """Calls webhooks."""

    async def send(self, notification: Notification) -> None:
        """Send a notification to its webhook; return when the webhook has accepted it.

        Raises:
            DeliveryError: the webhook did not accept it, and may later. The text holds no secret of the config.
            NoAnswerError: the same, and the host did not answer at all.
            DeliveryRefusedError: the webhook did not accept it, and never will.
        """
        ...


class Deliveries:
    """The deliveries to all webhooks of one worker: `async with Deliveries(store, sender) as deliveries: …`.

    Start them before the engine and stop them after it, while the store is open. `jitter` gives numbers from 0 to 1.
    """

    def __init__(
        self,
        store: Store,
        sender: Sender,
        *,
        clock: Clock | None = None,
        limits: DeliveryLimits | None = None,
        observer: Observer | None = None,
        jitter: Callable[[], float] = random.random,
        worker: str | None = None,
    ) -> None:
        self._store = store
        self._sender = sender
        self._clock: Clock = clock or SystemClock()
        self._limits = limits or DeliveryLimits()
        self._jitter = jitter
        self.worker = worker or random_id()
        """The worker id; the same as the engine's."""
        self._outcomes = DeliveryOutcomes(store, self.worker, self._clock, self._limits, observer)
        self._is_running = False
        self._forget()
        self._working: set[asyncio.Task[None]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._timing: asyncio.Task[None] | None = None

    def _forget(self) -> None:
        self._changed_tasks = ChangedTasks()
        self._backlog = Backlog(self._limits.in_memory)
        self._schedule = DeliverySchedule(self._limits, self._jitter)
        self._is_sweeping = self._has_swept = False
        self._swept_to: Owner | None = None
        self._wakes_at: float | None = None

    # --- start and stop -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to deliver, first what an earlier process left undelivered."""
        self._is_running = True
        self.sweep()

    async def stop(self, *, grace: float = 5.0) -> None:
        """Give active calls some seconds to finish, then cancel them. They are made again after the next start."""
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

    def next_attempt_at(self, webhook: Webhook) -> datetime | None:
        """When a webhook is called again, if it, or its host, pauses."""
        pending = self._backlog.find(webhook)
        until = None if pending is None else self._schedule.next_attempt(pending)
        if until is None:
            return None if webhook.failure is None else webhook.failure.next_at
        return self._clock.now() + timedelta(seconds=max(0.0, until - self._clock.monotonic()))

    def holds(self, key: TaskKey) -> bool:
        """Whether a webhook of a task is in memory because it is behind."""
        return self._backlog.holds(key)

    def send_now(self, key: TaskKey) -> None:
        """Call the webhooks of a task that are behind without waiting for the end of a pause. This returns at once."""
        for pending in self._backlog.of_task(key):
            pending.unmarked_seq = 0
            self._schedule.hurry(pending)
        self.notify(key)

    # --- what is behind -----------------------------------------------------------------------------------------------

    def notify(self, key: TaskKey) -> None:
        """Look up the webhooks of a task that has new events or a new webhook. This returns at once."""
        if not self._is_running:
            return
        if not self._changed_tasks.add(key):
            self._backlog.read_again(key.owner)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._check_changed_tasks())

    async def _check_changed_tasks(self) -> None:
        """Find the webhooks that are behind, of the tasks with new events."""
        while (key := self._changed_tasks.take()) is not None:
            await self._until_read(partial(self._queue_outdated, key))
            self._dispatch()
            await asyncio.sleep(0)  # many tasks may have new events at once
        self._read_more()

    def sweep(self) -> None:
        """Look through the outbox for tasks that this worker does not know, and for those of dead workers."""
        self._is_sweeping = True
        self._read_more()

    def _read_more(self) -> None:
        """Read the outbox, as far as there is room in memory."""
        is_wanted = self._is_running and (self._is_sweeping or self._backlog.next_to_read() is not None)
        if is_wanted and (self._reading is None or self._reading.done()):
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while True:
            if self._is_sweeping:
                await self._until_read(self._scan_outbox_page)
            elif (unread := self._backlog.next_to_read()) is not None:
                await self._until_read(partial(self._read_page, *unread))
            else:
                return
            self._dispatch()

    async def _until_read(self, read: Callable[[], Awaitable[None]]) -> None:
        """Read something, and try again while the store fails."""
        while True:
            try:
                return await read()
            except StoreError as error:
                logger.warning("Webhooks could not be looked up: %s", error)
                await self._clock.sleep(STORE_PAUSE)

    async def _scan_outbox_page(self) -> None:
        """Read a page of the outbox, at most one per owner; the first time, page after page to the end."""
        page = await self._page(self._swept_to)
        for key in await self._claim([key for key in page if not self._backlog.holds(key)]):
            await self._queue_outdated(key)
        if len(page) < LOADED_AT_ONCE:
            self._swept_to, self._has_swept = None, True
        else:
            self._swept_to = page[-1].owner
            self._backlog.read_again(page[-1].owner, after=page[-1])
        self._is_sweeping = not self._has_swept

    async def _read_page(self, owner: Owner, after: TaskKey | None) -> None:
        """Read another page of an owner's outbox. Webhooks that find no room in memory are read again later."""
        page = await self._page(after, owner)
        for key in await self._claim(page):
            await self._queue_outdated(key)
        self._backlog.note_read(owner, after=page[-1] if len(page) == LOADED_AT_ONCE else None)

    async def _page(self, after: TaskKey | Owner | None, owner: Owner | None = None) -> Sequence[TaskKey]:
        """The next tasks in the outbox of this worker and of dead ones."""
        worker, live = self.worker, await self._live()
        return await self._store.outbox.undelivered(
            holder=worker, live=live, after=after, owner=owner, limit=LOADED_AT_ONCE
        )

    async def _claim(self, keys: Sequence[TaskKey]) -> Sequence[TaskKey]:
        """Put tasks into the outbox of this worker, and return those that no other live worker has."""
        return await self._store.outbox.claim(keys, holder=self.worker, live=await self._live()) if keys else ()

    async def _live(self) -> frozenset[str]:
        return await self._store.leases.live() | {self.worker}

    async def _queue_outdated(self, key: TaskKey) -> None:
        """Queue the webhooks of a task that are behind."""
        for webhook in await self._store.outbox.webhooks(key):
            if webhook.delivered_seq < webhook.last_seq:
                self._queue(webhook)

    def _queue(self, webhook: Webhook) -> None:
        """Queue a webhook that is behind, or note that there is more for it, unless it is paused."""
        pending, failure = self._backlog.find(webhook), webhook.failure
        if is_paused(failure, self._clock.now()):
            return
        if pending is not None:
            pending.has_more = True
            if not self._note_config(pending, webhook) and failure is None:
                self._schedule.end_pause(pending)  # it was registered again, or resumed
        elif (pending := self._backlog.hold(webhook)) is not None:
            wait = self._seconds_until(failure)
            if wait > 0:  # another worker has tried, or this one before a restart
                self._schedule.pause(pending, self._clock.monotonic() + wait)
            else:
                self._schedule.add(pending)

    def _seconds_until(self, failure: DeliveryFailure | None) -> float:
        """The seconds until the next attempt after a failure."""
        if failure is None or failure.next_at is None:
            return 0.0
        return min((failure.next_at - self._clock.now()).total_seconds(), self._limits.longest_pause)

    def _note_config(self, pending: PendingWebhook, webhook: Webhook) -> bool:
        """Call a webhook anew if its config was replaced. Return True if it was."""
        digest = digest_of(webhook.config)
        if pending.digest == digest:
            return False
        pending.digest = digest
        pending.config_replaced = True
        self._schedule.change_host(pending, host_of(webhook.config.url))
        return True

    # --- turns --------------------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Begin as many turns as are allowed at once, and look again when a pause ends."""
        while self._is_running and (turn := self._schedule.take(self._clock.monotonic())) is not None:
            task = asyncio.create_task(self._run_turn(turn))
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

    async def _run_turn(self, turn: DeliveryTurn) -> None:
        """Send a webhook what it did not get yet; then queue it again, let it pause, or release it."""
        pending = turn.pending
        try:
            pause = await self._deliver_page(turn)
        except StoreError as error:
            text = "Task %s, webhook %r: not delivered now: %s"
            logger.warning(text, pending.key.task_id, pending.config_id, error, extra=pending.log_fields)
            pause = STORE_PAUSE
        except Exception:
            text = "Task %s, webhook %r: given up for now"
            logger.exception(text, pending.key.task_id, pending.config_id, extra=pending.log_fields)
            pause = None
        now = self._clock.monotonic()
        self._schedule.end(turn, now)
        if pause is None and not pending.has_more:
            self._backlog.release(pending)
            self._read_more()
        elif pause:
            self._schedule.pause(pending, now + pause)
        else:
            self._schedule.add(pending)
        self._dispatch()

    async def _deliver_page(self, turn: DeliveryTurn) -> float | None:
        """Send a webhook the next page of events. Return the seconds until its next turn, None if up to date."""
        pending = turn.pending
        key, config_id = pending.key, pending.config_id
        pending.has_more = pending.config_replaced = False
        if self._store.is_shared and not await self._claim([key]):  # the lease may have expired
            return None
        webhooks = await self._store.outbox.webhooks(key)
        webhook = next((webhook for webhook in webhooks if (webhook.config.id or "") == config_id), None)
        if webhook is None:
            return None
        if self._note_config(pending, webhook):
            return 0.0  # the host may have changed: it is scheduled again
        failure = webhook.failure
        if is_paused(failure, self._clock.now()):
            return None
        if turn.is_expired:
            return await self._outcomes.host_unanswered(webhook, turn.route.host, turn.route.failures)
        seq = max(webhook.delivered_seq, pending.unmarked_seq)
        marked = webhook.delivered_seq
        events = await self._store.tasks.events(key, after=seq, limit=self._limits.turn_events)
        for seq, event in events:
            if not self._is_running:
                return 0.0
            notification = await notification_of(self._store, webhook, seq, event)
            if notification is None:
                continue
            if self._must_yield(turn):
                return 0.0
            error, seconds = await self._send(turn, webhook, notification)
            # The failure does not count if the webhook was registered again or resumed during the call.
            if error is not None and (pending.config_replaced or await self._was_resumed(pending, failure)):
                self._outcomes.observe(notification, "retried", seconds)
                return 0.0
            if error is not None and not isinstance(error, DeliveryRefusedError):
                attempt = FailedAttempt(webhook, notification, str(error), seconds, failure, marked)
                return await self._outcomes.failed(attempt, retry_after=error.retry_after, jitter=self._jitter())
            self._outcomes.observe(notification, "delivered" if error is None else "failed", seconds)
            letter = None if error is None else self._outcomes.refused(notification, failure, str(error))
            pending.unmarked_seq = seq if letter is None else 0
            if not await self._mark(pending, seq, begun_after=marked, dead_letter=letter):
                return None
            self._outcomes.note_end(notification, failure, letter)
            marked, pending.unmarked_seq, failure = seq, 0, None
        if seq > marked:
            await self._mark(pending, seq, begun_after=marked)
        return 0.0 if len(events) == self._limits.turn_events else None

    async def _was_resumed(self, pending: PendingWebhook, before: DeliveryFailure | None) -> bool:
        """Whether a webhook that was failing before a call was resumed during it, or registered again."""
        if before is None:
            return False
        webhooks = await self._store.outbox.webhooks(pending.key)
        return any((each.config.id or "") == pending.config_id and each.failure is None for each in webhooks)

    async def _mark(
        self, pending: PendingWebhook, seq: int, *, begun_after: int, dead_letter: DeadLetter | None = None
    ) -> bool:
        """Note that events were delivered, or are given up; False if the webhook is gone, not ours, or rewound."""
        is_marked = await self._store.outbox.mark_delivered(
            pending.key, pending.config_id, seq, holder=self.worker, begun_after=begun_after, dead_letter=dead_letter
        )
        if not is_marked:
            pending.unmarked_seq = 0
        return is_marked

    def _must_yield(self, turn: DeliveryTurn) -> bool:
        """True if the schedule must decide again: time is up, the probe was answered, or the config changed."""
        if turn.outcome is HostOutcome.NOT_CALLED:
            return False
        is_long = self._clock.monotonic() - turn.begun >= self._limits.turn_seconds
        return is_long or turn.is_probe or turn.pending.config_replaced

    async def _send(
        self, turn: DeliveryTurn, webhook: Webhook, notification: Notification
    ) -> tuple[DeliveryError | None, float]:
        """Send one notification. Return why it was not accepted, if it was not, and how long the call took."""
        pending, begun, failure = turn.pending, perf_counter(), None
        if webhook.problem:  # the key may come back, and until then a call would lack its authentication
            text = "Task %s, webhook %r: %s"
            logger.error(text, pending.key.task_id, pending.config_id, webhook.problem, extra=pending.log_fields)
            return DeliveryError("The server cannot read its secrets"), 0.0
        try:
            await self._sender.send(notification)
        except DeliveryError as error:
            failure = error
        except Exception:
            logger.exception("Task %s: the sender failed", pending.key.task_id, extra=pending.log_fields)
            failure = DeliveryError("The sender failed")
        turn.outcome = HostOutcome.UNANSWERED if isinstance(failure, NoAnswerError) else HostOutcome.ANSWERED
        return failure, perf_counter() - begun
