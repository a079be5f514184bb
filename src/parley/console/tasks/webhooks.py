"""The webhooks of a task, how far their deliveries are, and sending them events again.

Secrets are not shown. What went wrong is in the store, whichever worker calls a webhook.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct, structs

from parley.console.api.errors import ConsoleError
from parley.console.tasks.access import TaskAccess
from parley.console.tasks.moments import show_moment
from parley.engine.webhooks.retries import status_of
from parley.network.urls import without_secrets
from parley.protocol.push_deliveries import DeliveryStatus
from parley.stores.interface import TaskHead, Webhook


class WebhookView(Struct, frozen=True):
    """A webhook, as the page gets it."""

    id: str
    url: str
    version: str
    has_token: bool
    authentication: str | None
    delivered: int
    last: int
    state: DeliveryStatus
    dead_letters: int
    """Events that were given up and not sent since."""
    next_attempt_at: str | None
    failures: int = 0
    last_error: str | None = None
    last_attempt_at: str | None = None
    paused_since: str | None = None


async def list_webhooks(access: TaskAccess, head: TaskHead) -> list[WebhookView]:
    """The webhooks of a task, by id."""
    webhooks = access.engine.webhooks
    return [_view(each, webhooks.next_attempt_at(each)) for each in await access.engine.store.outbox.webhooks(head.key)]


async def send_again(access: TaskAccess, head: TaskHead, webhook_id: str, after: int | None) -> None:
    """Send a webhook the events after a number again; without one, those that were not delivered, now.

    Raises:
        ConsoleError: there is no such webhook, or the task has no such event.
    """
    if after is not None and not 0 <= after <= head.last_seq:
        raise ConsoleError("bad_request", f"The task has {head.last_seq} events", path="$.after")
    if not await access.engine.webhooks.send_again(head.key, webhook_id, after=after):
        raise ConsoleError("not_found", "The task has no such webhook")


def _view(webhook: Webhook, next_attempt_at: datetime | None) -> WebhookView:
    config, failure = webhook.config, webhook.failure
    authentication, status = config.authentication, status_of(webhook)
    view = WebhookView(
        id=config.id or "",
        url=without_secrets(config.url),
        version=webhook.version.value,
        has_token=bool(config.token),
        authentication=None if authentication is None else ", ".join(authentication.schemes),
        delivered=webhook.delivered_seq,
        last=webhook.last_seq,
        state=status,
        dead_letters=sum(letter.last_seq - letter.first_seq + 1 for letter in webhook.dead_letters),
        next_attempt_at=show_moment(next_attempt_at),
    )
    if failure is not None:
        at, since = show_moment(failure.at), show_moment(failure.paused_since)
        failed = structs.replace(view, failures=failure.attempts, last_error=failure.text, last_attempt_at=at)
        return structs.replace(failed, paused_since=since)
    if status == "given_up":
        letter = webhook.dead_letters[-1]
        at = show_moment(letter.at)
        return structs.replace(view, failures=letter.attempts, last_error=letter.reason, last_attempt_at=at)
    return view
