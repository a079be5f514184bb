"""Serves an agent in a process of its own, for tests that attack it and then look at what it holds.

It prints one line of JSON when it listens: `{"http": port, "grpc": port}`. For every line that it reads it prints what
it holds, as JSON: resident kilobytes, asyncio tasks, streams, connections, feeds, runs at work. It ends when its input
ends, or as any server does on SIGTERM. What it logs is on standard error. Options: `--guarded` asks for a token of
`TOKENS`, or a name and a password; `--bodies N` bounds the bytes of all bodies.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from parley.server.app import App
from parley.server.limits import ServerLimits
from parley.server.listener.connection import HttpServerConnection
from parley.server.run import Bound, Serving, run, serve
from parley.server.security.authentication import Security
from parley.server.security.schemes.basic import BasicUser, BasicUsers, hash_password
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.telemetry.logs import configure_logging
from tests.server.serving import echo_agent

TOKENS = {"alice": "alice-token-0123456789abcdef", "mallory": "mallory-token-0123456789abcd"}


def security() -> Security:
    """Alice and Mallory by token, and Bob by password."""
    tokens = BearerTokens([StoredSecret(name=name, hash=hash_secret(token)) for name, token in TOKENS.items()])
    users = BasicUsers([BasicUser(name="bob", password=hash_password("bob's password"))])
    return Security({"token": tokens, "password": users})


def resident_kilobytes() -> int:
    """What the process has in memory now."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def held(app: App) -> dict[str, int]:
    """What the server holds for its callers."""
    gc.collect()
    return {
        "kilobytes": resident_kilobytes(),
        "asyncio_tasks": len(asyncio.all_tasks()),
        "streams": len(app.monitor),
        "connections": sum(isinstance(each, HttpServerConnection) for each in gc.get_objects()),
        "feeds": len(vars(vars(app.engine)["feeds"])["_feeds"]),
        "runs": app.engine.runs.working,
    }


def read_lines(loop: asyncio.AbstractEventLoop, app: App, stop: asyncio.Event) -> None:
    """Answer every line with what the server holds; stop it after the last."""

    async def answer() -> dict[str, int]:
        return held(app)

    for _ in sys.stdin:
        print(json.dumps(asyncio.run_coroutine_threadsafe(answer(), loop).result()), flush=True)
    loop.call_soon_threadsafe(stop.set)


async def main(options: Any) -> None:
    app = App(
        echo_agent(input_modes=("*/*",)),
        security=security() if options.guarded else None,
        limits=ServerLimits(bodies_bytes=options.bodies),
        drain_seconds=0.1,
    )
    stop = asyncio.Event()
    listening = threading.Thread(target=read_lines, args=(asyncio.get_running_loop(), app, stop), daemon=True)

    def tell(bound: Bound) -> None:
        http, grpc = (int(str(place).rpartition(":")[2]) for place in (bound.url, bound.grpc_target))
        print(json.dumps({"http": http, "grpc": grpc}), flush=True)
        listening.start()

    # As on the network: on loopback the guard against web pages would refuse most of it by its host name.
    serving = Serving(host="0.0.0.0", port=0, grpc_port=0, allow_anonymous=True, access_log=options.access_log)
    await serve(app, serving, on_ready=tell, stop=stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--guarded", action="store_true")
    parser.add_argument("--access-log", action="store_true")
    parser.add_argument("--bodies", type=int, default=ServerLimits().bodies_bytes)
    configure_logging("text", os.environ.get("LOG_LEVEL", "INFO"))
    run(main(parser.parse_args()))
