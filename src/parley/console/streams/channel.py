"""A channel on the stream of a page: an async generator function, which `streams/table.py` names as a kind.

    async def open_check(call: ChannelCall) -> AsyncGenerator[object]:
        async for progress in call.console.shared(Checks).follow(call.read(CheckParameters)):
            yield {"progress": progress}

What it yields is the `data` of a frame: anything that msgspec writes as JSON. The next item is asked for when the page
has room for it, so a generator produces items on demand, or bounds what it keeps. When the page closes the channel or
vanishes, the generator is cancelled where it waits: release everything in `finally`. Errors are raised, as ConsoleError
or A2AError; after a temporary one (`unavailable`, `rate_limited`) the page opens the channel again with its cursor.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from parley.console.api.route import read_value
from parley.console.backend import ConsoleBackend, ConsoleCaller
from parley.console.sessions import Session
from parley.protocol.jsonvalue import JsonValue
from parley.server.bindings.http import AsgiRequest

if TYPE_CHECKING:
    from parley.console.console import Console

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ChannelCall:
    """A page's request to open a channel. The caller may see what the channel gives; that is checked again while it is
    open, and the channel is cancelled when the session has ended or its credentials are refused."""

    console: Console
    session: Session
    caller: ConsoleCaller
    parameters: Mapping[str, JsonValue]
    """The members of the body of `open`, without `channel` and `kind`."""
    request: AsgiRequest
    """The request for the page's stream: its `base_url` is the server's URL as the page sees it."""

    @property
    def address(self) -> str:
        """The IP address of the browser."""
        return self.request.address

    @property
    def origin(self) -> str:
        """The server's URL as the page sees it, without a trailing slash."""
        return self.request.base_url

    @property
    def backend(self) -> ConsoleBackend:
        """What differs between servers."""
        return self.console.backend

    def read(self, parameter_type: type[T]) -> T:
        """The parameters as a struct. Raises ConsoleError with the JSON path if they are not valid."""
        return read_value(parameter_type, dict(self.parameters))


class ChannelOpener(Protocol):
    """A kind of channel. Nothing happens before the first item is asked for."""

    def __call__(self, call: ChannelCall, /) -> AsyncGenerator[object]:
        """The data of the channel's frames, in order."""
        ...
