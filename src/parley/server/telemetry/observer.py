"""What the server tells whoever watches it: telemetry implements this, and costs nothing where nobody does."""

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
    """One request that was understood: what is asked, how, by whom, and what becomes known of it on the way."""

    agent: str
    operation: Operation
    version: Version
    binding: Binding
    headers: Mapping[str, str]
    """Lower-case names; gRPC's metadata stands here too."""
    identity: Identity
    address: str = ""
    base_url: str = ""
    """Where the agent is, as this caller sees it."""
    caller: Caller | None = None
    after: int | None = None
    """The number of the last event that the caller of a stream has got, if it says so."""
    extensions: tuple[str, ...] = ()
    """The extensions that are active, for the reply to say so."""
    task_id: str | None = None
    context_id: str | None = None


class ServerObserver(Observer, Protocol):
    """Whoever watches the server and its engines. Every method is synchronous and quick."""

    def call(self, call: Call) -> AbstractContextManager[None]:
        """Something that is open around a request; an error that passes through it is the request's outcome."""
        ...

    def refused(self, agent: str, binding: Binding, error: A2AError) -> None:
        """A request never became a call: unreadable, unknown, or from nobody we know."""
        ...

    def stream(self, call: Call) -> AbstractContextManager[None]:
        """Something that is open for as long as a stream lives."""
        ...
