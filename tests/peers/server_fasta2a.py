"""The agent of the scenario on fasta2a, with the storage and the broker it ships: both in memory.

One worker of it does one thing at a time, a cancel included, so there are four. Its storage has no place for what an
agent says with a state, and a message to a task begins another one: only the context tells that it is an answer.
"""

import asyncio
import logging
from contextlib import AsyncExitStack, asynccontextmanager

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Message
from fasta2a.storage import InMemoryStorage
from server_process import GATES, MODES, SKILLS, counting, listening, serve

STOPS: dict[str, asyncio.Event] = {}


class Scenario(Worker):
    """The first word of a message says what it does."""

    async def run_task(self, params):
        task_id, context_id, parts = params["id"], params["context_id"], params["message"]["parts"]
        stop = STOPS.setdefault(task_id, asyncio.Event())
        await self.storage.update_task(task_id, state="working")
        await self.publish_status(task_id, context_id, "working")
        if await self.storage.load_context(context_id) == "asked":
            await self.storage.update_context(context_id, None)
            await self.finish(task_id, {"text": f"A table for {parts[0]['text']}."})
            return
        text = parts[0]["text"]
        match text.split()[0]:
            case "echo":
                await self.finish(task_id, {"text": text.removeprefix("echo ")})
            case "count":
                await self.count(task_id, context_id, text)
            case "open":
                GATES[text.split()[1]].set()
                await self.finish(task_id, {"text": "open"})
            case "ask":
                await self.storage.update_context(context_id, "asked")
                question = Message(role="agent", parts=[{"text": "For how many?"}], message_id="q")
                await self.publish_status(task_id, context_id, "input-required", question)
                await self.storage.update_task(task_id, state="input-required", new_messages=[question])
            case "files":
                await self.finish(task_id, *parts[1:])
            case "data":
                await self.finish(task_id, {"data": {"got": parts[1]["data"]}})
            case "fail":
                raise RuntimeError("The oven is broken.")
            case "reject":
                await self.storage.update_task(task_id, state="rejected")
            case "wait":
                await stop.wait()

    async def finish(self, task_id, *parts):
        await self.storage.update_task(task_id, "completed", [Artifact(artifact_id="answer", parts=list(parts))])

    async def count(self, task_id, context_id, text):
        last, pause, gate = counting(text)
        for number in range(1, last + 1):
            chunk = Artifact(artifact_id="numbers", parts=[{"text": f"{number} "}])
            await self.publish_artifact(task_id, context_id, chunk, append=number > 1, last_chunk=number == last)
            if number == pause:
                await GATES[gate].wait()
        said = "".join(f"{number} " for number in range(1, last + 1))
        whole = Artifact(artifact_id="numbers", parts=[{"text": said}])
        await self.storage.update_task(task_id, "completed", [whole])

    async def cancel_task(self, params):
        if await self.storage.load_task(params["id"]) is None:
            return  # an error here would end the worker, and the server with it
        await self.storage.update_task(params["id"], state="canceled")
        STOPS.setdefault(params["id"], asyncio.Event()).set()

    def build_message_history(self, history):
        return []

    def build_artifacts(self, result):
        return []


def make_app(url):
    storage, broker = InMemoryStorage(), InMemoryBroker()

    @asynccontextmanager
    async def lifespan(app):
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(app.task_manager)
            for _ in range(4):
                await stack.enter_async_context(Scenario(broker=broker, storage=storage).run())
            yield

    return FastA2A(
        storage=storage,
        broker=broker,
        name="Scenario",
        url=f"{url}/",
        version="4.2.0",
        description="Does what the interop tests ask for.",
        skills=[{**skill, "input_modes": MODES, "output_modes": MODES} for skill in SKILLS],
        default_input_modes=MODES,
        default_output_modes=MODES,
        lifespan=lifespan,
    )


async def main():
    door, port = listening()
    url = f"http://127.0.0.1:{port}"
    await serve(url, (make_app(url), door))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
