"""Records a2a-sdk 1.3.0 talking to itself: 1.0 and its 0.3 compatibility, on every binding.

One script of scenes is played six times with the SDK's own client (JSON-RPC, REST
and gRPC in each dialect); what that client cannot say is sent raw at the end of each
play. Three servers answer: `agent` can do everything, `plain` nothing optional, and
`bare` announces an extended card that it does not have.
"""

import asyncio
import contextlib
import logging

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientCallContext
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.compat.v0_3 import a2a_v0_3_pb2_grpc
from a2a.compat.v0_3.grpc_handler import CompatGrpcHandler
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler, GrpcHandler
from a2a.server.routes import (
    create_agent_card_routes,
    create_jsonrpc_routes,
    create_rest_routes,
)
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import a2a_pb2 as pb
from a2a.types import a2a_pb2_grpc
from a2a.utils import errors
from google.protobuf.json_format import ParseDict
from recording import (
    AGENT,
    WEBHOOK,
    Recorder,
    RecordingChannel,
    RecordingTransport,
    Webhook,
    served,
    served_grpc,
    start_afresh,
)
from starlette.applications import Starlette

PEER = "a2a-sdk 1.3.0"
CITE = "https://extensions.example/citations/v1"
TRACE = "https://extensions.example/trace/v2"
# Errors no server class raises by itself; the agent raises them when asked.
RAISED = {
    "error-raised-content-type": "ContentTypeNotSupportedError",
    "error-raised-agent-response": "InvalidAgentResponseError",
    "error-raised-extension": "ExtensionSupportRequiredError",
}
# A request without a version counts as 0.3.
UNVERSIONED = {"1.0": "error-version-missing", "0.3": "send-without-version"}
FOLDERS = {"1.0": "1.3.0", "0.3": "1.3.0-compat-0.3"}
BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}

CARD = {
    "name": "Recipe desk",
    "description": "Plans meals and keeps track of what is in the pantry – jusqu'au dernier œuf.",
    "version": "2.4.1",
    "provider": {"organization": "Example Kitchens", "url": "https://kitchens.example"},
    "iconUrl": "https://kitchens.example/icon.png",
    "documentationUrl": "https://kitchens.example/docs",
    "supportedInterfaces": [
        {"url": f"{AGENT}/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": AGENT, "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
        {"url": "agent.example:50051", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
        {
            "url": AGENT,
            "protocolBinding": "HTTP+JSON",
            "protocolVersion": "1.0",
            "tenant": "acme",
        },
        {"url": f"{AGENT}/", "protocolBinding": "JSONRPC", "protocolVersion": "0.3"},
        {"url": AGENT, "protocolBinding": "HTTP+JSON", "protocolVersion": "0.3"},
        {"url": "agent.example:50051", "protocolBinding": "GRPC", "protocolVersion": "0.3"},
    ],
    "capabilities": {
        "streaming": True,
        "pushNotifications": True,
        "extendedAgentCard": True,
        "extensions": [
            {
                "uri": CITE,
                "description": "Names the source of each claim.",
                "params": {"styles": ["short", "full"], "limit": 3, "strict": True},
            },
            {"uri": TRACE, "required": False},
        ],
    },
    "securitySchemes": {
        "key": {
            "apiKeySecurityScheme": {
                "description": "A key per kitchen.",
                "location": "header",
                "name": "X-Kitchen-Key",
            }
        },
        "basic": {"httpAuthSecurityScheme": {"scheme": "Basic"}},
        "bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer", "bearerFormat": "JWT"}},
        "login": {
            "oauth2SecurityScheme": {
                "description": "Signs a cook in.",
                "oauth2MetadataUrl": "https://login.example/.well-known/oauth-authorization-server",
                "flows": {
                    "authorizationCode": {
                        "authorizationUrl": "https://login.example/authorize",
                        "tokenUrl": "https://login.example/token",
                        "refreshUrl": "https://login.example/refresh",
                        "scopes": {"plan": "Plan meals", "pantry": "See the pantry"},
                        "pkceRequired": True,
                    }
                },
            }
        },
        "machine": {
            "oauth2SecurityScheme": {
                "flows": {
                    "clientCredentials": {
                        "tokenUrl": "https://login.example/token",
                        "scopes": {"plan": "Plan meals"},
                    }
                }
            }
        },
        "oidc": {
            "openIdConnectSecurityScheme": {
                "openIdConnectUrl": "https://login.example/.well-known/openid-configuration"
            }
        },
        "mtls": {"mtlsSecurityScheme": {"description": "Kitchen certificates."}},
    },
    "securityRequirements": [
        {"schemes": {"login": {"list": ["plan", "pantry"]}}},
        {"schemes": {"key": {}, "mtls": {}}},
    ],
    "defaultInputModes": ["text/plain", "application/json"],
    "defaultOutputModes": ["text/plain"],
    "skills": [
        {
            "id": "plan",
            "name": "Plan a week",
            "description": "Turns wishes into seven dinners.",
            "tags": ["planning", "dinner"],
            "examples": ["Plan a week without meat", "Seven dinners for two"],
            "inputModes": ["text/plain"],
            "outputModes": ["application/json", "text/markdown"],
            "securityRequirements": [{"schemes": {"login": {"list": ["plan"]}}}],
        },
        {
            "id": "pantry",
            "name": "Look into the pantry",
            "description": "Says what is left.",
            "tags": ["pantry"],
        },
    ],
}


