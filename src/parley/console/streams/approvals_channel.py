"""The channel `approvals`: how many approvals wait for a decision, on hosts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from parley.console.streams.channel import ChannelCall

LOOK_SECONDS = 2.0
"""How often the number is looked up. Other processes may change it, and to count is one small query."""


async def open_approvals(call: ChannelCall) -> AsyncGenerator[object]:
    """The number, and again when it has changed."""
    shown: int | None = None
    while True:
        waiting = await call.backend.waiting_approvals(call.caller)
        if waiting != shown:
            shown = waiting
            yield {"waiting": waiting}
        await asyncio.sleep(LOOK_SECONDS)
