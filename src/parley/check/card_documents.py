"""The document of a card that cannot be decoded, so that people see what is wrong with it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from parley.check.card_faults import intended_version, missing_members
from parley.client.discovery.discovery import card_urls
from parley.client.transports.connections import Connections
from parley.client.transports.transport import CallOptions
from parley.protocol.errors import ParleyError, PeerProtocolError
from parley.protocol.versions import Version


@dataclass(frozen=True, slots=True)
class FaultyDocument:
    """A JSON object that was meant to be a card."""

    url: str
    members: dict[str, Any]
    body: bytes

    @property
    def version(self) -> Version:
        """The version that it was written for."""
        return intended_version(self.members, self.body)

    def describe(self, error: PeerProtocolError) -> str:
        """The error with the URL of the card and all members that it lacks: a decoder stops at the first fault."""
        missing = ", ".join(missing_members(self.members, self.version))
        also = f"; it lacks {missing}" if missing else ""
        return f"The card at {self.url.partition('?')[0]} is not valid: {error}{also}"


async def find_faulty_document(target: str, connections: Connections) -> FaultyDocument | None:
    """The first JSON object at the URLs where the card of a target may be."""
    sent = CallOptions({"accept": "application/json"}, timeout=connections.timeouts.card)
    for url in card_urls(target):
        with suppress(ParleyError, ValueError):
            reply = await connections.channel.exchange("GET", url, b"", sent, limit=connections.bounds.card_bytes)
            value: Any = msgspec.json.decode(reply.body) if reply.status == 200 else None
            if isinstance(value, dict):
                return FaultyDocument(url, cast(dict[str, Any], value), reply.body)
    return None
