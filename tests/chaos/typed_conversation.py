"""One conversation of Parley's own client with the cluster: what an application sees that leaves resuming to it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from random import Random

from parley.client.client import Client
from parley.client.errors import StreamTruncatedError, UnreachableError
from parley.client.options import Retries, Timeouts
from parley.client.streams.streamed_task import StreamedTask
from parley.protocol.errors import UnavailableError
from parley.protocol.messages import text_of
from parley.protocol.tasks import Task, TaskState
from tests.chaos.history import Acknowledged, Answered, History, Refused, Retried, Sent, now
from tests.chaos.plans import Plan

TIMEOUTS = Timeouts(connect=3.0, reply=12.0, read=8.0, quiet=6.0, card=8.0)
RETRIES = Retries(attempts=6, first_pause=0.1, longest_pause=1.0, outage=30.0)


class TypedConversation:
    """One conversation about one task, with `stream` or `send`."""

    def __init__(self, client: str, plan: Plan, url: str, *, history: History, random: Random) -> None:
        self.client = client
        self.plan = plan
        self.task = ""
        self.doing = "nothing"
        self._url = url
        self._history = history
        self._random = random

    async def hold(self) -> None:
        """Have it, to the end of the task. Raises ParleyError if the client gives up."""
        while True:
            try:
                async with Client(self._url, timeouts=TIMEOUTS, retries=RETRIES) as agent:
                    return await self._hold(agent)
            except (UnreachableError, UnavailableError, StreamTruncatedError) as error:
                name = type(error).__name__
                self._history.note(Retried(now(), self.client, self.doing, f"{name}: {error}"))
                await asyncio.sleep(self._random.uniform(0.2, 1.0))

    async def _hold(self, agent: Client) -> None:
        task = await self._say(agent, f"m-{self.plan.id}", self.plan.text)
        if task.status.state is TaskState.INPUT_REQUIRED:
            task = await self._say(agent, f"a-{self.plan.id}", self.plan.answer, task=task.id)
        text = text_of([part for artifact in task.artifacts for part in artifact.parts])
        self._history.note(Answered(now(), self.client, self.task, str(task.status.state), text))

    async def _say(self, agent: Client, message: str, text: str, *, task: str | None = None) -> Task:
        """Send a message and follow the task until it ends or asks."""
        self._history.note(Sent(now(), self.client, message, text if task is None else "", task or ""))
        if self._random.random() < 0.5:
            self.doing = "send"
            reply = await agent.send(text, task=task, message_id=message)
            assert reply.task is not None
            self._acknowledge(message, reply.task.id)
            return reply.task
        self.doing = "stream"
        seen: StreamedTask | None = None
        async with aclosing(agent.stream(text, task=task, message_id=message)) as updates:
            async for update in updates:
                if seen is None and update.seen.task_id is not None:
                    seen = update.seen
                    self._acknowledge(message, update.seen.task_id)
        assert seen is not None
        return seen.task()

    def _acknowledge(self, message: str, task: str) -> None:
        self.task = task
        self._history.note(Acknowledged(now(), self.client, message, task))

    def refusal(self, error: Exception) -> Refused:
        """The entry for an error that ended the conversation."""
        return Refused(now(), self.client, self.doing, self.task, 0, f"{type(error).__name__}: {error}")
