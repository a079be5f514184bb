"""A reader of tasks made of a2a-sdk 1.3.0: its client, and its own way of adding updates to a task.

Each line of its input is a JSON object with `url`, `task` and `binding`; it then subscribes to the task, and again
whenever the stream ends or breaks, until the task has ended. It writes `{"following": task, "binding"}` once it has
read an event, and in the end `{"task", "binding", "artifacts": {id: text}}`.
"""

import asyncio
import json
import logging
import sys

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import a2a_pb2 as pb

ENDED = {pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED}
PAUSE = 0.05  # before it subscribes again


def say(**values):
    print(json.dumps(values), flush=True)


class Reader:
    def __init__(self, url, task, binding):
        self.url, self.id, self.binding = url, task, binding
        self.task = None

    async def read(self):
        async with httpx.AsyncClient(timeout=30) as http:
            config = ClientConfig(
                streaming=True,
                httpx_client=http,
                grpc_channel_factory=grpc.aio.insecure_channel,
                supported_protocol_bindings=[self.binding],
            )
            client = None
            while self.task is None or self.task.status.state not in ENDED:
                try:
                    if client is None:
                        client = ClientFactory(config).create(
                            await A2ACardResolver(http, self.url).get_agent_card(), []
                        )
                    await self.follow(client)
                except Exception as error:  # the server is down, or the task has ended before it could subscribe
                    if type(error).__name__ == "UnsupportedOperationError":
                        self.task = await client.get_task(pb.GetTaskRequest(id=self.id))
                await asyncio.sleep(PAUSE)
        texts = {each.artifact_id: "".join(part.text for part in each.parts) for each in self.task.artifacts}
        say(task=self.id, binding=self.binding, artifacts=texts)

    async def follow(self, client):
        async for event in client.subscribe(pb.SubscribeToTaskRequest(id=self.id)):
            match event.WhichOneof("payload"):
                case "task":
                    if self.task is None:
                        say(following=self.id, binding=self.binding)
                    self.task = event.task
                case "artifact_update":
                    append_artifact_to_task(self.task, event.artifact_update)
                case "status_update":
                    self.task.status.CopyFrom(event.status_update.status)


async def main():
    loop, reading = asyncio.get_running_loop(), set()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        reading.add(asyncio.create_task(Reader(**json.loads(line)).read()))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
