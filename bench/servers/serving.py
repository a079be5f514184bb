"""Serves an ASGI app in the same way for everybody who is measured: one process, uvicorn with uvloop and httptools.

It runs in each server's own environment, so it imports nothing but what all of them have. The address is announced on
standard output; commands come on standard input, one word a line, so that steering a server costs its requests nothing.
The end of standard input is the end of the server.
"""

import argparse
import asyncio
import gc
import json
import resource
import socket
import sys
import time

import uvicorn
import uvloop

CHUNK = "twenty bytes or so, "


class Stage:
    """What an agent under measurement waits for, and what it says about itself."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.took = 0.0

    def timed(self) -> "Stage":
        """Take the time that the agent spends inside."""
        return self

    def __enter__(self) -> None:
        self._begun = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.took = time.perf_counter() - self._begun

    def obey(self, command: str) -> dict:
        """Do what a line of standard input says, and answer it."""
        match command:
            case "open":
                self.gate.set()
            case "close":
                self.gate.clear()
                self.took = 0.0
            case "inspect":
                gc.collect()
        return {"took": self.took, "asyncio_tasks": len(asyncio.all_tasks())}


def options() -> argparse.Namespace:
    """How the benchmark starts a server."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", default="", help="an SQLite file, or the URL of a database; in memory without")
    parser.add_argument("--send-buffer", type=int, default=0, help="bytes the system may hold back for a slow reader")
    return parser.parse_args()


def listening(send_buffer: int) -> socket.socket:
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    if send_buffer:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    return listener


async def listen_with_uvicorn(app, listener: socket.socket, stopped: asyncio.Event) -> None:
    """Serve with plain uvicorn."""
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        access_log=False,
        log_level="critical",
        lifespan="auto",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    await stopped.wait()
    server.should_exit = True
    await serving


async def run(app, stage: Stage, send_buffer: int, listen) -> None:
    listener, stopped = listening(send_buffer), asyncio.Event()

    def command() -> None:
        line = sys.stdin.readline()
        if not line:
            loop.remove_reader(sys.stdin)
            stopped.set()
            return
        print(json.dumps(stage.obey(line.strip())), flush=True)

    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, command)
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    await listen(app, listener, stopped)


def serve(app, stage: Stage, *, send_buffer: int = 0, listen=listen_with_uvicorn) -> None:
    """Serve until standard input ends."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(app, stage, send_buffer, listen))
