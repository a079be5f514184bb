"""HTTP to anywhere, for tests that are not about where it goes."""

from __future__ import annotations

from typing import Any

from parley.client.guard import Guard
from parley.client.transports.connections import Connections
from parley.client.transports.http import HttpChannel


def open_channel(**options: Any) -> HttpChannel:
    """A channel without a guard; `options` are those of connections."""
    return Connections(guard=Guard(allow_private=True), **options).channel
