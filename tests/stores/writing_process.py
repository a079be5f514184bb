"""A process that writes to a log until somebody kills it. Says `open`, then the number of each event it was promised.

python writing_process.py FILE
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable

from parley.stores.sqlite import SqliteTaskLog
from parley.testing.stores import KEY, addition, creation

AHEAD = 40
"""Writes that wait at a time, so that the end comes in the midst of transactions of many."""


async def main(path: str) -> None:
    log = SqliteTaskLog(path)
    await log.open()
    print("open", flush=True)
    head = await log.head(KEY)
    if head is None:
        await log.write(creation())
    seq = head.last_seq if head is not None else 1
    waiting: deque[tuple[int, Awaitable[None]]] = deque()
    while True:
        waiting.append((seq + 1, log.write(addition(seq))))
        seq += 1
        if len(waiting) == AHEAD:
            written, done = waiting.popleft()
            await done
            print(written, flush=True)


asyncio.run(main(sys.argv[1]))
