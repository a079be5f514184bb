"""A process to kill: an agent that streams numbers from a database file, and a subscriber that prints what it sees.

    python streaming_process.py FILE CHUNKS

It always sends the same message, so that after each restart the same task goes on. One line of JSON per event seen:
`[number, text]`; the last line is `"done"`.
"""

import asyncio
import json
import sys
from typing import Any

from parley import Agent, Turn
from parley.engine.engine import Engine
from parley.engine.limits import Limits
from parley.protocol.events import ArtifactUpdate
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendConfiguration, SendMessageRequest, SubscribeToTaskRequest
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened


def counter(chunks: int) -> Agent:
    agent = Agent("Counter")

    @agent.on_message
    async def count(turn: Turn) -> Any:
        for number in range(chunks):
            if number % 50 == 0:
                await turn.step("checkpoint", lambda number=number: number)
            yield f"{number} "
            await asyncio.sleep(0)

    return agent


async def main(file: str, chunks: int) -> None:
    limits = Limits(run_attempts=10_000, events_in_memory=32)
    async with opened(SqliteStore(file)) as store, Engine(store, counter(chunks), limits=limits) as engine:
        agent = engine.agent("counter")
        message = Message("always the same", Role.USER, (TextPart("go"),))
        request = SendMessageRequest(message, SendConfiguration(return_immediately=True))
        task: Any = await agent.send_message(request)
        async for batch in agent.subscribe_to_task(SubscribeToTaskRequest(task.id), after=0):
            for seq, event in batch:
                text = event.artifact.parts[0].text if isinstance(event, ArtifactUpdate) else event.status.state  # pyright: ignore
                print(json.dumps([seq, text]), flush=True)
    print(json.dumps("done"), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
