"""The agent of the scenario on a2a-sdk 0.3.26 (JSON-RPC, REST, gRPC) and on 0.2.16 (JSON-RPC, gRPC).

Both generations describe the protocol with pydantic models of the same names; the environment that runs this script
decides which of them it is. With the word `push` it calls webhooks for real.
"""

import asyncio
import importlib.metadata
import logging
import sys
import warnings

import grpc
import httpx
from a2a.grpc import a2a_pb2_grpc
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCard,
    ContentTypeNotSupportedError,
    DataPart,
    FilePart,
    Part,
    TaskNotCancelableError,
    TaskState,
    TextPart,
)
from a2a.utils import new_task
from a2a.utils.errors import ServerError
from server_process import GATES, MODES, SKILLS, VAULT, counting, listening, serve

IS_0_3 = importlib.metadata.version("a2a-sdk").startswith("0.3")
ENDED = (TaskState.completed, TaskState.canceled, TaskState.failed, TaskState.rejected)


class Scenario(AgentExecutor):
    """The first word of a message says what it does."""

    async def execute(self, context, event_queue):
        for part in context.message.parts:
            if isinstance(part.root, FilePart) and part.root.file.mime_type not in MODES:
                raise ServerError(error=ContentTypeNotSupportedError())
        task = context.current_task
        if task is not None:
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await self.finish(updater, text_part(f"A table for {context.get_user_input()}."))
            return
        task = new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        text = context.get_user_input()
        await getattr(self, text.split()[0])(updater, text, context.message)

    async def cancel(self, context, event_queue):
        # The server of 0.2 leaves this check to the agent.
        if context.current_task.status.state in ENDED:
            raise ServerError(error=TaskNotCancelableError())
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.update_status(TaskState.canceled, final=True)

    def say(self, updater, text):
        return updater.new_agent_message([text_part(text)])

    async def finish(self, updater, *parts):
        await updater.add_artifact(list(parts))
        await updater.complete()

    async def echo(self, updater, text, message):
        await self.finish(updater, text_part(text.removeprefix("echo ")))

    async def count(self, updater, text, message):
        last, pause, gate = counting(text)
        await updater.start_work()
        for number in range(1, last + 1):
            part = text_part(f"{number} ")
            await updater.add_artifact([part], artifact_id="numbers", append=number > 1, last_chunk=number == last)
            if number == pause:
                await GATES[gate].wait()
        # At the final event the server's own reader empties the queues of all subscribers;
        # one that is still busy with the event before loses the final one.
        await asyncio.sleep(0.1)
        await updater.complete()

    async def open(self, updater, text, message):
        GATES[text.split()[1]].set()
        await self.finish(updater, text_part("open"))

    async def ask(self, updater, text, message):
        await updater.start_work()
        await updater.requires_input(self.say(updater, "For how many?"), final=True)

    async def files(self, updater, text, message):
        await self.finish(updater, *message.parts[1:])

    async def data(self, updater, text, message):
        await self.finish(updater, Part(root=DataPart(data={"got": message.parts[1].root.data})))

    async def fail(self, updater, text, message):
        await updater.failed(self.say(updater, "The oven is broken."))

    async def reject(self, updater, text, message):
        await updater.reject(self.say(updater, "Not on Sundays."))

    async def wait(self, updater, text, message):
        await updater.start_work()
        await asyncio.Event().wait()


def text_part(text):
    return Part(root=TextPart(text=text))


def make_card(places, *, skills):
    binding, url = places[0]
    fields = {
        "name": "Scenario",
        "description": "Does what the interop tests ask for.",
        "version": "4.2.0",
        "url": url,
        "preferredTransport": binding,
        "additionalInterfaces": [{"transport": other, "url": place} for other, place in places],
        "capabilities": {"streaming": True, "pushNotifications": True},
        "supportsAuthenticatedExtendedCard": True,
        "defaultInputModes": MODES,
        "defaultOutputModes": MODES,
        "skills": skills,
    }
    return AgentCard.model_validate(fields)


async def main():
    door, port = listening()
    rest_door, rest_port = listening()
    url = f"http://127.0.0.1:{port}"
    grpc_server = grpc.aio.server()
    places = [
        ("JSONRPC", f"{url}/"),
        *([("HTTP+JSON", f"http://127.0.0.1:{rest_port}")] if IS_0_3 else []),
        ("GRPC", f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"),
    ]
    card, extended = make_card(places, skills=SKILLS), make_card(places, skills=[*SKILLS, VAULT])
    hooks = InMemoryPushNotificationConfigStore()
    nowhere = None if "push" in sys.argv else httpx.MockTransport(lambda request: httpx.Response(204))
    handler = DefaultRequestHandler(
        Scenario(),
        InMemoryTaskStore(),
        push_config_store=hooks,
        push_sender=BasePushNotificationSender(httpx.AsyncClient(transport=nowhere), hooks),
    )
    a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(card, handler), grpc_server)
    await grpc_server.start()
    apps = [(A2AStarletteApplication(card, handler, extended_agent_card=extended).build(), door)]
    if IS_0_3:
        from a2a.server.apps import A2ARESTFastAPIApplication

        apps.append((A2ARESTFastAPIApplication(card, handler, extended_agent_card=extended).build(), rest_door))
    await serve(url, *apps, grpc=[grpc_server])


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main())
