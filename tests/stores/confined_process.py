"""A process that may not let its files grow, and later may. Says what each of its writes came to.

python confined_process.py FILE
"""

import asyncio
import resource
import sys

from parley.stores.interface import StoreError
from parley.stores.sqlite import SqliteTaskLog
from parley.testing.stores import KEY, addition, creation


async def main(path: str) -> None:
    log = SqliteTaskLog(path)
    await log.open()
    await log.write(creation())
    print("written", flush=True)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, most))
    try:
        await log.write(addition(1))
    except StoreError as error:
        print(type(error).__name__, error, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await log.write(addition(1))
    head = await log.head(KEY)
    print("written", head and head.last_seq, flush=True)
    await log.close()


asyncio.run(main(sys.argv[1]))
