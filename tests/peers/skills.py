"""Reaches the second of two skills by its words and by answering the question which one is meant, with an SDK's client.

`python skills.py SETTINGS`: the `scenario_…` module with the client, the URL and the bindings, as JSON. Prints what
each binding saw. Nothing of the Python here is newer than 3.11.
"""

import asyncio
import importlib
import json
import logging
import sys

import httpx
from scenario_steps import outcome, say


async def see(client):
    by_words = await client.send(say("write backwards"))
    asked = await client.send(say("hello"))
    again = await client.send(say("perhaps"), task=asked)
    picked = await client.send(say("2"), task=again)
    seen = [outcome(task) for task in (by_words, asked, again, picked)]
    if hasattr(client, "reply_to"):
        seen.append(await client.reply_to(say("a backwards greeting")))
    return seen


async def main():
    given = json.loads(sys.argv[1])
    module = importlib.import_module(given["client"])
    async with httpx.AsyncClient(timeout=15) as http:
        for binding in given["bindings"]:
            print(json.dumps({"binding": binding, "seen": await see(module.SdkClient(http, binding, given["url"]))}))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
