"""One of several workers on one SQLite file: an agent served over HTTP, to be killed, stopped and woken by a test.

    python worker_process.py FILE FOLDER

It prints the port it listens at. The agent says `words` words, one each time that the file `FOLDER/go` has one more
byte, and notes in `FOLDER/begun` which process began a run for which message.
"""

import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn

from parley import Agent, Turn
from parley.engine.limits import Limits
from parley.server.app import App
from parley.server.webhooks.guard import WebhookPolicy
from parley.stores.sqlite.store import SqliteStore

LEASE_SECONDS = 3.0
"""Other work on the machine holds a process up for a second, and must not cost it the lease."""


def talker(folder: Path) -> Agent:
    agent = Agent("Talker", run_attempts=100)

    @agent.on_message
    async def talk(turn: Turn) -> Any:
        with (folder / "begun").open("a") as begun:
            begun.write(f"{turn.text} {os.getpid()}\n")
        number, words = 0, 12 if turn.text == "talk" else 1
        while number < words:
            if len(turn.history) > 1:
                yield f"heard: {turn.history[-1].text}"
                return
            if (folder / "go").stat().st_size > number:
                yield f"{number} "
                number += 1
            else:
                await asyncio.sleep(0.01)

    return agent


def main(file: str, folder: Path) -> None:
    limits = Limits(lease_seconds=LEASE_SECONDS)
    policy = WebhookPolicy(allow_private=True)
    app = App(talker(folder), store=SqliteStore(file, shared=True), engine_limits=limits, webhooks=policy)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # now: callers may connect as soon as they know the port
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
