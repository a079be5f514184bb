"""Serves the agent of the scenario in a process of its own, on every binding; prints where, and ends on SIGTERM.

`python -m tests.interop.serve STORE [TOKEN]`: with a token, only callers who bring it get in.
"""

import asyncio
import json
import signal
import socket
import sys

import uvloop

from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.listener.listener import Listener
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from tests.interop.agent import agent


def guard(token: str) -> Security:
    return Security({"token": BearerTokens([StoredSecret(name="tester", hash=hash_secret(token))])})


async def serve(store: str, token: str | None) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    door = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{door.getsockname()[1]}"
    app = App(agent, store=store, security=guard(token) if token else None, drain_seconds=1)
    listener, grpc_server = Listener(app), GrpcServer(app, http_url=url)
    async with app.running():
        await listener.start([door])
        await grpc_server.start("127.0.0.1", 0)
        print(json.dumps({"url": url}), flush=True)
        await ended.wait()
        await app.drain()
        await grpc_server.stop()
        await listener.close(grace=1)


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
