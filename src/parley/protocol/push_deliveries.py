"""How the deliveries to a webhook look in JSON, for the API beside A2A and for its client.

The URL comes without what may be secret in it, and a config's token and credentials do not come at all.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

DELIVERIES_PATH = "/push/deliveries"
"""Below the URL of an agent's HTTP+JSON interface, after the tenant if there is one in the URL."""

DeliveryStatus: TypeAlias = Literal["up_to_date", "waiting", "failing", "paused", "given_up"]
"""`given_up`: its latest event became a dead letter."""


class DeadLetterView(Struct, frozen=True, rename="camel"):
    """Events that were given up, from a number to a number."""

    first_event: int
    last_event: int
    reason: str
    at: datetime
    attempts: int


class DeliveryView(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A webhook, and how the deliveries to it go."""

    task_id: str
    config_id: str
    url: str
    status: DeliveryStatus
    delivered: int
    """The number of the last event that was delivered, or given up."""
    last: int
    """The number of the task's last event."""
    attempts: int = 0
    """How often the next event was sent."""
    last_error: str | None = None
    first_failed_at: datetime | None = None
    last_failed_at: datetime | None = None
    next_attempt_at: datetime | None = None
    paused_since: datetime | None = None
    dead_letters: tuple[DeadLetterView, ...] = ()


class DeliveryList(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One page of webhooks."""

    deliveries: tuple[DeliveryView, ...]
    next_page_token: str | None = None


class RedeliverRequest(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Send the events after a number again; without one, from the first dead letter on."""

    after: int | None = None
