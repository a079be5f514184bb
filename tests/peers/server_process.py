"""Serves the agents of the `server_…` scripts: prints where they are, as a line of JSON, and runs until it is killed.

It imports no A2A SDK, so every peer environment can load it. Nothing of the Python here is newer than 3.11.
"""

import asyncio
import json
import socket
from collections import defaultdict

import uvicorn

GATES = defaultdict(asyncio.Event)
"""Where an agent stands still until a message opens the gate: nothing in these agents sleeps."""

MODES = ["text/plain", "application/json", "image/png", "application/pdf"]
SKILLS = [
    {"id": "echo", "name": "Echo", "description": "Says what you say.", "tags": ["text"]},
    {"id": "count", "name": "Count", "description": "Counts, one chunk a number.", "tags": ["numbers"]},
]
VAULT = {"id": "vault", "name": "Vault", "description": "Is for callers who are known.", "tags": ["private"]}


def listening():
    """A socket on a free port, and the port."""
    # asyncio sends small frames at once only on sockets that say which protocol they speak.
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    door.bind(("127.0.0.1", 0))
    door.listen()
    return door, door.getsockname()[1]


def counting(text):
    """What a message asks to count: to which number, after which to stand still, and at which gate."""
    match text.split():
        case [_, last, "pausing", "after", pause, "at", gate]:
            return int(last), int(pause), gate
        case [_, last]:
            return int(last), 0, ""
    raise ValueError(text)


async def serve(url, *apps, grpc=()):
    """Serve ASGI apps, each on its socket, beside gRPC servers that have started already."""
    servers = [(uvicorn.Server(uvicorn.Config(app, log_level="error")), door) for app, door in apps]
    running = [asyncio.create_task(server.serve(sockets=[door])) for server, door in servers]
    while not all(server.started for server, _ in servers):
        await asyncio.sleep(0.01)
    print(json.dumps({"url": url}), flush=True)
    await asyncio.gather(*running)
    for server in grpc:
        await server.stop(0)