def full_card() -> pb.AgentCard:
    return ParseDict(CARD, pb.AgentCard())


def extended_card() -> pb.AgentCard:
    card = full_card()
    card.description = "The same desk for cooks who signed in."
    card.skills.add(id="order", name="Order food", description="Orders what is missing.", tags=["shop"])
    return card


def plain_card(*, extended: bool = False) -> pb.AgentCard:
    card = full_card()
    card.capabilities.Clear()
    card.capabilities.extended_agent_card = extended
    return card


class Desk(AgentExecutor):
    """An agent whose behaviour is chosen by the first words of the message."""

    def __init__(self):
        self.bell = asyncio.Event()

    async def execute(self, context, event_queue) -> None:
        text = context.get_user_input()
        if text == "just talk":
            await event_queue.enqueue_event(
                pb.Message(
                    message_id="reply-1",
                    role=pb.ROLE_AGENT,
                    context_id=context.context_id,
                    parts=[pb.Part(text="Only a word.", metadata={"mood": "brief"})],
                    metadata={CITE: {"source": "none"}},
                    extensions=[CITE],
                )
            )
            return
        if text.startswith("raise "):
            raise getattr(errors, text.removeprefix("raise "))()
        task = context.current_task
        answering = task is not None
        if task is None:
            task = new_task_from_user_message(context.message)
            task.metadata.update({"desk": "north", "guests": 4})
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if answering:
            await self.finish(updater, f"Noted: {text}")
            return
        await getattr(self, text.replace(" ", "_"), self.answer)(updater, context)

    async def cancel(self, context, event_queue) -> None:
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.cancel(self.say(updater, "Stopped."))

    def say(self, updater, text):
        return updater.new_agent_message([pb.Part(text=text)])

    async def finish(self, updater, text) -> None:
        await updater.add_artifact([pb.Part(text=text, media_type="text/plain")], name="answer", last_chunk=True)
        await updater.complete()

    async def answer(self, updater, context) -> None:
        await updater.start_work(self.say(updater, "On it."))
        await self.finish(updater, "Lentil soup.")

    async def repeat_parts(self, updater, context) -> None:
        await updater.start_work()
        await updater.add_artifact(
            list(context.message.parts),
            artifact_id="parts",
            name="what you sent",
            metadata={"count": len(context.message.parts)},
            extensions=[CITE],
        )
        await updater.complete(self.say(updater, "That was all."))

    async def ask_me(self, updater, context) -> None:
        await updater.requires_input(self.say(updater, "For how many?"))

    async def need_login(self, updater, context) -> None:
        await updater.requires_auth(self.say(updater, "Please sign in."))

    async def go_wrong(self, updater, context) -> None:
        await updater.failed(self.say(updater, "The oven is broken."))

    async def refuse(self, updater, context) -> None:
        await updater.reject(self.say(updater, "Not on Sundays."))

    async def crash(self, updater, context) -> None:
        raise RuntimeError("the desk fell over")

    async def stream_chunks(self, updater, context) -> None:
        await updater.start_work(self.say(updater, "Writing the menu."))
        for part, append, last in (("Mon", False, False), ("Tue", True, False), ("Wed", True, True)):
            await updater.add_artifact(
                [pb.Part(text=part)],
                artifact_id="menu",
                name="menu",
                append=append,
                last_chunk=last,
                metadata={"day": part},
            )
        await updater.update_status(pb.TASK_STATE_WORKING, self.say(updater, "Nearly there."), metadata={"percent": 90})
        await updater.complete(self.say(updater, "Enjoy."))

    async def wait_for_bell(self, updater, context) -> None:
        await updater.start_work(self.say(updater, "Waiting."))
        await asyncio.wait_for(self.bell.wait(), 10)
        self.bell.clear()
        await self.finish(updater, "Ding.")

    def ring_soon(self) -> None:
        asyncio.get_running_loop().call_later(0.3, self.bell.set)


