"""An agent on a2a-sdk 0.3.26 that says what it hears, over JSON-RPC, REST and gRPC. Any words will do.

It asks when it hears `ask`. Where it is is printed as a line of JSON; then it runs until killed.
"""

import asyncio
import logging
import warnings

import grpc
import httpx
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCard, Part, TaskState, TextPart
from a2a.utils import new_task
from server_process import listening, serve


class Echo(AgentExecutor):
    """Says what it hears."""

    async def execute(self, context, event_queue):
        task = context.current_task
        if task is None:
            task = new_task(context.message)
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        text = context.get_user_input()
        await updater.start_work()
        if text == "ask":
            question = updater.new_agent_message([Part(root=TextPart(text="What?"))])
            await updater.requires_input(question, final=True)
            return
        await updater.add_artifact([Part(root=TextPart(text=text))])
        await updater.complete()

    async def cancel(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.update_status(TaskState.canceled, final=True)


async def main():
    door, port = listening()
    rest_door, rest_port = listening()
    url = f"http://127.0.0.1:{port}"
    grpc_server = grpc.aio.server()
    places = [
        ("JSONRPC", f"{url}/"),
        ("HTTP+JSON", f"http://127.0.0.1:{rest_port}"),
        ("GRPC", f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"),
    ]
    card = AgentCard.model_validate(
        {
            "name": "Old echo",
            "description": "Says what it hears.",
            "version": "1.0.0",
            "url": places[0][1],
            "preferredTransport": places[0][0],
            "additionalInterfaces": [{"transport": binding, "url": place} for binding, place in places],
            "capabilities": {"streaming": True, "pushNotifications": True},
            "defaultInputModes": ["text/plain"],
            "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "echo", "name": "Echo", "description": "Says what it hears.", "tags": ["text"]}],
        }
    )
    hooks = InMemoryPushNotificationConfigStore()
    nowhere = httpx.AsyncClient(transport=httpx.MockTransport(lambda request: httpx.Response(204)))
    handler = DefaultRequestHandler(
        Echo(),
        InMemoryTaskStore(),
        push_config_store=hooks,
        push_sender=BasePushNotificationSender(nowhere, hooks),
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card, handler), grpc_server)
    await grpc_server.start()
    apps = [
        (A2AStarletteApplication(card, handler).build(), door),
        (A2ARESTFastAPIApplication(card, handler).build(), rest_door),
    ]
    await serve(url, *apps, grpc=[grpc_server])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main())
