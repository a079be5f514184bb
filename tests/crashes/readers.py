"""Readers of a task that goes on in one process after another: what each of them holds in the end.

A subscriber folds the updates that it is shown, and nothing else. A webhook gets updates in 1.0, and tasks before.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from parley.client import Client, Retries, WebhookReceiver
from parley.client.webhooks.notification import PushNotification
from parley.protocol.cards import Binding
from parley.protocol.errors import ParleyError
from parley.protocol.events import ArtifactUpdate, StatusUpdate, StreamEvent
from parley.protocol.lifecycle import is_terminal
from parley.protocol.messages import text_of
from parley.protocol.push import PushConfig
from parley.protocol.requests import CreatePushConfigRequest
from parley.protocol.tasks import Artifact, Task
from parley.protocol.versions import Version
from parley.server.listener.listener import Listener

PAUSE = 0.05
RETRIES = Retries(first_pause=PAUSE, longest_pause=PAUSE)
INTERFACES = [(version, binding) for version in (Version.V0_3, Version.V1_0) for binding in Binding]


class Folded:
    """What a peer holds of a task that knows nothing but what it is shown."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.has_ended = False

    def add(self, event: StreamEvent) -> None:
        if isinstance(event, Task):
            self.texts = {artifact.artifact_id: text_of(artifact.parts) for artifact in event.artifacts}
        elif isinstance(event, ArtifactUpdate):
            self._add_chunk(event.artifact, is_added=event.append)
        if isinstance(event, Task | StatusUpdate):
            self.has_ended = is_terminal(event.status.state)

    def _add_chunk(self, artifact: Artifact, *, is_added: bool) -> None:
        before = self.texts.get(artifact.artifact_id, "") if is_added else ""
        self.texts[artifact.artifact_id] = before + text_of(artifact.parts)


class Subscriber(Folded):
    """A subscriber over one binding in one version."""

    def __init__(self, name: str, url: str, task_id: str, version: Version, binding: Binding) -> None:
        super().__init__()
        self.name = f"{name} {version} {binding}"
        self.is_connected = asyncio.Event()
        self._url, self._task_id, self._version, self._binding = url, task_id, version, binding
        self._cursor: str | None = None

    async def read(self) -> Subscriber:
        """Read until the task has ended, in as many streams as it takes."""
        while True:
            try:
                async with client_of(self._url, self._version, self._binding) as client:
                    while not self.has_ended:
                        await self._follow(client)
                return self
            except ParleyError:  # the server is down while the client looks for the card, or stays down for long
                await asyncio.sleep(PAUSE)

    async def _follow(self, client: Client) -> None:
        async for update in client.subscribe(self._task_id, after=self._cursor):
            self.add(update.event)
            self._cursor = update.cursor
            self.is_connected.set()


class Webhook(Folded):
    """A webhook of a task."""

    def __init__(self, url: str, version: Version) -> None:
        super().__init__()
        self.name = f"webhook {version}"
        self._ended = asyncio.Event()
        self._version = version
        self.receiver = WebhookReceiver(PushConfig(url, id=str(version), token="secret"), self._take)

    async def _take(self, notification: PushNotification) -> None:
        self.add(notification.event)
        if self.has_ended:
            self._ended.set()

    async def register(self, url: str, task_id: str) -> None:
        """Register it for a task, as a caller of its version."""
        async with client_of(url, self._version, Binding.JSONRPC) as client:
            await client.create_push_config(CreatePushConfigRequest(task_id, self.receiver.config))

    async def read(self) -> Webhook:
        """Return when the task has ended, as far as the webhook knows."""
        await self._ended.wait()
        return self


@asynccontextmanager
async def webhooks() -> AsyncGenerator[list[Webhook]]:
    """A webhook in each version, at a port of its own."""
    hooks: list[Webhook] = []
    async with AsyncExitStack() as stack:
        for version in (Version.V0_3, Version.V1_0):
            bound = socket.create_server(("127.0.0.1", 0))
            hooks.append(Webhook(f"http://127.0.0.1:{bound.getsockname()[1]}/hook", version))
            listener = Listener(hooks[-1].receiver)  # pyright: ignore
            await listener.start([bound])
            stack.push_async_callback(listener.close, grace=0)
        yield hooks


def client_of(url: str, version: Version = Version.V1_0, binding: Binding = Binding.JSONRPC) -> Client:
    """A client that waits little between two attempts."""
    return Client(url, versions=[version], bindings=[binding], retries=RETRIES)