class Play:
    """The servers, the SDK client and the recorder of one dialect on one binding."""

    def __init__(self, recorder, version, http, raw, ports, desk, webhook):
        self.recorder, self.scene = recorder, recorder.scene
        # The SDK adds its version header to the client it is given, so raw calls have one
        # of their own.
        self.version, self.http, self.raw, self.ports = version, http, raw, ports
        self.desk, self.webhook = desk, webhook
        self.binding = recorder.binding

    def client(self, host="agent", *, streaming=False, tenant=""):
        """Returns an SDK client that believes `host` can do everything."""
        card = full_card()
        del card.supported_interfaces[:]
        http_url = f"http://{host}.example" + ("/" if self.binding == "jsonrpc" else "")
        card.supported_interfaces.add(
            url=f"{host}.example:50051" if self.binding == "grpc" else http_url,
            protocol_binding=BINDINGS[self.binding],
            protocol_version=self.version,
            tenant=tenant,
        )
        config = ClientConfig(
            streaming=streaming,
            httpx_client=self.http,
            grpc_channel_factory=self.channel,
            supported_protocol_bindings=list(BINDINGS.values()),
            accepted_output_modes=["text/plain", "application/json"],
        )
        return ClientFactory(config).create(card)

    def channel(self, url: str):
        port = self.ports[f"grpc:{url.partition(':')[0]}"]
        return RecordingChannel(grpc.aio.insecure_channel(f"127.0.0.1:{port}"), self.recorder)


def request(text: str, *, task_id="", context_id="", now=False, **configuration):
    message = pb.Message(
        message_id=f"m-{text.replace(' ', '-')}",
        role=pb.ROLE_USER,
        parts=[pb.Part(text=text)],
        task_id=task_id,
        context_id=context_id,
    )
    settings = pb.SendMessageConfiguration(return_immediately=now, **configuration)
    return pb.SendMessageRequest(message=message, configuration=settings)


def rich_request() -> pb.SendMessageRequest:
    rich = request("repeat parts", history_length=5)
    rich.message.parts[0].metadata.update({"lang": "en"})
    rich.message.parts.extend(
        [
            pb.Part(raw=b"\x89PNG\x00\xff", filename="soup.png", media_type="image/png"),
            pb.Part(url="https://files.example/menu.pdf", filename="menu.pdf"),
        ]
    )
    data = rich.message.parts.add(media_type="application/json")
    for key, value in {"guests": 2, "vegan": True, "ratio": 0.5, "note": None}.items():
        field = data.data.struct_value.fields[key]
        if value is None:
            field.null_value = 0
        elif isinstance(value, bool):
            field.bool_value = value
        else:
            field.number_value = value
    rich.message.metadata.update({CITE: {"style": "short"}, "n": 3})
    rich.message.extensions.append(CITE)
    rich.message.reference_task_ids.extend(["earlier-1", "earlier-2"])
    rich.metadata.update({"trace": "abc", "depth": {"a": [1, "two", None]}})
    return rich


