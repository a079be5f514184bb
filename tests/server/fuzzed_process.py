"""Serves an agent that answers at once, on free ports, until its input ends: what the fuzzers talk to.

It prints one line of JSON when it listens: `{"http": port, "grpc": port}`. With `--token T` it demands that token, and
has an extended card. What the server logs as its own failure goes to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import socket
import sys

from parley import Agent
from parley.agents.turn import Turn
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.listener.listener import Listener
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens


def make_agent() -> Agent:
    agent = Agent("Echo", description="Says the same again.", input_modes=("*/*",))

    @agent.on_message
    async def echo(turn: Turn):
        if turn.text.startswith("ask"):
            await turn.ask("What?")
        yield turn.text or "nothing"
        yield {"parts": len(turn.parts)}

    @agent.skill(id="hidden", public=False, tags=["secret"])
    async def hidden(turn: Turn):
        """Is only in the extended card."""
        return "found"

    return agent


async def serve(token: str | None) -> None:
    security = None
    if token:
        security = Security({"token": BearerTokens([StoredSecret(name="fuzzer", hash=hash_secret(token))])})
    app = App(make_agent(), security=security)
    listener, grpc_server = Listener(app), GrpcServer(app)
    bound = socket.create_server(("127.0.0.1", 0))
    async with app.running():
        await listener.start([bound])
        port = await grpc_server.start("127.0.0.1", 0)
        print(json.dumps({"http": bound.getsockname()[1], "grpc": port}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        await grpc_server.stop()
        await listener.close(grace=1)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING)
    parser = argparse.ArgumentParser()
    parser.add_argument("--token")
    asyncio.run(serve(parser.parse_args().token))
