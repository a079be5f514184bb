"""Records a2a-sdk 0.2.16 talking to itself over JSON-RPC and gRPC (it has no REST).

Its two clients have different methods, so each binding has its own short script. They
cannot resubscribe, list or delete push configurations, or send anything malformed:
those requests are sent raw. Three servers answer: `agent` can do everything, `plain`
nothing optional, and `bare` announces push and an extended card without having either.
"""

import asyncio
import contextlib
import logging
import warnings

import grpc
import httpx
from a2a import types
from a2a.client import A2ACardResolver, A2AClient, A2AGrpcClient
from a2a.grpc import a2a_pb2, a2a_pb2_grpc
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import GrpcHandler
from pydantic_agent import (
    CITE,
    RAISED,
    Desk,
    collect,
    extended_card,
    fails,
    full_card,
    make_handler,
    params,
    plain_card,
    rich_message,
    settings,
    task_webhook,
    webhook,
)
from recording import AGENT, Recorder, RecordingChannel, RecordingTransport, Webhook, served, served_grpc, start_afresh

FOLDER = "0.2.16"
background: set[asyncio.Task] = set()
SENDING = {
    "send-message-reply": "just talk",
    "send-auth-required": "need login",
    "send-failed": "go wrong",
    "send-rejected": "refuse",
}
STREAMING = {
    "stream-chunks": "stream chunks",
    "stream-message-reply": "just talk",
    "stream-input-required": "ask me",
}


def rich_params() -> types.MessageSendParams:
    return types.MessageSendParams(
        message=rich_message(),
        configuration=settings(history_length=5),
        metadata={"trace": "abc", "depth": {"a": [1, "two", None]}},
    )


def push_params() -> types.MessageSendParams:
    asking = params("ask me")
    asking.configuration = settings(push_notification_config=webhook())
    return asking


async def running_task(stream) -> types.Task:
    """Returns the task that a stream opens with, and reads the rest in the background.

    This server waits for the agent even when `blocking` is false, so only a stream
    hands out a task that is still running.
    """
    first = await anext(stream)
    background.add(asyncio.create_task(collect(stream)))
    return first.root.result if hasattr(first, "root") else first


