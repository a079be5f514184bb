"""Records a2a-sdk 0.3.26 talking to itself over JSON-RPC, REST and gRPC.

One script of scenes is played on each binding with the SDK's own client. That client
cannot list or delete push configurations, nor send anything malformed: those requests
are sent raw. Three servers answer: `agent` can do everything, `plain` nothing
optional, and `bare` announces push and an extended card without having either.
"""

import asyncio
import contextlib
import logging

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.grpc import a2a_pb2, a2a_pb2_grpc
from a2a.server.apps import A2ARESTFastAPIApplication, A2AStarletteApplication
from a2a.server.request_handlers import GrpcHandler
from a2a.types import GetTaskPushNotificationConfigParams, TaskIdParams, TaskQueryParams
from pydantic_agent import (
    CITE,
    RAISED,
    TRACE,
    Desk,
    collect,
    extended_card,
    fails,
    full_card,
    make_handler,
    message,
    plain_card,
    rich_message,
    settings,
    task_webhook,
    webhook,
)
from recording import AGENT, Recorder, RecordingChannel, RecordingTransport, Webhook, served, served_grpc, start_afresh

FOLDER = "0.3.26"
BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}


class Play:
    """The servers, the SDK client and the recorder of one binding."""

    def __init__(self, recorder, http, ports, desk, receiver):
        self.recorder, self.scene, self.binding = recorder, recorder.scene, recorder.binding
        self.http, self.ports, self.desk, self.receiver = http, ports, desk, receiver

    def client(self, host="agent", *, streaming=False, push=()):
        """Returns an SDK client that believes `host` can do everything."""
        card = full_card()
        http_url = f"http://{host}.example" + ("/" if self.binding == "jsonrpc" else "")
        card.url = f"{host}.example:50051" if self.binding == "grpc" else http_url
        card.preferred_transport = BINDINGS[self.binding]
        card.additional_interfaces = None
        config = ClientConfig(
            streaming=streaming,
            httpx_client=self.http,
            grpc_channel_factory=self.channel,
            supported_transports=list(BINDINGS.values()),
            accepted_output_modes=["text/plain", "application/json"],
            push_notification_configs=list(push),
        )
        return ClientFactory(config).create(card)

    def channel(self, url: str):
        port = self.ports[f"grpc:{url.partition(':')[0]}"]
        return RecordingChannel(grpc.aio.insecure_channel(f"127.0.0.1:{port}"), self.recorder)


async def send(client, text: str, **ids):
    """Sends without streaming and returns the task, or the message that came instead."""
    [reply] = await collect(client.send_message(message(text, **ids)))
    return reply[0] if isinstance(reply, tuple) else reply


async def send_now(client, text: str):
    stream = client.send_message(message(text), configuration=settings(blocking=False))
    [(task, _)] = await collect(stream)
    return task


async def play_sending(play: Play) -> str:
    """Plays the blocking scenes and returns the id of a finished task."""
    client = play.client()
    async with play.scene("send-text", "SendMessage"):
        done = await send(client, "what is for dinner")
    async with play.scene("send-parts", "SendMessage"):
        stream = client.send_message(
            rich_message(),
            configuration=settings(history_length=5),
            request_metadata={"trace": "abc", "depth": {"a": [1, "two", None]}},
            extensions=[CITE, TRACE],
        )
        await collect(stream)
    async with play.scene("send-message-reply", "SendMessage"):
        await send(client, "just talk")
    async with play.scene("input-required", "SendMessage"):
        asked = await send(client, "ask me")
    async with play.scene("input-answered", "SendMessage"):
        await send(client, "for four", task_id=asked.id, context_id=asked.context_id)
    for name, text in (
        ("send-auth-required", "need login"),
        ("send-failed", "go wrong"),
        ("send-rejected", "refuse"),
    ):
        async with play.scene(name, "SendMessage"):
            await send(client, text)
    return done.id


async def play_streaming(play: Play) -> None:
    client = play.client(streaming=True)
    for name, text in (
        ("stream-chunks", "stream chunks"),
        ("stream-message-reply", "just talk"),
        ("stream-input-required", "ask me"),
    ):
        async with play.scene(name, "SendStreamingMessage"):
            await collect(client.send_message(message(text)))
    async with play.scene("send-now", "SendMessage"):
        started = await send_now(play.client(), "wait for bell")
    async with play.scene("subscribe", "SubscribeToTask"):
        play.desk.ring_soon()
        await collect(client.resubscribe(TaskIdParams(id=started.id)))
    async with play.scene("error-subscribe-finished", "SubscribeToTask"):
        await fails(collect(client.resubscribe(TaskIdParams(id=started.id))))


