"""A process with many clients that talk to the cluster, one conversation after the other, and their webhooks.

    python -m tests.chaos.clients URL HISTORY CLIENTS SEED NAME PATIENCE

It reads commands from its input: `finish` ends the conversations under way and begins no other, whereupon it prints
`finished`; `exit` ends it. Until then its webhooks accept what is still to be delivered.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import httpx2
import uvloop

from parley.protocol.errors import ParleyError
from tests.chaos.conversation import Conversation
from tests.chaos.history import GaveUp, History, now
from tests.chaos.plans import random_plan
from tests.chaos.raw_client import CallRefusedError, RawClient
from tests.chaos.typed_conversation import TypedConversation
from tests.chaos.webhook_receiver import WebhookReceiver

KINDS = ("plain", "plain", "ask", "hear", "cancel")
TYPED_KINDS = ("plain", "ask")
LONGEST_PAUSE = 4.0
"""Seconds between two conversations of a client."""


class Clients:
    """The clients of one process. They give a conversation up that takes longer than `patience` seconds."""

    def __init__(self, url: str, history: History, *, seed: int, name: str, patience: float) -> None:
        self._url = url
        self._patience = patience
        self._history = history
        self._seed = seed
        self._name = name
        self._is_finishing = asyncio.Event()
        self._receiver = WebhookReceiver(history, Random(f"{seed} webhooks {name}"))

    async def run(self, number: int) -> None:
        """Talk until the command to finish has come; then wait for the command to exit."""
        await self._receiver.start()
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=50, keepalive_expiry=2.0)
        async with httpx2.AsyncClient(limits=limits) as http:
            raw = RawClient(http, self._url)
            talking = [asyncio.create_task(self._talk(f"{self._name}{one}", raw)) for one in range(number)]
            commands = await _input_lines()
            assert await commands.readline() == b"finish\n"
            self._is_finishing.set()
            await asyncio.gather(*talking)
        print("finished", flush=True)
        await commands.readline()
        self._receiver.close()

    async def _talk(self, client: str, raw: RawClient) -> None:
        """The life of one client."""
        random = Random(f"{self._seed} {client}")
        for number in count(1):
            with suppress(TimeoutError):
                async with asyncio.timeout(random.uniform(0.0, LONGEST_PAUSE)):
                    await self._is_finishing.wait()
            if self._is_finishing.is_set():
                return
            await self._converse(client, f"{client}-{number}", raw, random)

    async def _converse(self, client: str, plan_id: str, raw: RawClient, random: Random) -> None:
        conversation: Conversation | TypedConversation
        if random.random() < 0.25:
            plan = random_plan(random, plan_id, kind=random.choice(TYPED_KINDS))
            conversation = TypedConversation(client, plan, self._url, history=self._history, random=random)
        else:
            plan = random_plan(random, plan_id, kind=random.choice(KINDS))
            conversation = Conversation(
                client, plan, raw, history=self._history, random=random, webhook_url=self._receiver.url
            )
        try:
            async with asyncio.timeout(self._patience):
                await conversation.hold()
        except TimeoutError:
            self._history.note(GaveUp(now(), client, conversation.task, conversation.doing))
        except (CallRefusedError, ParleyError) as error:
            self._history.note(conversation.refusal(error))


async def _input_lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def main(url: str, path: str, number: str, seed: str, name: str, patience: str) -> None:
    """Run the clients of this process."""
    history = History(Path(path))
    try:
        clients = Clients(url, history, seed=int(seed), name=name, patience=float(patience))
        uvloop.run(clients.run(int(number)))
    finally:
        history.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
