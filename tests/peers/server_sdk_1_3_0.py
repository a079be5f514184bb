"""The agent of the scenario on a2a-sdk 1.3.0: dialect 1.0, and 0.3 by its compatibility layer, on every binding.

With the word `push` it calls webhooks for real.
"""

import asyncio
import logging
import sys

import grpc
import httpx
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from a2a.utils.errors import ContentTypeNotSupportedError
from google.protobuf.json_format import MessageToDict, ParseDict
from server_process import GATES, MODES, SKILLS, VAULT, counting, listening, serve
from starlette.applications import Starlette


class Scenario(AgentExecutor):
    """The first word of a message says what it does."""

    async def execute(self, context, event_queue):
        for part in context.message.parts:
            if part.media_type and part.media_type not in MODES:
                raise ContentTypeNotSupportedError
        task = context.current_task
        if task is not None:
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await self.finish(updater, pb.Part(text=f"A table for {context.get_user_input()}."))
            return
        task = new_task_from_user_message(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        text = context.get_user_input()
        await getattr(self, text.split()[0])(updater, text, context.message)

    async def cancel(self, context, event_queue):
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    def say(self, updater, text):
        return updater.new_agent_message([pb.Part(text=text)])

    async def finish(self, updater, *parts):
        await updater.add_artifact(list(parts))
        await updater.complete()

    async def echo(self, updater, text, message):
        await self.finish(updater, pb.Part(text=text.removeprefix("echo ")))

    async def count(self, updater, text, message):
        last, pause, gate = counting(text)
        await updater.start_work()
        for number in range(1, last + 1):
            part = pb.Part(text=f"{number} ")
            await updater.add_artifact([part], artifact_id="numbers", append=number > 1, last_chunk=number == last)
            if number == pause:
                await GATES[gate].wait()
        await updater.complete()

    async def open(self, updater, text, message):
        GATES[text.split()[1]].set()
        await self.finish(updater, pb.Part(text="open"))

    async def ask(self, updater, text, message):
        await updater.start_work()
        await updater.requires_input(self.say(updater, "For how many?"))

    async def files(self, updater, text, message):
        await self.finish(updater, *message.parts[1:])

    async def data(self, updater, text, message):
        await self.finish(updater, ParseDict({"data": {"got": MessageToDict(message.parts[1].data)}}, pb.Part()))

    async def fail(self, updater, text, message):
        await updater.failed(self.say(updater, "The oven is broken."))

    async def reject(self, updater, text, message):
        await updater.reject(self.say(updater, "Not on Sundays."))

    async def wait(self, updater, text, message):
        await updater.start_work()
        await asyncio.Event().wait()


def make_card(url, grpc_url, *, skills):
    places = {"JSONRPC": f"{url}/", "HTTP+JSON": url, "GRPC": grpc_url}
    return ParseDict(
        {
            "name": "Scenario",
            "description": "Does what the interop tests ask for.",
            "version": "4.2.0",
            "supportedInterfaces": [
                {"url": place, "protocolBinding": binding, "protocolVersion": version}
                for version in ("1.0", "0.3")
                for binding, place in places.items()
            ],
            "capabilities": {"streaming": True, "pushNotifications": True, "extendedAgentCard": True},
            "defaultInputModes": MODES,
            "defaultOutputModes": MODES,
            "skills": skills,
        },
        pb.AgentCard(),
    )


async def main():
    door, port = listening()
    grpc_server = grpc.aio.server()
    grpc_url = f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
    url = f"http://127.0.0.1:{port}"
    card = make_card(url, grpc_url, skills=SKILLS)
    hooks = InMemoryPushNotificationConfigStore()
    nowhere = None if "push" in sys.argv else httpx.MockTransport(lambda request: httpx.Response(204))
    handler = DefaultRequestHandler(
        Scenario(),
        InMemoryTaskStore(),
        card,
        push_config_store=hooks,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(transport=nowhere), hooks),
        extended_agent_card=make_card(url, grpc_url, skills=[*SKILLS, VAULT]),
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc_server)
    a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), grpc_server)
    await grpc_server.start()
    app = Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
            *create_rest_routes(handler, enable_v0_3_compat=True),
        ]
    )
    await serve(url, (app, door), grpc=[grpc_server])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
