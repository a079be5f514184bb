"""Writes `tests/golden/stores/schema-8.db`. It runs with the code that wrote the file: see README.

    python tests/stores/write_golden.py FILE

Callers of four dialects, three owners in two tenants and one without a name, each have two completed tasks, one that
runs, one that waits for an answer and one that was rejected, with webhooks that were told everything, half of it, or
nothing. Another owner has a long task with a snapshot, one that failed and one that was canceled. Some replies are
direct.
"""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from golden_agents import Kitchen

from parley.engine.caller import Caller
from parley.engine.limits import Limits
from parley.engine.webhooks.deliveries import DeliveryError
from parley.protocol.push import PushConfig
from parley.protocol.requests import SendConfiguration, SendMessageRequest
from parley.protocol.versions import Version
from parley.stores.sqlite.store import SqliteStore
from parley.testing.client import AgentClient, running
from parley.testing.clock import FakeClock

CALLERS = (
    Caller("ada", "acme", version=Version.V1_0),
    Caller("bob", "acme", version=Version.V0_3),
    Caller("ada", "umbrella", version=Version.V0_2),
    Caller(version=Version.V0_1),
)


class Hooks:
    """Webhooks: `up` is told everything, `down` nothing, and `flaky` fails after the third event."""

    async def send(self, notification: Any) -> None:
        name = notification.config.id
        if name == "down" or (name == "flaky" and notification.seq > 3):
            raise DeliveryError("down")


async def order(client: AgentClient, dish: str, hook: str | None = None) -> Any:
    """Order a dish with a webhook, and wait until it is served, asked about, or on the stove."""
    config = PushConfig(f"https://{hook}.example/{dish}", id=hook, token="s3cret") if hook else None
    configuration = SendConfiguration(push_config=config, return_immediately=dish == "soup")
    task = await client.agent.send_message(SendMessageRequest(client.message(dish), configuration), client.caller)
    if dish == "soup":
        async for _, event in client.follow(task, after=0):
            if "Heating" in str(event):
                break
    return task


async def write(path: Path) -> None:
    kitchen, clock = Kitchen(), FakeClock(datetime(2026, 11, 16, 18, 0, tzinfo=UTC))
    log = SqliteStore(path)
    async with running(kitchen.cook, store=log, clock=clock, limits=Limits(), sender=Hooks()) as cook:
        for caller in CALLERS:
            client = cook.as_caller(name=caller.name, tenant=caller.tenant, version=caller.version)
            await order(client, "bread", "up")
            await order(client, "soup", "flaky")
            await order(client, "cake", "up")
            await order(client, "stone")
            await order(client, "eggs", "down")
            await clock.advance(1)
        bob = cook.as_caller(name="bob", tenant="umbrella")
        await order(bob, "banquet")
        await order(bob, "fire")
        await bob.cancel(await order(bob, "soup"))
        for _ in range(2_000):  # until all is told that can be, and the snapshot is written
            await asyncio.sleep(0.001)
        await cook.crash()
    async with running(kitchen.waiter, store=log, clock=clock) as waiter:
        for caller in CALLERS:
            client = waiter.as_caller(name=caller.name, tenant=caller.tenant, version=caller.version)
            await client.exchange(caller.name or "stranger")
        await waiter.crash()


asyncio.run(write(Path(sys.argv[1])))
