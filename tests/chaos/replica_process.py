"""One replica of the cluster: the chaos agent, served over HTTP on a shared store.

    python -m tests.chaos.replica_process SETTINGS

SETTINGS is JSON (`ReplicaSettings`). It prints its URL when it can be called. Its clock is wrong by `skew` seconds:
`time.time` and `time.time_ns` are replaced before Parley is imported. The monotonic clock stays right, as it does on a
machine whose clock is set.
"""

from __future__ import annotations

import logging
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from parley.stores.interface import Store


class ReplicaSettings(Struct, frozen=True, kw_only=True):
    """How a replica is started. Without `hints` it polls."""

    name: str
    store: str
    hints: str = ""
    port: int
    side_file: str
    lease_seconds: float = 2.0
    skew: float = 0.0


def set_clock(skew: float) -> None:
    """Let this process believe that it is some seconds later, or earlier."""
    right, right_ns = time.time, time.time_ns
    time.time = lambda: right() + skew
    time.time_ns = lambda: right_ns() + int(skew * 1e9)


def _shared_store(url: str) -> Store:
    from parley.stores.sqlite.store import SqliteStore
    from parley.stores.urls import open_store, sqlite_path

    return SqliteStore(sqlite_path(url), shared=True) if url.startswith("sqlite:") else open_store(url)


def main(settings: ReplicaSettings) -> None:
    """Serve until the process is told to stop, then drain."""
    if settings.skew:
        set_clock(settings.skew)
    # Only now: Parley's clock must be the one that was set.
    from parley.cluster.urls import open_hints
    from parley.engine.limits import Limits
    from parley.engine.webhooks.delivery_limits import DeliveryLimits
    from parley.server.app import App
    from parley.server.limits import ServerLimits
    from parley.server.run import Serving, run, serve
    from parley.server.webhooks.guard import WebhookPolicy
    from tests.chaos.agents import chaos_agent
    from tests.chaos.side_file import SideFile

    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s {settings.name} %(levelname)s %(name)s %(message)s")
    app = App(
        chaos_agent(SideFile(Path(settings.side_file))),
        store=_shared_store(settings.store),
        hints=open_hints(settings.hints or "none", settings.store),
        limits=ServerLimits(heartbeat_seconds=2.0),  # so that a client notices soon that a stream is dead
        engine_limits=Limits(lease_seconds=settings.lease_seconds),
        webhooks=WebhookPolicy(allow_private=True, use_proxy=False),
        delivery_limits=DeliveryLimits(first_pause=0.2, longest_pause=2.0, attempts=1_000),
        drain_seconds=2.0,
    )
    run(serve(app, Serving(port=settings.port), on_ready=lambda bound: print(bound.url, flush=True)))


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=ReplicaSettings))
