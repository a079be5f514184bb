"""Agents of a host, called by the client of a2a-sdk 0.3.26, which folds the events of a stream itself."""

import asyncio
import logging

import httpx
from a2a.client.client import ClientCallContext
from a2a.types import TaskIdParams
from host_steps import play
from scenario_ids import Watched
from scenario_pydantic import message, seen_event, seen_task
from scenario_sdk_0_3_26 import SdkClient
from scenario_steps import Fold


class HostClient(SdkClient):
    """The client of an agent whose card needs a token too."""

    @classmethod
    def make(cls, binding, url, token):
        # The SDK's interceptor would add a second header to streams, and does not reach REST.
        headers = {"Authorization": f"Bearer {token}"}
        client = cls(httpx.AsyncClient(timeout=15, transport=Watched(), headers=headers), binding, url)
        client.bearer = token
        return client

    def on_its_own_connection(self):
        return self.make(self.binding, self.url, self.bearer)

    async def stream(self, parts):
        async for event in checked((await self.sdk(streaming=True)).send_message(message(parts, None))):
            yield event

    async def subscribe(self, task_id, after=None):
        context = ClientCallContext(state={"http_kwargs": {"headers": {"Last-Event-ID": after}}}) if after else None
        events = (await self.sdk(streaming=True)).resubscribe(TaskIdParams(id=task_id), context=context)
        async for event in checked(events, is_whole=not after):
            yield event


async def checked(events, *, is_whole=True):
    """Events with the id of their task. What the SDK has made of a whole stream must be what the steps make of it."""
    fold = Fold()
    async for task, update in events:
        event = seen_event(update or task)
        fold.add(event)
        if is_whole:
            assert seen_task(task)["parts"] == fold.parts
        yield {**event, "id": task.id}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(play(HostClient.make))
