"""The channel `check`: the progress of a check, and then its report."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from parley.console.checks.checks import Checks
from parley.console.checks.owner import check_owner
from parley.console.streams.channel import ChannelCall


class CheckParameters(Struct, frozen=True):
    """Which check is followed."""

    check: str


async def open_check(call: ChannelCall) -> AsyncGenerator[object]:
    """The frames of a check of this session."""
    wanted = call.read(CheckParameters)
    frames = call.console.shared(Checks).follow(check_owner(call.session, call.caller), wanted.check)
    async with aclosing(frames):
        async for frame in frames:
            yield frame
