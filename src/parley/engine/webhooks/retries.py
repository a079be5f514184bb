"""What follows when a webhook did not accept an event: another attempt, a pause until it is resumed, or giving up.

An event is sent again with increasing pauses, for as long and as often as the limits allow. Then the webhook is paused:
it is not called, and its events wait for it. It is resumed on request, by registering it again, or after a long time
with one attempt; if that fails, too, the events that wait become a dead letter. An event that the webhook will never
accept becomes one at once.

Nothing here waits, reads a clock or writes: the caller passes moments.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from parley.engine.webhooks.delivery_limits import DeliveryLimits
from parley.protocol.push_deliveries import DeliveryStatus
from parley.stores.interface import DeliveryFailure, Webhook
from parley.stores.interface.delivery_state import MAX_ERROR_TEXT


def failure_after(
    before: DeliveryFailure | None, seq: int, text: str, *, now: datetime, pause: float, limits: DeliveryLimits
) -> DeliveryFailure | None:
    """The failure of a webhook that did not accept an event now; None if its events are to be given up.

    `before` is its failure before this attempt. The next attempt follows after `pause` seconds, or the webhook is
    paused.
    """
    attempts, first_at = (1, now) if before is None else (before.attempts + 1, before.first_at)
    if before is not None and before.paused_since is not None:
        return None  # the one attempt after a long pause
    if attempts < limits.attempts and (now - first_at).total_seconds() < limits.retry_for:
        return DeliveryFailure(seq, attempts, text[:MAX_ERROR_TEXT], first_at, now, now + timedelta(seconds=pause))
    return paused_failure(DeliveryFailure(seq, attempts, text[:MAX_ERROR_TEXT], first_at, now), now, limits)


def unanswered_failure(
    before: DeliveryFailure | None, seq: int, text: str, *, now: datetime, limits: DeliveryLimits
) -> DeliveryFailure | None:
    """The failure of a webhook whose host answered no call while it waited; None if its events are to be given up."""
    first_at, attempts = (now, 0) if before is None else (before.first_at, before.attempts)
    return paused_failure(DeliveryFailure(seq, attempts, text[:MAX_ERROR_TEXT], first_at, now), now, limits)


def paused_failure(failure: DeliveryFailure, now: datetime, limits: DeliveryLimits) -> DeliveryFailure | None:
    """The failure of a webhook that is paused from now on; None if the limits allow no pause."""
    if not limits.paused_for:
        return None
    seq, attempts, text, first_at = failure.seq, failure.attempts, failure.text, failure.first_at
    resumes_at = now + timedelta(seconds=limits.paused_for)
    return DeliveryFailure(seq, attempts, text, first_at, failure.at, resumes_at, now)


def is_paused(failure: DeliveryFailure | None, now: datetime) -> bool:
    """Whether a webhook must not be called now, although it is behind."""
    if failure is None or failure.paused_since is None:
        return False
    return failure.next_at is None or failure.next_at > now


def status_of(webhook: Webhook) -> DeliveryStatus:
    """How the deliveries to a webhook go: `given_up` if its latest event became a dead letter."""
    if webhook.failure is not None:
        return "failing" if webhook.failure.paused_since is None else "paused"
    if webhook.delivered_seq < webhook.last_seq:
        return "waiting"
    letters = webhook.dead_letters
    return "given_up" if letters and letters[-1].last_seq >= webhook.delivered_seq else "up_to_date"
