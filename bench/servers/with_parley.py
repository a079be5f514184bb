"""The measured agent on Parley, in memory or on SQLite: served as `parley serve` does it, with the same listener (a
subclass of uvicorn's protocol) and the same tuning of the garbage collector.
"""

import asyncio
import socket
from collections.abc import AsyncIterator

from serving import CHUNK, Stage, options, serve

from parley import Agent, Turn
from parley.server.app import App
from parley.server.listener.listener import Listener
from parley.server.run import tune_collector


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


async def listen(app: App, door: socket.socket, stopped: asyncio.Event) -> None:
    listener = Listener(app)
    async with app.running():
        await listener.start([door])
        await stopped.wait()
        await listener.close(grace=1)


if __name__ == "__main__":
    stage, chosen = Stage(), options()
    tune_collector()
    app = App(agent(stage), store=f"sqlite:///{chosen.store}" if chosen.store else "memory:")
    serve(app, stage, send_buffer=chosen.send_buffer, listen=listen)
