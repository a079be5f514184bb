"""A process that opens a store and says `page` for each page of secrets that it has encrypted, until it is killed.

python -m tests.stores.encrypting_process FILE
"""

import asyncio
import sys
from typing import Any

from parley.stores.sqlite.secret_rows import SqliteSecretRows
from parley.stores.sqlite.store import SqliteStore

replace = SqliteSecretRows.replace


async def replace_and_say(self: SqliteSecretRows, *arguments: Any) -> None:
    await replace(self, *arguments)
    print("page", flush=True)


async def main(path: str) -> None:
    SqliteSecretRows.replace = replace_and_say
    await SqliteStore(path).open()
    await asyncio.Event().wait()


asyncio.run(main(*sys.argv[1:]))