async def play_tasks(play: Play, done: str) -> None:
    client = play.client()
    async with play.scene("get-task", "GetTask"):
        await client.get_task(TaskQueryParams(id=done))
    async with play.scene("get-task-history", "GetTask"):
        await client.get_task(TaskQueryParams(id=done, history_length=1, metadata={"why": "test"}))
    waiting = await send_now(client, "wait for bell")
    async with play.scene("cancel-task", "CancelTask"):
        await client.cancel_task(TaskIdParams(id=waiting.id, metadata={"reason": "late"}))
    async with play.scene("error-task-not-found", "GetTask"):
        await fails(client.get_task(TaskQueryParams(id="no-such-task")))
    async with play.scene("error-cancel-not-found", "CancelTask"):
        await fails(client.cancel_task(TaskIdParams(id="no-such-task")))
    async with play.scene("error-not-cancelable", "CancelTask"):
        await fails(client.cancel_task(TaskIdParams(id=done)))
    async with play.scene("error-send-to-finished", "SendMessage"):
        await fails(send(client, "again", task_id=done))
    async with play.scene("error-send-to-unknown", "SendMessage"):
        await fails(send(client, "again", task_id="no-such-task"))


async def play_push(play: Play) -> None:
    client = play.client()
    waiting = await send_now(client, "wait for bell")
    async with play.scene("push-create", "CreateTaskPushNotificationConfig"):
        await client.set_task_callback(task_webhook(waiting.id, "hook-1"))
    async with play.scene("push-get", "GetTaskPushNotificationConfig"):
        await client.get_task_callback(
            GetTaskPushNotificationConfigParams(id=waiting.id, push_notification_config_id="hook-1")
        )
    # Only the JSON-RPC server has these two: REST answers 500 and 405, gRPC UNIMPLEMENTED.
    kind = "push" if play.binding == "jsonrpc" else "error-push"
    async with play.scene(f"{kind}-list", "ListTaskPushNotificationConfigs", client="raw"):
        await fails(list_configs(play, waiting.id))
    play.receiver.forget()
    play.desk.bell.set()
    await play.receiver.keep(play.recorder, "webhook", at_least=1)
    async with play.scene(f"{kind}-delete", "DeleteTaskPushNotificationConfig", client="raw"):
        await fails(delete_config(play, waiting.id, "hook-1"))
    # The server ignores the config id and answers with the first one it has, if any.
    async with play.scene("push-get-unknown", "GetTaskPushNotificationConfig"):
        missing = GetTaskPushNotificationConfigParams(id=waiting.id, push_notification_config_id="no-such-hook")
        await fails(client.get_task_callback(missing))
    async with play.scene("send-with-push", "SendMessage"):
        await send(play.client(push=[webhook()]), "ask me")
    await play.receiver.keep(play.recorder, "webhook-input-required")


async def list_configs(play: Play, task_id: str):
    if play.binding == "grpc":
        stub = a2a_pb2_grpc.A2AServiceStub(play.channel("agent.example:50051"))
        request = a2a_pb2.ListTaskPushNotificationConfigRequest(parent=f"tasks/{task_id}")
        return await stub.ListTaskPushNotificationConfig(request)
    if play.binding == "rest":
        return await play.http.get(f"{AGENT}/v1/tasks/{task_id}/pushNotificationConfigs")
    return await call(play, "tasks/pushNotificationConfig/list", {"id": task_id})


async def delete_config(play: Play, task_id: str, config_id: str):
    name = f"tasks/{task_id}/pushNotificationConfigs/{config_id}"
    if play.binding == "grpc":
        stub = a2a_pb2_grpc.A2AServiceStub(play.channel("agent.example:50051"))
        request = a2a_pb2.DeleteTaskPushNotificationConfigRequest(name=name)
        return await stub.DeleteTaskPushNotificationConfig(request)
    if play.binding == "rest":
        return await play.http.delete(f"{AGENT}/v1/{name}")
    params = {"id": task_id, "pushNotificationConfigId": config_id}
    return await call(play, "tasks/pushNotificationConfig/delete", params)


async def call(play: Play, method: str, params: dict):
    body = {"jsonrpc": "2.0", "id": "raw-1", "method": method, "params": params}
    return await play.http.post(f"{AGENT}/", json=body)


