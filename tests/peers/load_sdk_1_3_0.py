"""A user of a2a-sdk 1.3.0 under whose streams servers are restarted: its client, and what its users write around it.

    python load_sdk_1_3_0.py URL TEXT…

It keeps a stream going for each text until its input ends, and writes a line for each that is done: `{"message",
"task", "state", "text", "breaks", "problems"}`. Where a stream breaks it subscribes to the task again, or sends the
same message again if it has not heard of a task yet; where the task has ended meanwhile, it reads it.
"""

import asyncio
import json
import logging
import sys
import uuid

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.server.tasks.task_manager import append_artifact_to_task
from a2a.types import a2a_pb2 as pb

ENDED = {pb.TASK_STATE_COMPLETED, pb.TASK_STATE_FAILED, pb.TASK_STATE_CANCELED, pb.TASK_STATE_REJECTED}
PAUSE = 0.1  # before it tries again
MAX_BREAKS = 100


class Conversation:
    """One message, and the task that comes of it."""

    def __init__(self, client, text):
        self.client, self.text = client, text
        self.message_id = str(uuid.uuid4())
        self.task = None
        self.breaks = 0
        self.problems = []

    async def hold(self):
        while self.task is None or self.task.status.state not in ENDED:
            try:
                async for event in self.events():
                    self.add(event)
            except Exception as error:  # the SDK has an error of its own for each binding and status
                self.problems.append(f"{type(error).__name__}: {error}"[:200])
                if type(error).__name__ == "UnsupportedOperationError":  # it has ended meanwhile
                    self.task = await self.read()
            if self.task is None or self.task.status.state not in ENDED:
                self.breaks += 1
                if self.breaks > MAX_BREAKS:
                    break
                await asyncio.sleep(PAUSE)
        self.report()

    def events(self):
        if self.task is not None:
            return self.client.subscribe(pb.SubscribeToTaskRequest(id=self.task.id))
        message = pb.Message(message_id=self.message_id, role=pb.ROLE_USER, parts=[pb.Part(text=self.text)])
        return self.client.send_message(pb.SendMessageRequest(message=message))

    async def read(self):
        while True:
            try:
                return await self.client.get_task(pb.GetTaskRequest(id=self.task.id))
            except Exception as error:
                self.problems.append(f"{type(error).__name__}: {error}"[:200])
                await asyncio.sleep(PAUSE)

    def add(self, event):
        match event.WhichOneof("payload"):
            case "task":
                self.task = event.task
            case "artifact_update":
                append_artifact_to_task(self.task, event.artifact_update)
            case "status_update":
                self.task.status.CopyFrom(event.status_update.status)

    def report(self):
        state, text = "unknown", ""
        if self.task is not None:
            state = pb.TaskState.Name(self.task.status.state)
            text = "".join(part.text for artifact in self.task.artifacts for part in artifact.parts)
        known = {"message": self.message_id, "task": self.task.id if self.task else None}
        seen = {"state": state, "text": text, "breaks": self.breaks, "problems": self.problems}
        print(json.dumps({**known, **seen}), flush=True)


async def main(url, *texts):
    is_over = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    async with httpx.AsyncClient(timeout=30) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        config = ClientConfig(streaming=True, httpx_client=http, supported_protocol_bindings=["JSONRPC"])
        client = ClientFactory(config).create(card, [])

        async def converse(text):
            while not is_over.done():
                await Conversation(client, text).hold()

        await asyncio.gather(*(converse(text) for text in texts))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main(*sys.argv[1:]))
