"""Serves agents in processes that kill themselves: one process imports everything, and forks for each life.

Each line of its input is a JSON object that says what to serve (`Life` below). Its output are lines of JSON:
`{"started": pid}`, `{"ready": pid}` when a child serves, and `{"ended": pid}`. A child with `kill_after` kills itself
with SIGKILL right after so many writes to the log are durable, before anything learns of the last one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from parley.engine.limits import Limits
from parley.server import run
from parley.server.app import App
from parley.server.bindings import grpc as _grpc  # imported here, once for all children
from parley.server.webhooks.guard import WebhookPolicy
from parley.stores.interface import TaskLog, Write
from parley.stores.sqlite.store import SqliteStore
from tests.crashes.agents import model_agent, relay_agent

assert _grpc


class Life(msgspec.Struct):
    """One life of a process: what it serves, and when it dies."""

    role: str
    folder: str
    port: int
    grpc_port: int
    kill_after: int | None = None
    delegate_url: str = ""


class KillingTasks:
    """The log of a store whose process dies right after a write."""

    def __init__(self, tasks: TaskLog) -> None:
        self._tasks = tasks
        self.writes_left: int | None = None

    def write(self, write: Write) -> asyncio.Future[None]:
        writing = asyncio.ensure_future(self._tasks.write(write))
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left == 0:
                writing.add_done_callback(lambda _: os.kill(os.getpid(), signal.SIGKILL))
        return writing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tasks, name)


def serve(life: Life) -> None:
    """Serve until the process is killed."""
    folder = Path(life.folder)
    agent = model_agent(folder) if life.role == "model" else relay_agent(folder, life.delegate_url)
    store = SqliteStore(folder / f"{life.role}.db")
    tasks = KillingTasks(store.tasks)
    store.tasks = tasks  # pyright: ignore
    app = App(
        agent,
        store=store,
        engine_limits=Limits(unwritten_events=1),  # the handler waits for each write: every event is a boundary
        webhooks=WebhookPolicy(allow_private=True),
    )

    def begin(_: run.Bound) -> None:
        tasks.writes_left = life.kill_after  # from here on: an engine writes while it starts
        say(ready=os.getpid())

    run.run(run.serve(app, run.Serving(port=life.port, grpc_port=life.grpc_port), on_ready=begin))


def say(**values: int) -> None:
    os.write(1, json.dumps(values).encode() + b"\n")


def report_ends(*_: object) -> None:
    """Say which children have ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        say(ended=pid)


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
