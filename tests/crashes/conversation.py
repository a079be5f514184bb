"""A conversation with an agent whose process is killed on the way, and with it all readers that there can be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from parley.client import Client
from parley.client.errors import DiscoveryError, UnreachableError
from parley.protocol.errors import UnavailableError
from parley.protocol.lifecycle import is_terminal
from parley.protocol.tasks import TaskState
from tests.crashes.agents import ANSWER
from tests.crashes.processes import LineProcess, ServerProcess
from tests.crashes.readers import INTERFACES, PAUSE, Subscriber, Webhook, client_of, webhooks

T = TypeVar("T")

SDK_BINDINGS = ("JSONRPC", "HTTP+JSON", "GRPC")


@dataclass
class Held:
    """What a conversation came to."""

    was_killed: bool
    text: str
    readers: dict[str, str]
    """The text that each reader holds."""


class Conversation:
    """One caller, its readers, and the processes that they talk to."""

    def __init__(self, server: ServerProcess, victim: ServerProcess, sdk: LineProcess, folder: Path) -> None:
        self._server = server
        self._victim = victim
        self._sdk = sdk
        self._gate = folder / "go"
        self._was_killed = False
        self._task_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading: list[asyncio.Task[Subscriber | Webhook]] = []

    async def hold(self, text: str, kill_after: int) -> Held:
        """Talk with the agent. The victim is killed right after so many writes, and started again."""
        await self._victim.start(kill_after=kill_after)
        restarting = asyncio.create_task(self._restart())
        try:
            async with webhooks() as hooks:
                return await self._hold(text, hooks)
        finally:
            for task in [restarting, *self._reading]:
                task.cancel()
            await self._victim.kill()

    async def _restart(self) -> None:
        await self._victim.until_ended()
        self._was_killed = True
        await self._victim.start()
        self._read(*[Subscriber("late", self._server.url, await self._task_id, *place) for place in INTERFACES])

    def _read(self, *readers: Subscriber | Webhook) -> None:
        self._reading += [asyncio.create_task(reader.read()) for reader in readers]

    async def _hold(self, text: str, hooks: list[Webhook]) -> Held:
        url, push = self._server.url, hooks[1].receiver.config
        sent = await self._call(lambda client: client.send(text, message_id="m-1", wait=False, push=push))
        assert sent.task is not None
        task_id = sent.task.id
        self._task_id.set_result(task_id)
        await self._call(lambda _: hooks[0].register(url, task_id))
        await self._connect_readers(hooks)
        self._gate.touch()
        await self._until(TaskState.INPUT_REQUIRED)
        await self._call(lambda client: client.send(ANSWER, task=task_id, message_id="m-2", wait=False))
        await self._until(TaskState.COMPLETED)
        held = {reader.name: reader.texts.get("response", "") for reader in await asyncio.gather(*self._reading)}
        for binding in SDK_BINDINGS:
            line = await self._sdk.until_line({"task": task_id, "binding": binding})
            held[f"a2a-sdk {binding}"] = line["artifacts"].get("response", "")
        return Held(self._was_killed, (await self._call(lambda client: client.get(task_id))).text, held)

    async def _connect_readers(self, hooks: list[Webhook]) -> None:
        task_id = await self._task_id
        early = [Subscriber("early", self._server.url, task_id, *place) for place in INTERFACES]
        self._read(*early, *hooks)
        for binding in SDK_BINDINGS:
            await self._sdk.tell(url=self._server.url, task=task_id, binding=binding)
        for reader in early:
            await reader.is_connected.wait()
        for binding in SDK_BINDINGS:
            await self._sdk.until_line({"following": task_id, "binding": binding})

    async def _until(self, state: TaskState) -> None:
        task_id = await self._task_id
        while (found := (await self._call(lambda client: client.get(task_id))).state) is not state:
            assert not is_terminal(found), f"The task is {found}"
            await asyncio.sleep(PAUSE)

    async def _call(self, call: Callable[[Client], Awaitable[T]]) -> T:
        """What a call gives, once a server is there to answer it."""
        while True:
            try:
                async with client_of(self._server.url) as client:
                    return await call(client)
            except (UnreachableError, UnavailableError, DiscoveryError):
                await asyncio.sleep(PAUSE)
