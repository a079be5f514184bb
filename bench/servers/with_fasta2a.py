"""The measured agent on fasta2a, with the storage and the broker it ships: both in memory.

It answers a send before its worker has run, and its worker does one task at a time.
"""

import asyncio
from contextlib import asynccontextmanager

from fasta2a import FastA2A, Worker
from fasta2a.broker import InMemoryBroker
from fasta2a.schema import Artifact, Part
from fasta2a.storage import InMemoryStorage
from serving import CHUNK, Stage, options, serve


def text_artifact(text: str) -> Artifact:
    return Artifact(artifact_id="response", parts=[Part(text=text)])


class Talker(Worker):
    """Its first word says what it does."""

    stage: Stage

    async def run_task(self, params) -> None:
        task_id, context_id = params["id"], params["context_id"]
        verb, *words = params["message"]["parts"][0]["text"].split()
        await self.storage.update_task(task_id, state="working")
        said, state = " ".join(words), "completed"
        match verb:
            case "talk":
                said = await self.talk(task_id, context_id, int(words[0]), is_pausing=False)
            case "mumble":
                said = await self.talk(task_id, context_id, int(words[0]), is_pausing=True)
            case "gated":
                await self.stage.gate.wait()
                with self.stage.timed():
                    said = await self.talk(task_id, context_id, int(words[0]), is_pausing=True)
            case "ask":
                said, state = "Which?", "input-required"
        await self.storage.update_task(task_id, state=state, new_artifacts=[text_artifact(said)])

    async def talk(self, task_id: str, context_id: str, chunks: int, *, is_pausing: bool) -> str:
        for number in range(chunks):
            await self.publish_artifact(
                task_id, context_id, text_artifact(CHUNK), append=number > 0, last_chunk=number == chunks - 1
            )
            if is_pausing:
                await asyncio.sleep(0)
        return CHUNK * chunks

    async def cancel_task(self, params) -> None:
        raise NotImplementedError

    def build_message_history(self, history) -> list:
        return []

    def build_artifacts(self, result) -> list:
        return []


def app(stage: Stage) -> FastA2A:
    storage, broker = InMemoryStorage(), InMemoryBroker()
    worker = Talker(broker=broker, storage=storage)
    worker.stage = stage

    @asynccontextmanager
    async def lifespan(app: FastA2A):
        async with app.task_manager, worker.run():
            yield

    return FastA2A(storage=storage, broker=broker, lifespan=lifespan)


if __name__ == "__main__":
    stage = Stage()
    serve(app(stage), stage, send_buffer=options().send_buffer)
