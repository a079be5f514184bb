"""A process that dies in the middle of its first effect: an agent whose step writes a line and is killed then.

    python charging_process.py FILE LINES

It always sends the same message. Each line is the task's id and the idempotency key of the effect.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from parley import Agent, Turn
from parley.engine.engine import Engine
from parley.protocol.messages import Message, Role, TextPart
from parley.protocol.requests import SendMessageRequest
from parley.stores.sqlite.store import SqliteStore
from parley.stores.urls import opened


def shop(lines: Path) -> Agent:
    agent = Agent("Shop")

    def charge(line: str) -> None:
        is_first = not lines.exists()
        with lines.open("a") as file:
            file.write(f"{line}\n")
        if is_first:
            os.kill(os.getpid(), signal.SIGKILL)

    @agent.on_message
    async def sell(turn: Turn) -> str:
        await turn.step("charge", charge, f"{turn.task_id} {turn.idempotency_key}")
        return "sold"

    return agent


async def main(file: str, lines: str) -> None:
    async with opened(SqliteStore(file)) as store, Engine(store, shop(Path(lines))) as engine:
        await engine.agent("shop").send_message(SendMessageRequest(Message("m-1", Role.USER, (TextPart("5"),))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
