"""A process that writes to a log until somebody kills it. Says `open`, then the number of each event it was promised.

python -m tests.stores.writing_process FILE [shared]
"""

import asyncio
import sys
from collections import deque
from collections.abc import Awaitable

from parley.stores.sqlite.store import SqliteStore
from tests.stores.writes import KEY, addition, creation

AHEAD = 40
"""Writes that wait at a time, so that the end comes in the midst of transactions of many."""


async def main(path: str, *options: str) -> None:
    store = SqliteStore(path, shared="shared" in options, busy_timeout=30)
    await store.open()
    print("open", flush=True)
    head = await store.tasks.head(KEY)
    if head is None:
        await store.tasks.write(creation())
    seq = head.last_seq if head is not None else 1
    waiting: deque[tuple[int, Awaitable[None]]] = deque()
    while True:
        waiting.append((seq + 1, store.tasks.write(addition(seq))))
        seq += 1
        if len(waiting) == AHEAD:
            written, done = waiting.popleft()
            await done
            print(written, flush=True)


asyncio.run(main(*sys.argv[1:]))
