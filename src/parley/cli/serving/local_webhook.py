"""A webhook on this machine, for `parley push listen` and `parley chat --push`: a small server on loopback."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any

from parley.client.client import Client
from parley.client.streams.streamed_task import StreamedTask
from parley.client.webhooks.blocking import LoopThread
from parley.client.webhooks.notification import PushNotification
from parley.client.webhooks.receiver import WebhookReceiver
from parley.protocol.errors import InvalidParamsError, ParleyError, PushNotificationNotSupportedError
from parley.protocol.events import ArtifactUpdate, StreamEvent
from parley.protocol.lifecycle import ends_stream
from parley.protocol.tasks import Task, TaskState, TaskStatus
from parley.server.listener.listener import Listener

HOST = "127.0.0.1"
PATH = "/hook"

ANSWER_SECONDS = 2.0
"""How long open requests may take when the webhook closes."""

POLL_SECONDS = 3.0
"""How often the task is read while no notification comes, to tell a slow task from an agent that cannot call."""


class WebhookRefusedError(ParleyError):
    """The agent refuses to call the webhook."""


class LocalWebhook:
    """A bound port, and the receiver behind it. The webhook answers at every path of the port."""

    def __init__(self, make: Callable[[str], WebhookReceiver], *, port: int, url: str | None = None) -> None:
        """`url` is how the agent reaches the port, if not directly. Raises OSError if the port is in use."""
        self._socket = socket.create_server((HOST, port))
        self.url = url or f"http://{HOST}:{self._socket.getsockname()[1]}{PATH}"
        try:
            self.receiver = make(self.url)
        except BaseException:
            self._socket.close()
            raise
        self._listener = Listener(self.receiver)

    async def start(self) -> None:
        """Answer requests, in the running event loop."""
        await self._listener.start([self._socket])

    async def close(self) -> None:
        """Answer what is being answered, and close the port."""
        await self._listener.close(grace=ANSWER_SECONDS)
        self._socket.close()


def refusal_of(error: ParleyError, url: str) -> WebhookRefusedError | None:
    """What to say about an error that means that the agent does not call this webhook, or None for other errors."""
    if isinstance(error, PushNotificationNotSupportedError):
        return WebhookRefusedError("The agent does not send push notifications")
    about = f"{error.path or ''} {error.message}".lower() if isinstance(error, InvalidParamsError) else ""
    if "webhook" not in about and "url" not in about:
        return None
    return WebhookRefusedError(
        f"The agent refuses the webhook {url}: {error.message.rstrip('.')}. A Parley server calls webhooks on its own "
        "machine if it is started with --webhooks any; for other agents, give a public URL with --webhook-url"
    )


class PushInbox:
    """A webhook in a thread, so that the agent is answered while the terminal is read, and a queue of what came."""

    def __init__(self, *, port: int, url: str | None, loop: asyncio.AbstractEventLoop) -> None:
        """`loop` is where `updates` runs. Raises OSError if the port is in use."""
        self._loop = loop
        self._came: asyncio.Queue[PushNotification] = asyncio.Queue()
        self._webhook = LocalWebhook(lambda url: WebhookReceiver(url, self._keep), port=port, url=url)
        self._thread = LoopThread()
        self._thread.run(self._webhook.start())

    @property
    def url(self) -> str:
        """The URL that the agent calls."""
        return self._webhook.url

    async def _keep(self, notification: PushNotification) -> None:
        self._loop.call_soon_threadsafe(self._came.put_nowait, notification)

    async def updates(
        self, client: Client, contents: list[Any], *, shown: StreamedTask | None, **fields: Any
    ) -> AsyncGenerator[tuple[StreamEvent, StreamedTask, bool]]:
        """Send a message, and yield each event of the answer, the task so far, and whether the webhook told it.

        `shown` is what was seen of a task that goes on.

        Raises:
            WebhookRefusedError: the agent does not call this webhook.
        """
        try:
            reply = await client.send(*contents, wait=False, notify=self._webhook.receiver, **fields)
        except ParleyError as error:
            refusal = refusal_of(error, self.url)
            raise error if refusal is None else refusal from None
        seen = shown or StreamedTask()
        if reply.task is None:
            seen.add(reply.content)
            yield reply.content, seen, True
            return
        if seen.task_id is None:
            # Its id and nothing else: what it has done already comes to the webhook too.
            seen.add(created := Task(reply.task.id, reply.task.context_id, TaskStatus(TaskState.SUBMITTED)))
            yield created, seen, True
        async for event, was_told in self._events(client, reply.task.id):
            for change in seen.new_events_in(event) if isinstance(event, Task) else [event]:
                seen.add(change)
                yield change, seen, was_told
            # The status of a task that goes on is that of its question, until another one comes.
            if not isinstance(event, ArtifactUpdate) and seen.is_over:
                return

    async def _events(self, client: Client, task_id: str) -> AsyncGenerator[tuple[StreamEvent, bool]]:
        """What came to the webhook about a task; the task itself if it is over and nothing has come."""
        is_late = False
        while True:
            try:
                notification = await asyncio.wait_for(self._came.get(), POLL_SECONDS)
            except TimeoutError:
                task = (await client.get(task_id)).task
                is_over = task is not None and ends_stream(task.status.state)
                if is_late and is_over and task is not None:
                    yield task, False
                is_late = is_over
                continue
            if notification.task_id == task_id:
                is_late = False
                yield notification.event, True

    def close(self) -> None:
        """Close the port and end the thread."""
        with suppress(OSError):
            self._thread.run(self._webhook.close())
        self._thread.close()
