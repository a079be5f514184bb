"""The two agents that a restart must not spoil: one streams a model's tokens, the other relays the first one's stream.

The message's text says how. `same` makes the model say the same each time; `varied` makes it say something else in each
generation, so that a text spliced from two generations shows. `plain` handlers know nothing of streams.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from parley import Agent, Turn

TOKENS = 4
QUESTION = "For whom?"
ANSWER = "Ann"


class Model:
    """A model that counts its generations in a file, over all lives of its process."""

    def __init__(self, folder: Path) -> None:
        self._generations = folder / "generations"

    async def stream(self, kind: str) -> AsyncIterator[str]:
        """Tokens; those of a varied generation say which one it is."""
        with self._generations.open("ab") as file:
            file.write(b".")
            generation = file.tell()
        for number in range(TOKENS):
            yield f"{'same' if kind == 'same' else f'gen{generation}'}-{number} "
            await asyncio.sleep(0)


def model_agent(folder: Path) -> Agent:
    """Streams a draft, asks, and streams again, piece by piece. It begins when the readers are there."""
    agent, model = Agent("Model"), Model(folder)

    @agent.on_message
    async def answer(turn: Turn) -> Any:
        await until_there(folder / "go")
        kind, style = turn.text.split()
        if style == "plain":
            async for piece in model.stream(kind):
                yield piece
        else:
            yield turn.stream("draft", model.stream, kind)
        name = (await turn.ask(QUESTION)).text
        yield f"for {name}: "
        pieces = model.stream(kind) if style == "plain" else turn.stream("final", model.stream, kind)
        async for piece in pieces:
            yield piece.upper()

    return agent


def relay_agent(folder: Path, url: str) -> Agent:
    """Relays what the other agent says, with its question."""
    agent = Agent("Relay")

    @agent.on_message
    async def relay(turn: Turn) -> Any:
        await until_there(folder / "go")
        yield "It says: "
        yield turn.delegate(url, turn.text)
        yield "That is all."

    return agent


async def until_there(file: Path) -> None:
    """Wait for a file: the test makes it when its readers are connected."""
    while not file.exists():
        await asyncio.sleep(0.005)


def is_whole_text(text: str) -> bool:
    """Whether a text is the whole text of one run of the model agent: each stream is of one generation."""
    draft = r"(?P<draft>same|gen\d+)-0 " + "".join([rf"(?P=draft)-{number} " for number in range(1, TOKENS)])
    final = r"(?P<final>SAME|GEN\d+)-0 " + "".join([rf"(?P=final)-{number} " for number in range(1, TOKENS)])
    return re.fullmatch(f"{draft}for {ANSWER}: {final}", text) is not None


def is_whole_relay(text: str) -> bool:
    """Whether a text is the whole text of one run of the relay agent."""
    before, after = "It says: ", "That is all."
    return text.startswith(before) and text.endswith(after) and is_whole_text(text[len(before) : -len(after)])
