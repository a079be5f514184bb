"""Serves every agent of the conformance tests on every binding and store, in one process; ends when its input does.

`python -m tests.conformance.serve DIRECTORY [POSTGRES_URL…]` prints one JSON object:
`{"memory/open": {"url": …, "grpc": …}, …}`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import uvloop

from parley import Agent, File
from parley.protocol.cards import AgentExtension
from parley.protocol.signing import load_key
from parley.server.app import App
from parley.server.bindings.grpc import GrpcServer
from parley.server.listener.listener import Listener
from parley.server.pages.signer import Signer
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.webhooks.guard import WebhookPolicy

ALICE, BOB = "alice-token-0123456789abcdef", "bob-token-0123456789abcdef"
REQUIRED, OPTIONAL = "https://extensions.example/required", "https://extensions.example/optional"
KEY = {
    "kty": "OKP",
    "crv": "Ed25519",
    "d": "nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A",
    "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
}
"""The key of RFC 8037, appendix A.1: everybody knows it, which is what a test wants."""


class Gates:
    """Events by the context they belong to: a task waits for its gate until another one opens it."""

    def __init__(self) -> None:
        self._gates: dict[str, asyncio.Event] = {}

    def of(self, context_id: str) -> asyncio.Event:
        return self._gates.setdefault(context_id, asyncio.Event())


def conformance_agent(name: str, **options: Any) -> Agent:
    """An agent that does what its message says: one word, then its argument."""
    agent = Agent(name, description="Does what it is told", **options)
    gates = Gates()

    async def obey(turn: Any) -> Any:
        command, _, argument = turn.text.partition(" ")
        context_id = turn.history[0].context_id
        if command == "count":
            for number in range(int(argument)):
                yield f"{number} "
        elif command == "ask":
            yield (await turn.ask("What else?")).text
        elif command == "auth":
            yield (await turn.require_auth("Show me a ticket")).text
        elif command == "wait":
            await asyncio.Event().wait()
        elif command == "hold":
            yield "before "
            await gates.of(context_id).wait()
            yield "after"
        elif command == "open":
            gates.of(context_id).set()
            yield "opened"
        elif command == "file":
            yield File(b"bytes", name="file.bin", media_type="application/octet-stream")
        elif command == "accepts":
            yield f"{turn.accepts('text/plain')} {turn.accepts('image/png')}"
        elif command == "fail":
            raise RuntimeError("as told")
        else:
            yield turn.text

    agent.on_message(obey)
    return agent


def secured_agent() -> Agent:
    agent = conformance_agent("Secured")

    @agent.skill(id="vault", tags=["secret"], scopes=["vault:open"], public=False)
    async def vault(turn: Any) -> str:
        """Opens the vault."""
        return "gold"

    return agent


def direct_agent() -> Agent:
    agent = Agent("Direct", description="Answers at once, or with a task")

    @agent.on_message
    async def answer(turn: Any) -> str:
        if not turn.text.startswith("task"):
            await turn.reply(f"You said {turn.text}")
        return turn.text

    return agent


NUMBER_OF_APPS = 4


def stores(directory: str, postgres_urls: Sequence[str]) -> dict[str, Sequence[str]]:
    """The URLs of the stores of all apps, by the kind of the store."""
    files = [f"sqlite:///{directory}/{number}.db" for number in range(NUMBER_OF_APPS)]
    found: dict[str, Sequence[str]] = {"memory": ["memory:"] * NUMBER_OF_APPS}
    return {**found, "postgres": postgres_urls} if postgres_urls else {**found, "sqlite": files}


def apps(urls: Sequence[str]) -> dict[str, App]:
    """The apps that the rules are tried on, each with a store of its own."""
    open_url, secured_url, strict_url, direct_url = urls
    tokens = [
        StoredSecret(name="alice", hash=hash_secret(ALICE), scopes=("vault:open",)),
        StoredSecret(name="bob", hash=hash_secret(BOB)),
    ]
    strict = conformance_agent(
        "Strict",
        input_modes=["text/plain"],
        streaming=False,
        extensions=[AgentExtension(REQUIRED, required=True), AgentExtension(OPTIONAL)],
    )
    policy = WebhookPolicy(allow_private=True)
    return {
        "open": App(conformance_agent("Open"), store=open_url, webhooks=policy, signer=Signer(load_key(KEY), "k1")),
        "secured": App(secured_agent(), store=secured_url, security=Security({"token": BearerTokens(tokens)})),
        "strict": App(strict, store=strict_url, webhooks=None),
        "direct": App(direct_agent(), store=direct_url),
    }


async def main(directory: str, *postgres_urls: str) -> None:
    places: dict[str, dict[str, str]] = {}
    async with AsyncExitStack() as stack:
        for store, urls in stores(directory, postgres_urls).items():
            for name, app in apps(urls).items():
                await stack.enter_async_context(app.running())
                door = socket.create_server(("127.0.0.1", 0))
                url = f"http://127.0.0.1:{door.getsockname()[1]}"
                listener, grpc_server = Listener(app), GrpcServer(app, http_url=url)
                await listener.start([door])
                stack.push_async_callback(listener.close, grace=0.1)
                port = await grpc_server.start("127.0.0.1", 0)
                stack.push_async_callback(grpc_server.stop)
                places[f"{store}/{name}"] = {"url": url, "grpc": f"127.0.0.1:{port}"}
        print(json.dumps(places), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
