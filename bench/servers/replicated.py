"""The agent of `cluster.py`, for `parley serve`: one process of several on a store.

Its first word says what it does. Times are those of CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator

from parley import Agent, Turn

CHUNK = "twenty bytes or so, "

agent = Agent("Bench", description="Measured.", run_attempts=100)


@agent.on_message
async def answer(turn: Turn) -> AsyncIterator[str]:
    verb, *words = turn.text.split()
    match verb:
        case "echo":
            yield " ".join(words)
        case "work":  # so many milliseconds of processor time, as parsing and templates take
            end = time.thread_time() + float(words[0]) / 1e3
            while time.thread_time() < end:
                pass
            yield "done"
        case "talk":
            for _ in range(int(words[0])):
                yield CHUNK
        case "tick":  # so many a second, for so many seconds; each says when it was said
            rate, seconds = float(words[0]), float(words[1])
            begun = time.monotonic()
            for number in range(int(rate * seconds)):
                await asyncio.sleep(max(0.0, begun + number / rate - time.monotonic()))
                yield f"{time.monotonic_ns()} "
        case "count":  # the same words in every run, so many seconds apart
            for number in range(int(words[0])):
                yield f"{number} "
                await asyncio.sleep(float(words[1]))
        case "where":
            yield f"{os.getpid()} {time.monotonic_ns()}"
        case "imported":  # which of these packages
            yield " ".join(name for name in words if name in sys.modules)
        case "hold":
            await asyncio.sleep(float(words[0]))
            yield "held"
