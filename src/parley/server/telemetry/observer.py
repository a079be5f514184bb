"""What a server reports to an observer. `Telemetry` implements it; a server without an observer has no overhead."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from parley.engine.caller import Caller
from parley.engine.observer import Observer
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError
from parley.protocol.operations import Operation
from parley.protocol.versions import Version
from parley.server.security.credentials import Identity


@dataclass(slots=True)
class Call:
    """One decoded request: its operation, dialect, binding and caller, and what becomes known while it is processed."""

    agent: str
    operation: Operation
    version: Version
    binding: Binding
    headers: Mapping[str, str]
    """HTTP headers or gRPC metadata, with lower-case names."""
    identity: Identity
    address: str = ""
    base_url: str = ""
    """The agent's URL as this caller sees it."""
    caller: Caller | None = None
    after: int | None = None
    """The number of the last event that the caller of a stream has received, from `Last-Event-ID`."""
    extensions: tuple[str, ...] = ()
    """The active extensions, which the reply names."""
    task_id: str | None = None
    context_id: str | None = None


class ServerObserver(Observer, Protocol):
    """Observes the server and its engines. Every method is synchronous and fast."""

    def call(self, call: Call) -> AbstractContextManager[None]:
        """A context around a call; an error that passes through it is the outcome of the call."""
        ...

    def refused(self, agent: str, binding: Binding, error: A2AError) -> None:
        """A request was refused before it became a call: invalid, unknown or unauthenticated."""
        ...

    def stream(self, call: Call) -> AbstractContextManager[None]:
        """A context around a stream."""
        ...
