"""The measured agent on a2a-sdk: its default handler and JSON-RPC routes, in memory or on its database store.

The agent publishes what the SDK asks for and no more: the task, its artifact, its end.
"""

import asyncio
import logging
from contextlib import asynccontextmanager

from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskUpdater
from a2a.types import a2a_pb2 as pb
from serving import CHUNK, Stage, options, serve
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette


class Talker(AgentExecutor):
    """Its first word says what it does."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    async def execute(self, context, event_queue) -> None:
        verb, *words = context.get_user_input().split()
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        match verb:
            case "echo":
                await updater.add_artifact([pb.Part(text=" ".join(words))], artifact_id="response")
            case "talk":
                await self.talk(updater, int(words[0]), is_pausing=False)
            case "mumble":
                await self.talk(updater, int(words[0]), is_pausing=True)
            case "gated":
                await updater.start_work()
                await self.stage.gate.wait()
                with self.stage.timed():
                    await self.talk(updater, int(words[0]), is_pausing=True)
            case "ask":
                await updater.requires_input(updater.new_agent_message([pb.Part(text="Which?")]))
                return
        await updater.complete()

    async def talk(self, updater, chunks: int, *, is_pausing: bool) -> None:
        for number in range(chunks):
            await updater.add_artifact(
                [pb.Part(text=CHUNK)], artifact_id="response", append=number > 0, last_chunk=number == chunks - 1
            )
            if is_pausing:
                await asyncio.sleep(0)

    async def cancel(self, context, event_queue) -> None:
        raise NotImplementedError


def app(stage: Stage, store: str) -> Starlette:
    card = pb.AgentCard(name="Bench", description="Measured.", version="1")
    card.supported_interfaces.add(url="http://127.0.0.1/", protocol_binding="JSONRPC", protocol_version="1.0")
    card.capabilities.streaming = True
    url = store if "://" in store else f"sqlite+aiosqlite:///{store}"
    tasks = DatabaseTaskStore(create_async_engine(url)) if store else InMemoryTaskStore()
    handler = DefaultRequestHandler(agent_executor=Talker(stage), task_store=tasks, agent_card=card)

    @asynccontextmanager
    async def lifespan(app: Starlette):
        if isinstance(tasks, DatabaseTaskStore):
            await tasks.initialize()  # the first two requests at once would both make the table, and one would fail
        yield

    return Starlette(routes=create_jsonrpc_routes(handler, "/"), lifespan=lifespan)


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # a subscriber that went away is no news here
    stage, chosen = Stage(), options()
    serve(app(stage, chosen.store), stage, send_buffer=chosen.send_buffer)