def plain_data_request() -> pb.SendMessageRequest:
    plain = request("repeat parts")
    listed = plain.message.parts.add()
    listed.data.list_value.extend([1, "two", False])
    plain.message.parts.add().data.string_value = "just a word"
    return plain


def asking_for(*extensions: str) -> ClientCallContext:
    return ClientCallContext(
        service_parameters=ServiceParametersFactory.create([with_a2a_extensions(list(extensions))])
    )


async def collect(stream) -> list:
    return [event async for event in stream]


async def fails(work) -> None:
    """Awaits a call that the peer answers with an error, and says which."""
    try:
        result = await work
    except Exception as error:  # every SDK error class is an answer here
        print(f"    {type(error).__name__}: {error}")
    else:
        print(f"    NO ERROR: {str(result)[:80]!r}")


async def play_sending(play: Play) -> str:
    """Plays the blocking scenes and returns the id of a finished task."""
    client = play.client()
    async with play.scene("send-text", "SendMessage"):
        [done] = await collect(client.send_message(request("what is for dinner")))
    async with play.scene("send-parts", "SendMessage"):
        await collect(client.send_message(rich_request(), context=asking_for(CITE, TRACE)))
    async with play.scene("send-plain-data", "SendMessage"):
        await collect(client.send_message(plain_data_request()))
    async with play.scene("send-message-reply", "SendMessage"):
        await collect(client.send_message(request("just talk")))
    async with play.scene("input-required", "SendMessage"):
        [asked] = await collect(client.send_message(request("ask me")))
    ids = {"task_id": asked.task.id, "context_id": asked.task.context_id}
    async with play.scene("input-answered", "SendMessage"):
        await collect(client.send_message(request("for four", **ids)))
    for name, text in (
        ("send-auth-required", "need login"),
        ("send-failed", "go wrong"),
        ("send-rejected", "refuse"),
    ):
        async with play.scene(name, "SendMessage"):
            await collect(client.send_message(request(text)))
    async with play.scene("send-history-none", "SendMessage"):
        await collect(client.send_message(request("what is for dinner", history_length=0)))
    async with play.scene("error-agent-crash", "SendMessage"):
        await fails(collect(client.send_message(request("crash"))))
    return done.task.id


async def play_streaming(play: Play) -> None:
    client = play.client(streaming=True)
    async with play.scene("stream-chunks", "SendStreamingMessage"):
        await collect(client.send_message(request("stream chunks")))
    async with play.scene("stream-message-reply", "SendStreamingMessage"):
        await collect(client.send_message(request("just talk")))
    async with play.scene("stream-input-required", "SendStreamingMessage"):
        await collect(client.send_message(request("ask me")))
    async with play.scene("error-stream-agent-crash", "SendStreamingMessage"):
        await fails(collect(client.send_message(request("crash"))))
    async with play.scene("send-now", "SendMessage"):
        [started] = await collect(play.client().send_message(request("wait for bell", now=True)))
    async with play.scene("subscribe", "SubscribeToTask"):
        play.desk.ring_soon()
        await collect(client.subscribe(pb.SubscribeToTaskRequest(id=started.task.id)))
    async with play.scene("error-subscribe-finished", "SubscribeToTask"):
        subscribe = pb.SubscribeToTaskRequest(id=started.task.id)
        await fails(collect(client.subscribe(subscribe)))


async def play_tasks(play: Play, done: str) -> None:
    client = play.client()
    async with play.scene("get-task", "GetTask"):
        task = await client.get_task(pb.GetTaskRequest(id=done))
    async with play.scene("get-task-history", "GetTask"):
        await client.get_task(pb.GetTaskRequest(id=done, history_length=1))
    [waiting] = await collect(client.send_message(request("wait for bell", now=True)))
    async with play.scene("cancel-task", "CancelTask"):
        await client.cancel_task(pb.CancelTaskRequest(id=waiting.task.id, metadata={"reason": "late"}))
    async with play.scene("error-task-not-found", "GetTask"):
        await fails(client.get_task(pb.GetTaskRequest(id="no-such-task")))
    async with play.scene("error-cancel-not-found", "CancelTask"):
        await fails(client.cancel_task(pb.CancelTaskRequest(id="no-such-task")))
    async with play.scene("error-not-cancelable", "CancelTask"):
        await fails(client.cancel_task(pb.CancelTaskRequest(id=done)))
    async with play.scene("error-send-to-finished", "SendMessage"):
        await fails(collect(client.send_message(request("again", task_id=done))))
    async with play.scene("error-send-to-unknown", "SendMessage"):
        await fails(collect(client.send_message(request("again", task_id="no-such-task"))))
    async with play.scene("error-invalid-params", "SendMessage"):
        empty = pb.SendMessageRequest(message=pb.Message(role=pb.ROLE_USER))
        await fails(collect(client.send_message(empty)))
    await play_listing(play, client, task.context_id)


