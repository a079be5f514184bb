"""The measured agent on Parley: the ASGI app as anybody gets it, in memory or on SQLite."""

import asyncio
from collections.abc import AsyncIterator

from serving import CHUNK, Stage, options, serve

from parley import Agent, Turn
from parley.server.app import App


def agent(stage: Stage) -> Agent:
    """An agent whose first word says what it does."""
    talker = Agent("Bench")

    @talker.on_message
    async def answer(turn: Turn) -> AsyncIterator[str]:
        verb, *words = turn.text.split()
        match verb:
            case "echo":
                yield " ".join(words)
            case "talk":
                for _ in range(int(words[0])):
                    yield CHUNK
            case "mumble":
                for _ in range(int(words[0])):
                    yield CHUNK
                    await asyncio.sleep(0)  # as a model would, it lets others run between two tokens
            case "gated":
                await stage.gate.wait()
                with stage.timed():
                    for _ in range(int(words[0])):
                        yield CHUNK
                        await asyncio.sleep(0)
            case "ask":
                await turn.ask("Which?")

    return talker


if __name__ == "__main__":
    stage, chosen = Stage(), options()
    app = App(agent(stage), store=f"sqlite:///{chosen.store}" if chosen.store else "memory:")
    serve(app, stage, send_buffer=chosen.send_buffer)
