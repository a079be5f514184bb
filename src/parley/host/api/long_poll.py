"""Waiting for the end of a request, for callers that poll."""

from __future__ import annotations

import asyncio
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from parley.host.origin import host_caller
from parley.protocol.events import StatusUpdate
from parley.protocol.lifecycle import ends_stream

if TYPE_CHECKING:
    from parley.host.host import Host

MOST_WAIT = 60
"""Seconds. Proxies and clients give up on a reply that takes longer."""


async def wait_for_end(host: Host, tenant_id: str, request_id: str, seconds: int) -> None:
    """Return when a request has ended or asks a question, when there is none, or after some seconds."""
    head = await host.views.head(tenant_id, request_id) if seconds else None
    if head is None or ends_stream(head.state):
        return
    agent = host.engine.agent(head.agent)
    with suppress(TimeoutError):
        async with (
            asyncio.timeout(seconds),
            aclosing(agent.follow_log(request_id, host_caller(tenant_id), after=head.last_seq)) as events,
        ):
            async for batch in events:
                if any(isinstance(event, StatusUpdate) and ends_stream(event.status.state) for _, event in batch):
                    return
                batch.clear()