async def play_listing(play: Play, client, context_id: str) -> None:
    if play.version == "0.3":
        return
    async with play.scene("list-tasks", "ListTasks"):
        await client.list_tasks(pb.ListTasksRequest())
    async with play.scene("list-tasks-filtered", "ListTasks"):
        filtered = pb.ListTasksRequest(
            context_id=context_id,
            status=pb.TASK_STATE_COMPLETED,
            history_length=1,
            include_artifacts=True,
        )
        filtered.status_timestamp_after.FromJsonString("2026-01-01T00:00:00.500Z")
        await client.list_tasks(filtered)
    async with play.scene("list-tasks-first-page", "ListTasks"):
        page = await client.list_tasks(pb.ListTasksRequest(page_size=2, history_length=0))
    async with play.scene("list-tasks-second-page", "ListTasks"):
        token = page.next_page_token
        await client.list_tasks(pb.ListTasksRequest(page_size=2, page_token=token, history_length=0))
    async with play.scene("list-tasks-empty", "ListTasks"):
        await client.list_tasks(pb.ListTasksRequest(context_id="nobody-here"))
    async with play.scene("error-page-size", "ListTasks"):
        await fails(client.list_tasks(pb.ListTasksRequest(page_size=1000)))


def webhook_config(task_id: str = "", config_id: str = "") -> pb.TaskPushNotificationConfig:
    return pb.TaskPushNotificationConfig(
        task_id=task_id,
        id=config_id,
        url=WEBHOOK,
        token="token-of-the-test",
        authentication=pb.AuthenticationInfo(scheme="Bearer", credentials="invented-credential"),
    )


async def play_push(play: Play) -> None:
    client = play.client()
    [waiting] = await collect(client.send_message(request("wait for bell", now=True)))
    task_id = waiting.task.id
    async with play.scene("push-create", "CreateTaskPushNotificationConfig"):
        await client.create_task_push_notification_config(webhook_config(task_id, "hook-1"))
    async with play.scene("push-create-unnamed", "CreateTaskPushNotificationConfig"):
        bare = pb.TaskPushNotificationConfig(task_id=task_id, url=f"{WEBHOOK}/second")
        await client.create_task_push_notification_config(bare)
    async with play.scene("push-get", "GetTaskPushNotificationConfig"):
        await client.get_task_push_notification_config(
            pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id="hook-1")
        )
    await play_push_list_and_delete(play, client, task_id)
    async with play.scene("error-push-config-not-found", "GetTaskPushNotificationConfig"):
        await fails(
            client.get_task_push_notification_config(
                pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id="no-such-hook")
            )
        )
    play.webhook.forget()
    play.desk.bell.set()
    # The sender knows one body only, also for a config that came in 0.3.
    await play.webhook.keep(play.recorder, "webhook", at_least=2, dialect="1.0")
    async with play.scene("send-with-push", "SendMessage"):
        with_push = request("ask me", task_push_notification_config=webhook_config())
        await collect(client.send_message(with_push))
    await play.webhook.keep(play.recorder, "webhook-input-required", dialect="1.0")


