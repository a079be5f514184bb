"""A process that may not let its files grow, and later may. Says what each of its writes came to.

python -m tests.stores.confined_process FILE
"""

import asyncio
import resource
import sys

from parley.stores.interface import StoreError
from parley.stores.sqlite.store import SqliteStore
from tests.stores.writes import KEY, addition, creation


async def main(path: str) -> None:
    store = SqliteStore(path)
    await store.open()
    await store.tasks.write(creation())
    print("written", flush=True)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, most))
    try:
        await store.tasks.write(addition(1))
    except StoreError as error:
        print(type(error).__name__, error, flush=True)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await store.tasks.write(addition(1))
    head = await store.tasks.head(KEY)
    print("written", head and head.last_seq, flush=True)
    await store.close()


asyncio.run(main(sys.argv[1]))
