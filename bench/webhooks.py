"""How long one caller's webhook waits while another caller's webhooks hang.

`python bench/webhooks.py [WEBHOOKS] [HOSTS]`: one owner has so many webhooks at so many hosts that accept connections
and never answer; a moment later another owner has one webhook that answers. Prints how long that one waits, and how
many calls of the others were under way.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from time import perf_counter

from parley.engine.webhooks.deliveries import Deliveries
from parley.protocol.events import StatusUpdate, TaskCreated
from parley.protocol.push import PushConfig
from parley.protocol.tasks import TaskState, TaskStatus
from parley.protocol.versions import Version
from parley.server.webhooks.guard import WebhookPolicy
from parley.server.webhooks.sender import WebhookSender
from parley.stores.interface import NewTask, Owner, TaskKey, Write
from parley.stores.memory import MemoryStore


async def measure(webhooks: int = 320, hosts: int = 320) -> tuple[float, int]:
    """The seconds that the other owner's webhook waits, and the calls that hang meanwhile."""
    hanging, called = 0, asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal hanging
        hanging += 1
        try:
            await reader.read()  # to the end, which comes when the caller gives up
        finally:
            hanging -= 1
            writer.close()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        called.set()
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        writer.close()

    store = MemoryStore()
    async with (
        await asyncio.start_server(hang, "0.0.0.0", 0) as hanging_server,
        await asyncio.start_server(answer, "127.0.0.1", 0) as answering_server,
        WebhookSender(WebhookPolicy(allow_private=True)) as sender,
    ):
        hanging_port = hanging_server.sockets[0].getsockname()[1]
        answering_port = answering_server.sockets[0].getsockname()[1]
        deliveries = Deliveries(store, sender)
        await deliveries.start()
        for number in range(webhooks):
            address = f"127.1.{number % hosts // 250}.{number % hosts % 250 + 1}"
            await _news(store, deliveries, "attacker", f"t-{number}", f"http://{address}:{hanging_port}/{number}")
        await asyncio.sleep(1)
        begun = perf_counter()
        await _news(store, deliveries, "other", "other", f"http://127.0.0.1:{answering_port}/")
        await called.wait()
        result = perf_counter() - begun, hanging
        await deliveries.stop(grace=0)
    return result


async def _news(store: MemoryStore, deliveries: Deliveries, owner: str, task_id: str, url: str) -> None:
    key = TaskKey(Owner("", owner), task_id)
    now = datetime.now(UTC)
    status = TaskStatus(TaskState.WORKING, None, now)
    new = NewTask("agent", "c-1", Version.V1_0, now)
    await store.tasks.write(Write(key, 0, (TaskCreated(task_id, "c-1", status),), status.state, now, new))
    await store.outbox.put(key, PushConfig(url, task_id, "hook"))
    await store.tasks.write(Write(key, 1, (StatusUpdate(task_id, "c-1", status),), status.state, now))
    deliveries.notify(key)


if __name__ == "__main__":
    seconds, under_way = asyncio.run(measure(*(int(argument) for argument in sys.argv[1:3])))
    print(f"Another caller's webhook waits {seconds:.2f} seconds while {under_way} calls hang.")