async def play_push_list_and_delete(play: Play, client, task_id: str) -> None:
    if play.version == "0.3" and play.binding == "rest":
        # The compat client raises NotImplementedError for both. The server has no 0.3
        # route for the second: it takes the path for a 1.0 one with the tenant `v1`.
        path = f"{AGENT}/v1/tasks/{task_id}/pushNotificationConfigs"
        headers = {"a2a-version": play.version}
        async with play.scene("push-list", "ListTaskPushNotificationConfigs", client="raw"):
            await play.raw.get(path, headers=headers)
        scene = play.scene("error-push-delete", "DeleteTaskPushNotificationConfig", client="raw")
        async with scene:
            await play.raw.delete(f"{path}/{task_id}", headers=headers)
        return
    async with play.scene("push-list", "ListTaskPushNotificationConfigs"):
        every = pb.ListTaskPushNotificationConfigsRequest(task_id=task_id)
        await client.list_task_push_notification_configs(every)
    async with play.scene("push-delete", "DeleteTaskPushNotificationConfig"):
        unnamed = pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=task_id)
        await client.delete_task_push_notification_config(unnamed)


async def play_refusals(play: Play) -> None:
    """Plays the calls that a server without optional capabilities refuses."""
    plain, plain_stream = play.client("plain"), play.client("plain", streaming=True)
    [done] = await collect(plain.send_message(request("what is for dinner")))
    config = webhook_config(done.task.id, "hook-1")
    async with play.scene("error-push-not-supported", "CreateTaskPushNotificationConfig"):
        await fails(plain.create_task_push_notification_config(config))
    async with play.scene("error-unsupported-stream", "SendStreamingMessage"):
        await fails(collect(plain_stream.send_message(request("stream chunks"))))
    async with play.scene("error-unsupported-subscribe", "SubscribeToTask"):
        subscribe = pb.SubscribeToTaskRequest(id=done.task.id)
        await fails(collect(plain_stream.subscribe(subscribe)))
    extended = pb.GetExtendedAgentCardRequest()
    async with play.scene("card-extended", "GetExtendedAgentCard"):
        await play.client().get_extended_agent_card(extended)
    async with play.scene("error-extended-card-unsupported", "GetExtendedAgentCard"):
        await fails(plain.get_extended_agent_card(extended))
    async with play.scene("error-extended-card-not-configured", "GetExtendedAgentCard"):
        await fails(play.client("bare").get_extended_agent_card(extended))
    for name, error in RAISED.items():
        async with play.scene(name, "SendMessage"):
            await fails(collect(play.client().send_message(request(f"raise {error}"))))
    if play.version == "1.0":
        async with play.scene("send-tenant", "SendMessage"):
            tenant = play.client(tenant="acme")
            await collect(tenant.send_message(request("what is for dinner")))
        # The SDK's gRPC server does not look at the version.
        name = "send-future-version" if play.binding == "grpc" else "error-version-not-supported"
        async with play.scene(name, "SendMessage"):
            future = ClientCallContext(service_parameters={"A2A-Version": "9.9"})
            await fails(collect(play.client().send_message(request("hi"), context=future)))


async def play_raw_jsonrpc(play: Play) -> None:
    method = "SendMessage" if play.version == "1.0" else "message/send"
    get = "GetTask" if play.version == "1.0" else "tasks/get"
    for name, body in (
        ("error-parse", b'{"jsonrpc": "2.0", "id": 1, "method": '),
        ("error-method-not-found", {"jsonrpc": "2.0", "id": 2, "method": "tasks/dream"}),
        ("error-invalid-request", {"id": 3, "method": method, "params": {}}),
        ("error-batch", [{"jsonrpc": "2.0", "id": 4, "method": method, "params": {}}]),
        ("error-params-type", {"jsonrpc": "2.0", "id": 5, "method": get, "params": [1]}),
        ("error-params-missing", {"jsonrpc": "2.0", "id": "six", "method": get, "params": {}}),
    ):
        await post_raw(play, name, "/", body)
    message = raw_message("parts", kinds=play.version == "0.3")
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": message}}
    await post_raw(play, UNVERSIONED[play.version], "/", body, versioned=False)


def raw_message(parts: str, *, kinds: bool) -> dict:
    """Returns a user message in the JSON of one binding and dialect."""
    part = {"text": "what is for dinner"} | ({"kind": "text"} if kinds else {})
    message = {"messageId": "m-raw", "role": "user" if kinds else "ROLE_USER", parts: [part]}
    return message | ({"kind": "message"} if kinds else {})