class JsonRpcPlay:
    """The scenes of the JSON-RPC binding."""

    def __init__(self, recorder, http, desk, receiver):
        self.recorder, self.scene, self.http = recorder, recorder.scene, http
        self.desk, self.receiver = desk, receiver
        self.client = A2AClient(http, url=f"{AGENT}/")

    async def send(self, sending: types.MessageSendParams, *, client=None, **http):
        request = types.SendMessageRequest(id=sending.message.message_id, params=sending)
        reply = await (client or self.client).send_message(request, **http)
        return getattr(reply.root, "result", None) or reply.root.error

    async def stream(self, sending: types.MessageSendParams, client=None) -> list:
        request = types.SendStreamingMessageRequest(id=7, params=sending)
        return await collect((client or self.client).send_message_streaming(request))

    async def start_waiting(self) -> types.Task:
        request = types.SendStreamingMessageRequest(id=8, params=params("wait for bell"))
        return await running_task(self.client.send_message_streaming(request))

    async def get(self, task_id: str, **fields):
        query = types.TaskQueryParams(id=task_id, **fields)
        return await self.client.get_task(types.GetTaskRequest(id="get-1", params=query))

    async def cancel(self, task_id: str, **fields):
        which = types.TaskIdParams(id=task_id, **fields)
        return await self.client.cancel_task(types.CancelTaskRequest(id="cancel-1", params=which))

    async def set_push(self, config: types.TaskPushNotificationConfig, client=None):
        request = types.SetTaskPushNotificationConfigRequest(id="push-1", params=config)
        return await (client or self.client).set_task_callback(request)

    async def call(self, method: str, fields: dict) -> None:
        body = {"jsonrpc": "2.0", "id": "raw-1", "method": method, "params": fields}
        await self.http.post(f"{AGENT}/", json=body)

    async def play(self) -> None:
        await self.play_sending()
        await self.play_tasks()
        await self.play_push()
        await self.play_refusals()
        await self.play_raw()
        await self.play_cards()

    async def play_sending(self) -> None:
        async with self.scene("send-text", "SendMessage"):
            self.done = await self.send(params("what is for dinner"))
        async with self.scene("send-parts", "SendMessage"):
            headers = {"headers": {"X-A2A-Extensions": CITE}}
            await self.send(rich_params(), http_kwargs=headers)
        async with self.scene("input-required", "SendMessage"):
            asked = await self.send(params("ask me"))
        ids = {"task_id": asked.id, "context_id": asked.context_id}
        async with self.scene("input-answered", "SendMessage"):
            await self.send(params("for four", **ids))
        for name, text in SENDING.items():
            async with self.scene(name, "SendMessage"):
                await self.send(params(text))
        for name, text in STREAMING.items():
            async with self.scene(name, "SendStreamingMessage"):
                await self.stream(params(text))

    async def play_tasks(self) -> None:
        started = await self.start_waiting()
        async with self.scene("subscribe", "SubscribeToTask", client="raw"):
            self.desk.ring_soon()
            await self.call("tasks/resubscribe", {"id": started.id})
        async with self.scene("get-task", "GetTask"):
            await self.get(self.done.id)
        async with self.scene("get-task-history", "GetTask"):
            await self.get(self.done.id, history_length=1)
        waiting = await self.start_waiting()
        async with self.scene("cancel-task", "CancelTask"):
            await self.cancel(waiting.id, metadata={"reason": "late"})
        async with self.scene("error-task-not-found", "GetTask"):
            await self.get("no-such-task")
        async with self.scene("error-not-cancelable", "CancelTask"):
            await self.cancel(self.done.id)
        async with self.scene("error-send-to-finished", "SendMessage"):
            await self.send(params("again", task_id=self.done.id))
        async with self.scene("error-subscribe-finished", "SubscribeToTask", client="raw"):
            await self.call("tasks/resubscribe", {"id": self.done.id})

    async def play_push(self) -> None:
        waiting = await self.start_waiting()
        async with self.scene("push-create", "CreateTaskPushNotificationConfig"):
            await self.set_push(task_webhook(waiting.id, "hook-1"))
        async with self.scene("push-get", "GetTaskPushNotificationConfig"):
            which = types.GetTaskPushNotificationConfigParams(id=waiting.id, push_notification_config_id="hook-1")
            request = types.GetTaskPushNotificationConfigRequest(id="get-push", params=which)
            await self.client.get_task_callback(request)
        async with self.scene("push-list", "ListTaskPushNotificationConfigs", client="raw"):
            await self.call("tasks/pushNotificationConfig/list", {"id": waiting.id})
        self.receiver.forget()
        self.desk.bell.set()
        await self.receiver.keep(self.recorder, "webhook")
        async with self.scene("push-delete", "DeleteTaskPushNotificationConfig", client="raw"):
            fields = {"id": waiting.id, "pushNotificationConfigId": "hook-1"}
            await self.call("tasks/pushNotificationConfig/delete", fields)
        async with self.scene("send-with-push", "SendMessage"):
            await self.send(push_params())
        await self.receiver.keep(self.recorder, "webhook-input-required")

    async def play_refusals(self) -> None:
        plain = A2AClient(self.http, url="http://plain.example/")
        bare = A2AClient(self.http, url="http://bare.example/")
        done = await self.send(params("what is for dinner"), client=plain)
        async with self.scene("error-push-not-supported", "CreateTaskPushNotificationConfig"):
            await fails(self.set_push(task_webhook(done.id, "hook-1"), plain))
        async with self.scene("error-unsupported-stream", "SendStreamingMessage"):
            await fails(self.stream(params("stream chunks"), plain))
        done = await self.send(params("what is for dinner"), client=bare)
        async with self.scene("error-unsupported-push", "CreateTaskPushNotificationConfig"):
            await fails(self.set_push(task_webhook(done.id, "hook-1"), bare))
        for name, error in RAISED.items():
            async with self.scene(name, "SendMessage"):
                await fails(self.send(params(f"raise {error}")))

    async def play_raw(self) -> None:
        envelope = {"jsonrpc": "2.0", "id": 5, "method": "message/send"}
        for name, body in (
            ("error-parse", b'{"jsonrpc": "2.0", "id": 1, "method": '),
            ("error-method-not-found", {"jsonrpc": "2.0", "id": 2, "method": "tasks/dream"}),
            ("error-invalid-request", {"id": 3, "method": 7}),
            ("error-batch", [envelope]),
            ("error-params-type", envelope | {"params": [1]}),
            ("error-invalid-params", envelope | {"params": {"message": {"role": "user"}}}),
        ):
            kind = "content" if isinstance(body, bytes) else "json"
            async with self.scene(name, client="raw"):
                headers = {"content-type": "application/json"}
                await self.http.post(f"{AGENT}/", headers=headers, **{kind: body})

    async def play_cards(self) -> None:
        resolver = A2ACardResolver(self.http, AGENT)
        async with self.scene("public", binding="card"):
            await resolver.get_agent_card()
        async with self.scene("extended", "GetExtendedAgentCard", binding="card"):
            await resolver.get_agent_card("/agent/authenticatedExtendedCard")
        async with self.scene("public-plain", binding="card"):
            await A2ACardResolver(self.http, "http://plain.example").get_agent_card()
        for host, name in (("plain", "unsupported"), ("bare", "not-configured")):
            scene = self.scene(f"error-extended-{name}", "GetExtendedAgentCard", binding="card")
            async with scene:
                other = A2ACardResolver(self.http, f"http://{host}.example")
                await fails(other.get_agent_card("/agent/authenticatedExtendedCard"))


