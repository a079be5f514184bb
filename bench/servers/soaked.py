"""The agent that `soak.py` attacks, served as `parley serve` does it, for two callers: Alice and Mallory.

It prints its port as one line of JSON, collects garbage and answers for every line of input, and ends with its input.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import threading
from collections.abc import AsyncIterator

from parley import Agent, Turn
from parley.server.app import App
from parley.server.run import Bound, Serving, run, serve
from parley.server.security.authentication import Security
from parley.server.security.schemes.stored_secrets import StoredSecret, hash_secret
from parley.server.security.schemes.tokens import BearerTokens
from parley.server.webhooks.guard import WebhookPolicy

TOKENS = {"alice": "alice-token-0123456789abcdef", "mallory": "mallory-token-0123456789abcd"}

agent = Agent("Soaked", description="Says as much as it is asked for.")


@agent.on_message
async def answer(turn: Turn) -> AsyncIterator[str]:
    """Say so many chunks of so many bytes, and end or wait for an answer, as the message says: `ask 10 1000000`."""
    verb, chunks, size = turn.text.split()
    for _ in range(int(chunks)):
        yield "x" * int(size)
        await asyncio.sleep(0)
    if verb == "ask":
        await turn.ask("What next?")


def obey(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    """Answer every line of input; stop the server after the last."""
    for _ in sys.stdin:
        gc.collect()
        print("{}", flush=True)
    loop.call_soon_threadsafe(stop.set)


async def main(store: str) -> None:
    """Serve until the input ends."""
    stored = [StoredSecret(name=name, hash=hash_secret(token)) for name, token in TOKENS.items()]
    app = App(
        agent,
        store=store,
        security=Security({"token": BearerTokens(stored)}),
        webhooks=WebhookPolicy(allow_private=True),
        drain_seconds=0,
    )
    stop = asyncio.Event()
    listening = threading.Thread(target=obey, args=(asyncio.get_running_loop(), stop), daemon=True)

    def tell(bound: Bound) -> None:
        print(json.dumps({"port": int(str(bound.url).rpartition(":")[2])}), flush=True)
        listening.start()

    await serve(app, Serving(port=0), on_ready=tell, stop=stop)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    run(main(parser.parse_args().store))
