"""Runs a host in processes that a test kills: one process imports everything, and forks for each life of the host.

Each line of its input is a JSON object that says how the host runs (`Life` below). Its output are lines of JSON:
`{"started": pid}`, `{"ready": pid, "token": …}` when a child serves, with the token of the tenant that the first life
has created, and `{"ended": pid}`. A child with `kill_after` kills itself with SIGKILL right after so many writes are
durable, to the log of a task or of records, before anything learns of the last one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, Literal

import msgspec

from parley.cluster.urls import open_hints
from parley.engine.limits import Limits
from parley.engine.runs.journal import Journal
from parley.host.api.native_events import NativeEvents
from parley.host.host import AppOptions, Host, HostSettings
from parley.host.models import providers as _providers  # imported here, once for all children
from parley.host.models.endpoints import OpenAiCompatible
from parley.host.models.registry import ModelRegistrySettings
from parley.protocol.events import ArtifactRewound, StepRecorded, TaskEvent
from parley.server import run
from parley.stores.interface import Records, TaskLog
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import is_postgres, open_store
from tests.crashes.forking_server import report_ends
from tests.host.running_host import ADMIN_TOKEN

assert _providers

Defect = Literal["", "forgets model calls", "hides rewinds"]


class Life(msgspec.Struct):
    """One life of the host: where its data are, how it is reached, and where its models are."""

    store: str
    """A file of SQLite, or the URL of a PostgreSQL database, which other hosts may use at the same time."""
    port: int
    model_url: str
    defect: Defect = ""
    """What is broken, to see that a test notices."""
    kill_after: int | None = None
    lease_seconds: float = 10.0


class KillingWrites:
    """The tasks or the records of a store whose process dies right after a write. `left` is shared by both."""

    def __init__(self, kept: TaskLog | Records, left: list[int]) -> None:
        self._kept = kept
        self._left = left

    def write(self, *writes: Any) -> asyncio.Future[None]:
        writing = asyncio.ensure_future(self._kept.write(*writes))
        if self._left:
            self._left[0] -= 1
            if self._left[0] == 0:
                writing.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        return writing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kept, name)


def serve(life: Life) -> None:
    """Serve until the process is killed."""
    break_something(life.defect)
    models = ModelRegistrySettings(
        default_model="test/gpt", openai_compatible=(OpenAiCompatible("test", life.model_url),)
    )
    is_shared = is_postgres(life.store)
    store, left = open_store(life.store) if is_shared else SqliteStore(Path(life.store)), list[int]()
    store.tasks = KillingWrites(store.tasks, left)  # pyright: ignore
    store.records = KillingWrites(store.records, left)  # pyright: ignore
    options: AppOptions = {"engine_limits": Limits(lease_seconds=life.lease_seconds)}
    options["hints"] = open_hints(None, life.store)
    host = Host(HostSettings(admin_token=ADMIN_TOKEN, models=models), store=store, **options)
    loop_tasks: set[asyncio.Task[None]] = set()

    async def announce() -> None:
        token = "" if host.tenants.list() else (await host.create_tenant("acme", with_starters=False))[1]
        left[:] = (
            [life.kill_after] if life.kill_after is not None else []
        )  # from here on: a host writes while it starts
        say(ready=os.getpid(), token=token)

    def begin(_: run.Bound) -> None:
        loop_tasks.add(asyncio.get_running_loop().create_task(announce()))

    run.run(run.serve(host.app, run.Serving(port=life.port), on_ready=begin))


def break_something(defect: Defect) -> None:
    if defect == "forgets model calls":
        record = Journal._record  # pyright: ignore[reportPrivateUsage]

        def forgetful(self: Journal, event: TaskEvent) -> None:
            if not (isinstance(event, StepRecorded) and event.kind == "stream"):
                record(self, event)

        Journal._record = forgetful  # pyright: ignore[reportPrivateUsage]
    elif defect == "hides rewinds":
        read = NativeEvents.read

        def hiding(self: NativeEvents, event: TaskEvent, **options: Any) -> Any:
            return [] if isinstance(event, ArtifactRewound) else read(self, event, **options)

        NativeEvents.read = hiding


def say(**values: int | str) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


def main() -> None:
    signal.signal(signal.SIGCHLD, report_ends)
    for line in sys.stdin:
        life = msgspec.json.decode(line, type=Life)
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve(life)
            os._exit(0)
        say(started=child)


if __name__ == "__main__":
    main()