async def play_refusals(play: Play) -> None:
    """Plays the calls that a server without optional capabilities refuses."""
    plain, plain_stream = play.client("plain"), play.client("plain", streaming=True)
    done = await send(plain, "what is for dinner")
    async with play.scene("error-push-not-supported", "CreateTaskPushNotificationConfig"):
        await fails(plain.set_task_callback(task_webhook(done.id, "hook-1")))
    async with play.scene("error-unsupported-stream", "SendStreamingMessage"):
        await fails(collect(plain_stream.send_message(message("stream chunks"))))
    bare = play.client("bare")
    unstored = await send(bare, "what is for dinner")
    async with play.scene("error-unsupported-push", "CreateTaskPushNotificationConfig"):
        await fails(bare.set_task_callback(task_webhook(unstored.id, "hook-1")))
    async with play.scene("card-extended", "GetExtendedAgentCard"):
        await play.client().get_card()
    async with play.scene("card-extended-undeclared", "GetExtendedAgentCard"):
        await fails(plain.get_card())
    async with play.scene("card-extended-not-configured", "GetExtendedAgentCard"):
        await fails(play.client("bare").get_card())
    for name, error in RAISED.items():
        async with play.scene(name, "SendMessage"):
            await fails(send(play.client(), f"raise {error}"))


async def play_raw_jsonrpc(play: Play) -> None:
    envelope = {"jsonrpc": "2.0", "id": 5, "method": "message/send"}
    for name, body in (
        ("error-parse", b'{"jsonrpc": "2.0", "id": 1, "method": '),
        ("error-method-not-found", {"jsonrpc": "2.0", "id": 2, "method": "tasks/dream"}),
        ("error-invalid-request", {"id": 3, "method": 7}),
        ("error-batch", [envelope]),
        ("error-params-type", envelope | {"params": [1]}),
        ("error-invalid-params", envelope | {"params": {"message": {"role": "user"}}}),
        ("error-params-missing", {"jsonrpc": "2.0", "id": "six", "method": "tasks/get"}),
    ):
        await post_raw(play, name, "/", body)


async def play_raw_rest(play: Play) -> None:
    await post_raw(play, "error-parse", "/v1/message:send", b'{"message": ')
    await post_raw(play, "error-params-type", "/v1/message:send", {"message": "hello"})
    await post_raw(play, "error-invalid-params", "/v1/message:send", {"message": {}})
    await post_raw(play, "error-method-not-found", "/v1/dream:now", {})
    async with play.scene("error-list-tasks", "ListTasks", client="raw"):
        await play.http.get(f"{AGENT}/v1/tasks")


async def post_raw(play: Play, name: str, path: str, body) -> None:
    async with play.scene(name, client="raw"):
        kind = "content" if isinstance(body, bytes) else "json"
        headers = {"content-type": "application/json"}
        await play.http.post(AGENT + path, headers=headers, **{kind: body})


async def play_cards(play: Play) -> None:
    resolver = A2ACardResolver(play.http, AGENT)
    async with play.scene("public", binding="card"):
        await resolver.get_agent_card()
    async with play.scene("public-old-path", binding="card"):
        await resolver.get_agent_card("/.well-known/agent.json")
    async with play.scene("extended-old-path", "GetExtendedAgentCard", binding="card"):
        await resolver.get_agent_card("/agent/authenticatedExtendedCard")
    async with play.scene("public-plain", binding="card"):
        await A2ACardResolver(play.http, "http://plain.example").get_agent_card()


async def play_everything(play: Play) -> None:
    done = await play_sending(play)
    await play_streaming(play)
    await play_tasks(play, done)
    await play_push(play)
    await play_refusals(play)
    if play.binding == "jsonrpc":
        await play_raw_jsonrpc(play)
        await play_cards(play)
    if play.binding == "rest":
        await play_raw_rest(play)


async def record(binding: str) -> None:
    desk, receiver = Desk(), Webhook()
    cards = {"agent": full_card(), "plain": plain_card(), "bare": full_card()}
    recorder = Recorder(peer="a2a-sdk 0.3.26", dialect="0.3", folder=FOLDER, binding=binding)
    make_app = A2ARESTFastAPIApplication if binding == "rest" else A2AStarletteApplication
    async with contextlib.AsyncExitStack() as stack:
        ports = {}
        for host, card in cards.items():
            handler = make_handler(desk, receiver, push=host == "agent")
            extended = extended_card() if host == "agent" else None
            app = make_app(card, handler, extended_agent_card=extended).build()
            ports[f"{host}.example"] = await stack.enter_async_context(served(app))

            def register(server, card=card, handler=handler):
                servicer = GrpcHandler(card, handler)
                a2a_pb2_grpc.add_A2AServiceServicer_to_server(servicer, server)

            ports[f"grpc:{host}.example"] = await stack.enter_async_context(served_grpc(register))
        http = await stack.enter_async_context(
            httpx.AsyncClient(transport=RecordingTransport(recorder, ports), timeout=20)
        )
        await play_everything(Play(recorder, http, ports, desk, receiver))


async def main() -> None:
    start_afresh(FOLDER)
    for binding in BINDINGS:
        await record(binding)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
