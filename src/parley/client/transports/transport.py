"""The seam between the client and its bindings: one call, or one stream of events.

A transport encodes a request in its dialect, sends it, and decodes what comes back, once; it retries and resumes
nothing. What an agent reports is raised as an `A2AError`, what is no A2A as a `PeerProtocolError`, and what happens to
the connection as an `UnreachableError`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
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
    """What goes along with a request: headers (gRPC: metadata), query parameters, and how long to wait."""

    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    query: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    timeout: float = 600.0
    quiet: float = 90.0
    after: str | None = None
    """The cursor of the last event that was received; a stream goes on after it."""


class ReceivedEvent(Struct, frozen=True, gc=False):
    """An event of a stream, and the cursor from which its reader can come back, if the agent gives one."""

    event: StreamEvent
    cursor: str | None = None
    size: int = 0
    """How many bytes of the stream it was."""


class Transport(Protocol):
    """A way to one interface of an agent."""

    @property
    def interface(self) -> AgentInterface:
        """Where the agent is, and what is spoken there."""
        ...

    @property
    def version(self) -> Version:
        """The dialect that is spoken."""
        ...

    async def call(self, operation: Operation, request: Request, options: CallOptions) -> Result:
        """Ask once and give the answer.

        Raises:
            A2AError: the agent refuses.
            PeerProtocolError: the answer is no A2A.
            UnreachableError: there is none.
            UnsupportedOperationError: the dialect has no such operation.
        """
        ...

    def stream(self, operation: Operation, request: Request, options: CallOptions) -> AsyncGenerator[ReceivedEvent]:
        """Ask once and give the events that come of it, until the agent closes. Raises as `call` does."""
        ...

    async def close(self) -> None:
        """Close the connections."""
        ...
