"""The agent of the rolling restart, for `parley serve`: it counts, a word at a time.

The message says how far and with which pauses: `count 30 0.05`. Every run is noted in the file that the variable
COUNTING_AGENT_BEGUN names, with the task and the process, so that a test knows which tasks were handed on.
"""

import asyncio
import os
from collections.abc import AsyncIterator

from parley import Agent, Turn

agent = Agent("Counter", description="Counts.")


@agent.on_message
async def count(turn: Turn) -> AsyncIterator[str]:
    """Say the numbers from 0 on."""
    with open(os.environ["COUNTING_AGENT_BEGUN"], "a") as begun:
        begun.write(f"{turn.task_id} {os.getpid()}\n")
    _, total, pause = turn.text.split()
    for number in range(int(total)):
        yield f"{number} "
        await asyncio.sleep(float(pause))