async def play_raw_rest(play: Play) -> None:
    prefix = "" if play.version == "1.0" else "/v1"
    await post_raw(play, "error-parse", f"{prefix}/message:send", b'{"message": ')
    await post_raw(play, "error-params-type", f"{prefix}/message:send", {"message": "hello"})
    await post_raw(play, "error-invalid-body", f"{prefix}/message:send", {"message": {}})
    await post_raw(play, "error-method-not-found", f"{prefix}/tasks/t1/dreams", {})
    message = raw_message("parts" if play.version == "1.0" else "content", kinds=False)
    body = {"message": message}
    await post_raw(play, UNVERSIONED[play.version], f"{prefix}/message:send", body, versioned=False)


async def post_raw(play: Play, name: str, path: str, body, *, versioned: bool = True) -> None:
    headers = {"content-type": "application/json"}
    if versioned:
        headers["a2a-version"] = play.version
    async with play.scene(name, client="raw"):
        kind = "content" if isinstance(body, bytes) else "json"
        await play.raw.post(AGENT + path, headers=headers, **{kind: body})


async def play_cards(play: Play) -> None:
    for name, host in (("public", "agent"), ("public-plain", "plain")):
        async with play.scene(name, binding="card"):
            await A2ACardResolver(play.http, f"http://{host}.example").get_agent_card()


async def play_everything(play: Play) -> None:
    done = await play_sending(play)
    await play_streaming(play)
    await play_tasks(play, done)
    await play_push(play)
    await play_refusals(play)
    if play.binding == "jsonrpc":
        await play_raw_jsonrpc(play)
        if play.version == "1.0":
            await play_cards(play)
    if play.binding == "rest":
        await play_raw_rest(play)


def make_handler(card, desk, webhook, *, push=False, extended=None) -> DefaultRequestHandler:
    configs = InMemoryPushNotificationConfigStore() if push else None
    sender = BasePushNotificationSender(httpx.AsyncClient(transport=webhook), configs)
    return DefaultRequestHandler(
        desk,
        InMemoryTaskStore(),
        card,
        push_config_store=configs,
        push_sender=sender if push else None,
        extended_agent_card=extended,
    )


def make_app(handler, card) -> Starlette:
    return Starlette(
        routes=[
            *create_agent_card_routes(card),
            *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True),
            *create_rest_routes(handler, enable_v0_3_compat=True),
        ]
    )


async def record(version: str, binding: str) -> None:
    desk, webhook = Desk(), Webhook()
    cards = {"agent": full_card(), "plain": plain_card(), "bare": plain_card(extended=True)}
    handlers = {
        host: make_handler(
            card,
            desk,
            webhook,
            push=host == "agent",
            extended=extended_card() if host == "agent" else None,
        )
        for host, card in cards.items()
    }
    recorder = Recorder(peer=PEER, dialect=version, folder=FOLDERS[version], binding=binding)
    async with contextlib.AsyncExitStack() as stack:
        ports = {}
        for host, handler in handlers.items():
            app = make_app(handler, cards[host])
            ports[f"{host}.example"] = await stack.enter_async_context(served(app))

            def register(server, handler=handler):
                a2a_pb2_grpc.add_A2AServiceServicer_to_server(GrpcHandler(handler), server)
                a2a_v0_3_pb2_grpc.add_A2AServiceServicer_to_server(CompatGrpcHandler(handler), server)

            ports[f"grpc:{host}.example"] = await stack.enter_async_context(served_grpc(register))
            stack.push_async_callback(handler.aclose)
        http, raw = [
            await stack.enter_async_context(
                httpx.AsyncClient(transport=RecordingTransport(recorder, ports), timeout=20)
            )
            for _ in range(2)
        ]
        await play_everything(Play(recorder, version, http, raw, ports, desk, webhook))


async def main() -> None:
    for version in ("1.0", "0.3"):
        start_afresh(FOLDERS[version])
        for binding in BINDINGS:
            await record(version, binding)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