class GrpcPlay:
    """The scenes of the gRPC binding."""

    def __init__(self, recorder, ports, desk, receiver):
        self.recorder, self.scene, self.ports = recorder, recorder.scene, ports
        self.desk, self.receiver = desk, receiver
        self.client = self.client_of("agent")

    def client_of(self, host: str) -> A2AGrpcClient:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.ports[f'grpc:{host}.example']}")
        self.stub = a2a_pb2_grpc.A2AServiceStub(RecordingChannel(channel, self.recorder))
        return A2AGrpcClient(self.stub, full_card())

    async def start_waiting(self) -> types.Task:
        return await running_task(self.client.send_message_streaming(params("wait for bell")))

    async def play(self) -> None:
        client, stub = self.client, self.stub
        async with self.scene("send-text", "SendMessage"):
            done = await client.send_message(params("what is for dinner"))
        async with self.scene("send-parts", "SendMessage"):
            await client.send_message(rich_params())
        async with self.scene("input-required", "SendMessage"):
            asked = await client.send_message(params("ask me"))
        ids = {"task_id": asked.id, "context_id": asked.context_id}
        async with self.scene("input-answered", "SendMessage"):
            await client.send_message(params("for four", **ids))
        for name, text in SENDING.items():
            async with self.scene(name, "SendMessage"):
                await client.send_message(params(text))
        for name, text in STREAMING.items():
            async with self.scene(name, "SendStreamingMessage"):
                await collect(client.send_message_streaming(params(text)))
        started = await self.start_waiting()
        async with self.scene("subscribe", "SubscribeToTask", client="raw"):
            self.desk.ring_soon()
            which = a2a_pb2.TaskSubscriptionRequest(name=f"tasks/{started.id}")
            await collect(stub.TaskSubscription(which))
        await self.play_tasks(done.id)
        await self.play_push()
        await self.play_refusals()
        async with self.scene("card-extended", "GetExtendedAgentCard", client="raw"):
            await stub.GetAgentCard(a2a_pb2.GetAgentCardRequest())

    async def play_tasks(self, done: str) -> None:
        client = self.client
        async with self.scene("get-task", "GetTask"):
            await client.get_task(types.TaskQueryParams(id=done))
        waiting = await self.start_waiting()
        async with self.scene("cancel-task", "CancelTask"):
            await client.cancel_task(types.TaskIdParams(id=waiting.id))
        async with self.scene("error-task-not-found", "GetTask"):
            await fails(client.get_task(types.TaskQueryParams(id="no-such-task")))
        async with self.scene("error-not-cancelable", "CancelTask"):
            await fails(client.cancel_task(types.TaskIdParams(id=done)))
        async with self.scene("error-send-to-finished", "SendMessage"):
            await fails(client.send_message(params("again", task_id=done)))

    async def play_push(self) -> None:
        client = self.client
        waiting = await self.start_waiting()
        # Neither can succeed: the server returns a pydantic model where gRPC wants a
        # message, and the client asks for a resource name that the server rejects.
        async with self.scene("error-push-create", "CreateTaskPushNotificationConfig"):
            await fails(client.set_task_callback(task_webhook(waiting.id, "hook-1")))
        async with self.scene("error-push-get", "GetTaskPushNotificationConfig"):
            await fails(client.get_task_callback(types.TaskIdParams(id=waiting.id)))
        self.desk.bell.set()
        await asyncio.wait(background, timeout=1)
        self.receiver.forget()
        async with self.scene("send-with-push", "SendMessage"):
            await client.send_message(push_params())
        await self.receiver.keep(self.recorder, "webhook-input-required")

    async def play_refusals(self) -> None:
        plain = self.client_of("plain")
        done = await plain.send_message(params("what is for dinner"))
        async with self.scene("error-push-not-supported", "CreateTaskPushNotificationConfig"):
            await fails(plain.set_task_callback(task_webhook(done.id, "hook-1")))
        async with self.scene("error-unsupported-stream", "SendStreamingMessage"):
            await fails(collect(plain.send_message_streaming(params("stream chunks"))))
        for name, error in RAISED.items():
            async with self.scene(name, "SendMessage"):
                await fails(self.client.send_message(params(f"raise {error}")))


async def record(binding: str) -> None:
    desk, receiver = Desk(), Webhook()
    cards = {"agent": full_card(), "plain": plain_card(), "bare": full_card()}
    recorder = Recorder(peer="a2a-sdk 0.2.16", dialect="0.2", folder=FOLDER, binding=binding)
    async with contextlib.AsyncExitStack() as stack:
        ports = {}
        for host, card in cards.items():
            handler = make_handler(desk, receiver, push=host == "agent")
            extended = extended_card() if host == "agent" else None
            app = A2AStarletteApplication(card, handler, extended_agent_card=extended).build()
            ports[f"{host}.example"] = await stack.enter_async_context(served(app))

            def register(server, card=card, handler=handler):
                servicer = GrpcHandler(card, handler)
                a2a_pb2_grpc.add_A2AServiceServicer_to_server(servicer, server)

            ports[f"grpc:{host}.example"] = await stack.enter_async_context(served_grpc(register))
        if binding == "grpc":
            await GrpcPlay(recorder, ports, desk, receiver).play()
            return
        http = await stack.enter_async_context(
            httpx.AsyncClient(transport=RecordingTransport(recorder, ports), timeout=20)
        )
        await JsonRpcPlay(recorder, http, desk, receiver).play()


async def main() -> None:
    start_afresh(FOLDER)
    for binding in ("jsonrpc", "grpc"):
        await record(binding)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main())
