"""The channel `wire`: lines of the wire as they come."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from parley.console.streams.channel import ChannelCall
from parley.console.wire.wire import Wire, WireFilter


async def open_wire(call: ChannelCall) -> AsyncGenerator[object]:
    """What the caller may see of the wire, as far as it passes the filter."""
    call.backend.require(call.caller, "read")
    wire = call.console.shared(Wire)
    frames = wire.frames(call.caller, call.session.id, call.read(WireFilter))
    async with aclosing(frames):
        async for frame in frames:
            yield frame
