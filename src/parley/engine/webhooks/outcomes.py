"""What becomes of an attempt to deliver an event: it is noted in the store, logged, counted and audited.

`retries` decides; this module acts on it. The text of an error holds no secret of the config, as `Sender` demands. The
URL may hold one, so logs name its host only.
"""

from __future__ import annotations

import logging

from msgspec import Struct

from parley.engine.clock import Clock
from parley.engine.observer import DeliveryOutcome, Observer, WebhookChange
from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.engine.webhooks.notifications import Notification
from parley.engine.webhooks.retries import failure_after, unanswered_failure
from parley.network.urls import host_of
from parley.stores.interface import DeadLetter, DeliveryFailure, Store, Webhook
from parley.stores.interface.delivery_state import MAX_ERROR_TEXT

logger = logging.getLogger(__name__)


class FailedAttempt(Struct, frozen=True):
    """An attempt that failed, and may succeed later."""

    webhook: Webhook
    notification: Notification
    error: str
    seconds: float
    """How long the call took."""
    before: DeliveryFailure | None
    """The webhook's failure before this attempt."""
    begun_after: int
    """What was delivered before it."""

    @property
    def number(self) -> int:
        """Which attempt for its event it is, from 1."""
        return 1 if self.before is None else self.before.attempts + 1


class DeliveryOutcomes:
    """Notes the outcomes of one worker's deliveries."""

    def __init__(
        self, store: Store, worker: str, clock: Clock, limits: DeliveryLimits, observer: Observer | None
    ) -> None:
        self._store = store
        self._worker = worker
        self._clock = clock
        self._limits = limits
        self._observer = observer

    async def failed(self, attempt: FailedAttempt, *, retry_after: float, jitter: float) -> float | None:
        """Note a failed attempt. Return the seconds until the next one; None if it was the last."""
        limits, notification = self._limits, attempt.notification
        pause = max(limits.retry_pause(attempt.number, jitter), min(retry_after, limits.longest_pause))
        now, fields = self._clock.now(), _log_fields(attempt.webhook)
        failure = failure_after(attempt.before, notification.seq, attempt.error, now=now, pause=pause, limits=limits)
        if failure is not None and failure.paused_since is None:
            self.observe(notification, "retried", attempt.seconds)
            logger.info("%s: attempt %d: %s", _name(notification), attempt.number, attempt.error, extra=fields)
            return pause if await self._note_failure(attempt.webhook, failure, attempt.begun_after) else None
        self.observe(notification, "failed", attempt.seconds)
        text = "%s: attempt %d, the last one: %s"
        logger.error(text, _name(notification), attempt.number, attempt.error, extra=fields)
        letter = DeadLetter(
            notification.seq, attempt.webhook.last_seq, attempt.error[:MAX_ERROR_TEXT], now, attempt.number
        )
        await self._pause_or_give_up(attempt.webhook, failure, letter, attempt.begun_after)
        return None

    async def host_unanswered(self, webhook: Webhook, host: str, failures: int) -> None:
        """Pause a webhook, or give its events up, because its host has answered none of the owner's calls."""
        reason, now, before = f"{host} gave no answer to {failures} calls", self._clock.now(), webhook.failure
        seq, fields = webhook.delivered_seq + 1, _log_fields(webhook)
        failure = unanswered_failure(before, seq, reason, now=now, limits=self._limits)
        logger.error("Task %s, webhook %r: %s", webhook.key.task_id, webhook.config.id, reason, extra=fields)
        letter = DeadLetter(seq, webhook.last_seq, reason, now, 0 if before is None else before.attempts)
        await self._pause_or_give_up(webhook, failure, letter, webhook.delivered_seq)

    def refused(self, notification: Notification, before: DeliveryFailure | None, error: str) -> DeadLetter:
        """The dead letter of an event that a webhook will never accept."""
        attempts = 1 if before is None else before.attempts + 1
        fields = {"task": notification.key.task_id, "webhook": notification.config.id or ""}
        logger.error("%s: given up after attempt %d: %s", _name(notification), attempts, error, extra=fields)
        return DeadLetter(notification.seq, notification.seq, error[:MAX_ERROR_TEXT], self._clock.now(), attempts)

    def note_end(self, notification: Notification, before: DeliveryFailure | None, letter: DeadLetter | None) -> None:
        """Report that an event is over: given up, or the first one that was accepted after a pause."""
        if letter is not None:
            self._note_change(notification, "given-up", events=1)
        elif before is not None and before.paused_since is not None:
            self._note_change(notification, "resumed")

    def observe(self, notification: Notification, outcome: DeliveryOutcome, seconds: float) -> None:
        """Report a call."""
        if self._observer is not None:
            config_id = notification.config.id or ""
            self._observer.delivered(notification.key, notification.agent, config_id, outcome, seconds)

    async def _pause_or_give_up(
        self, webhook: Webhook, failure: DeliveryFailure | None, letter: DeadLetter, begun_after: int
    ) -> None:
        """Pause a webhook; or, without a failure to note, give its events up."""
        key, config_id, fields = webhook.key, webhook.config.id or "", _log_fields(webhook)
        if failure is not None:
            if await self._note_failure(webhook, failure, begun_after):
                text = "Task %s, webhook %r: paused; its events wait until it is resumed"
                logger.error(text, key.task_id, config_id, extra=fields)
                self._note_change(webhook, "paused")
            return
        is_marked = await self._store.outbox.mark_delivered(
            key, config_id, letter.last_seq, holder=self._worker, begun_after=begun_after, dead_letter=letter
        )
        if is_marked:
            text = "Task %s, webhook %r: events %d to %d are given up"
            logger.error(text, key.task_id, config_id, letter.first_seq, letter.last_seq, extra=fields)
            self._note_change(webhook, "given-up", events=letter.last_seq - letter.first_seq + 1)

    async def _note_failure(self, webhook: Webhook, failure: DeliveryFailure, begun_after: int) -> bool:
        outbox, names = self._store.outbox, (webhook.key, webhook.config.id or "")
        return await outbox.note_failure(*names, failure, holder=self._worker, begun_after=begun_after)

    def _note_change(self, of: Webhook | Notification, change: WebhookChange, *, events: int = 0) -> None:
        if self._observer is not None:
            self._observer.webhook_changed(of.key, of.agent, of.config.id or "", change, events=events)


def _log_fields(webhook: Webhook) -> dict[str, str]:
    return {"task": webhook.key.task_id, "webhook": webhook.config.id or ""}


def _name(notification: Notification) -> str:
    """A notification as the log names it: the URL may hold secrets, its host does not."""
    host = host_of(notification.config.url)
    return f"Task {notification.key.task_id}, event {notification.seq}, webhook {notification.config.id!r} at {host}"
