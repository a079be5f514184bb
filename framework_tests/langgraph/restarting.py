"""Runs that begin anew, as after a crash, but in one process and within one task."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from random import Random

from parley.adapters.adapter import Checkpoint, Description, Piece, Start
from parley.adapters.langgraph.adapter import LangGraphAdapter
from parley.protocol.jsonvalue import JsonValue


def after(start: Start, checkpoint: Checkpoint) -> Start:
    """Where a run begins in another process after a checkpoint."""
    return replace(start, states=(*start.states, json.loads(json.dumps(checkpoint.state))), answers={})


class Restarting:
    """An adapter whose run is closed after each of its checkpoints, and goes on from their states."""

    def __init__(self, adapter: LangGraphAdapter) -> None:
        self._adapter = adapter
        self.states: tuple[JsonValue, ...] = ()

    def describe(self) -> Description:
        return self._adapter.describe()

    async def run(self, start: Start) -> AsyncIterator[Piece]:
        while True:
            async with aclosing(self._adapter.run(start)) as pieces:  # pyright: ignore[reportArgumentType]
                async for piece in pieces:
                    yield piece
                    if isinstance(piece, Checkpoint):
                        start = after(start, piece)
                        self.states = start.states
                        break
                else:
                    return


class CrashingAnywhere:
    """An adapter whose runs crash after a random number of pieces. Reading is slow, so that the graph works ahead."""

    def __init__(self, adapter: LangGraphAdapter, random: Random) -> None:
        self._adapter = adapter
        self._random = random

    def describe(self) -> Description:
        return self._adapter.describe()

    async def run(self, start: Start) -> AsyncIterator[Piece]:
        while True:
            left = self._random.randrange(1, 16)
            lost: list[Piece] = []  # if it crashes before the next checkpoint
            async with aclosing(self._adapter.run(start)) as pieces:  # pyright: ignore[reportArgumentType]
                async for piece in pieces:
                    for _ in range(self._random.randrange(30)):
                        await asyncio.sleep(0)
                    left -= 1
                    if not left:
                        break
                    lost.append(piece)
                    if isinstance(piece, Checkpoint):
                        start = after(start, piece)
                        for kept in lost:
                            yield kept
                        lost = []
                else:
                    for kept in lost:
                        yield kept
                    return
