"""A program that uses what is installed, as `test_installing` checks and runs it: an agent, and a caller of one.

`python consumer.py URL BINDING…` prints what each binding answers.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from typing import assert_type

from parley import Agent, Client, ReceivedMessage, Turn
from parley.client import Binding, Reply, Task, Update
from parley.server.app import App

agent = Agent("Counter", description="Counts.")


@agent.skill(tags=["numbers"], examples=["three"])
async def count(turn: Turn) -> AsyncGenerator[str, None]:
    if turn.text == "ask":
        answer = await turn.ask("How far?")
        assert_type(answer, ReceivedMessage)
        yield answer.text
    yield "one "
    yield await turn.step("two", str.upper, "two")


app = App(agent)


async def call(url: str, binding: Binding) -> list[str]:
    async with Client(url, bindings=[binding]) as client:
        asked = await client.send("ask")
        assert_type(asked, Reply)
        answered = await asked.answer("far")
        assert_type(answered.task, Task | None)
        streamed: list[str] = []
        async for update in client.stream("three"):
            assert_type(update, Update)
            streamed.append(update.text)
        return [client.interface.binding, str(asked.question), answered.text, "".join(streamed)]


async def main(url: str, bindings: list[str]) -> None:
    for binding in bindings:
        print(await call(url, Binding(binding)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
