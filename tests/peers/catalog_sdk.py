"""The client of a2a-sdk, of either release, finds an agent in the catalogue of a host and calls it.

The catalogue and the card are read without a token, the card by the SDK's own resolver.
"""

import asyncio
import importlib
import json
import logging
import sys
from urllib.parse import urlsplit

import httpx
from scenario_steps import say


async def play(given):
    scenario = importlib.import_module(f"scenario_sdk_{given['release']}")
    host_client = importlib.import_module(f"host_sdk_{given['release']}").HostClient
    async with httpx.AsyncClient(timeout=15) as anonymous:
        catalog = (await anonymous.get(given["catalog"])).json()
        [entry] = [entry for entry in catalog["entries"] if entry["displayName"] == given["name"]]
        assert entry["mediaType"] == "application/a2a-agent-card+json"
        url = urlsplit(entry["url"])
        resolver = scenario.A2ACardResolver(anonymous, f"{url.scheme}://{url.netloc}", url.path)
        scenario.A2ACardResolver = lambda http, base_url: resolver
        seen = {}
        for binding in ("jsonrpc", "rest"):
            client = host_client.make(binding, entry["url"], given["token"])
            task = await client.send(say("hello"))
            seen[binding] = [(await client.card())["name"], task["state"], task["said"]]
            await client.http.aclose()
    print(json.dumps(seen))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(play(json.loads(sys.argv[1])))
