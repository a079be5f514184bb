"""One call, as the server handles it and as it is reported to telemetry and logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parley.engine.caller import Caller
from parley.protocol.cards import Binding
from parley.protocol.operations import Operation
from parley.protocol.versions import Version
from parley.server.security.credentials import Identity


@dataclass(slots=True, eq=False, weakref_slot=True)
class Call:
    """One decoded request: its operation, dialect, binding and caller, and what becomes known while it is processed.

    Two calls are never equal, so that observers can remember something about each for as long as it lives.
    """

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
