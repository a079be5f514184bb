"""The interface of every binding: one call, or one stream of events.

A transport encodes a request in its dialect, sends it once, and decodes the answer; it does not retry or resume. What
an agent reports is raised as an `A2AError`, invalid A2A as a `PeerProtocolError`, and a broken connection as an
`UnreachableError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct

from parley.protocol.cards import AgentInterface
from parley.protocol.events import StreamEvent
from parley.protocol.operations import Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version


@dataclass(frozen=True, slots=True)
class CallOptions:
    """What accompanies a request: headers (gRPC: metadata), query parameters, and how long to wait."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    query: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 600.0
    quiet: float = 90.0
    after: str | None = None
    """The cursor of the last received event; a stream continues after it."""
    on_document: Callable[[bytes], None] | None = field(default=None, repr=False, compare=False)
    """Gets the JSON of the result as it arrived, which signatures of a card cover. gRPC has none."""


class ReceivedEvent(Struct, frozen=True, gc=False):
    """An event of a stream, and the cursor to resume after it, if the agent sends one."""

    event: StreamEvent
    cursor: str | None = None
    size: int = 0
    """Its bytes in the stream."""


class Transport(Protocol):
    """Calls one interface of an agent."""

    interface: AgentInterface
    """The interface that is called."""
    version: Version
    """The A2A version in use."""

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """Send a request once and return the answer.

        Raises:
            A2AError: the agent refuses.
            PeerProtocolError: the answer is not valid A2A.
            UnreachableError: there is no answer.
            UnsupportedOperationError: the dialect has no such operation.
        """
        ...

    def stream(self, operation: Operation, request: Request, options: CallOptions) -> AsyncGenerator[ReceivedEvent]:
        """Send a request once and yield the events of the answer. Raises as `call` does."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
