"""The stream of a page: to begin it, and to open and close channels on it."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from parley.console.api.route import ConsoleAnswer, ConsoleCall, ConsoleRoute, read_value
from parley.protocol.jsonvalue import JsonObject

ChannelName = Annotated[str, Meta(min_length=1, max_length=64)]


class OpenBody(Struct, frozen=True):
    """The channel to open; the other members are its parameters."""

    channel: ChannelName
    kind: Annotated[str, Meta(min_length=1, max_length=64)]


class CloseBody(Struct, frozen=True):
    """The channel to close."""

    channel: ChannelName


async def stream(call: ConsoleCall) -> None:
    """Send the stream of a new page until the page goes."""
    await call.console.pages.run(call.request, call.session, call.caller)


async def open_channel(call: ConsoleCall) -> ConsoleAnswer:
    """Open a channel. What is wrong with its parameters comes as a frame."""
    members = await call.read(JsonObject)
    body = read_value(OpenBody, members)
    parameters = {name: value for name, value in members.items() if name not in ("channel", "kind")}
    await call.console.pages.open(call.path["page"], body.channel, body.kind, parameters, call.session, call.caller)
    return ConsoleAnswer({})


async def close_channel(call: ConsoleCall) -> ConsoleAnswer:
    """Close a channel, if it is open."""
    body = await call.read(CloseBody)
    await call.console.pages.close(call.path["page"], body.channel, call.session, call.caller)
    return ConsoleAnswer({})


ROUTES = [
    ConsoleRoute("GET", "/stream", stream, streams=True),
    ConsoleRoute("POST", "/stream/{page}/open", open_channel),
    ConsoleRoute("POST", "/stream/{page}/close", close_channel),
]
