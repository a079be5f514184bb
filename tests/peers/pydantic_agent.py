"""The agent, cards and messages that the a2a-sdk 0.2 and 0.3 recordings share.

Both generations describe the protocol with pydantic models of the same names, so one
module serves both; where a field or argument came with 0.3 the SDK version decides.
"""

import asyncio
import base64
import importlib.metadata
import uuid

import httpx
from a2a import types
from a2a.server.agent_execution import AgentExecutor, SimpleRequestContextBuilder
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import (
    AgentCard,
    DataPart,
    FilePart,
    FileWithBytes,
    FileWithUri,
    Message,
    MessageSendConfiguration,
    MessageSendParams,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    TaskPushNotificationConfig,
    TaskState,
    TextPart,
)
from a2a.utils import new_task
from a2a.utils.errors import ServerError
from recording import AGENT, WEBHOOK

VERSION = importlib.metadata.version("a2a-sdk")
IS_0_3 = VERSION.startswith("0.3")
CITE = "https://extensions.example/citations/v1"
TRACE = "https://extensions.example/trace/v2"
# Errors no server class raises by itself; the agent raises them when asked.
RAISED = {
    "error-raised-content-type": "ContentTypeNotSupportedError",
    "error-raised-agent-response": "InvalidAgentResponseError",
    "error-raised-push": "PushNotificationNotSupportedError",
    "error-raised-operation": "UnsupportedOperationError",
} | ({"error-raised-card": "AuthenticatedExtendedCardNotConfiguredError"} if IS_0_3 else {})


def full_card() -> AgentCard:
    """Returns a card that uses every field its version has."""
    return AgentCard.model_validate(card_fields() | (fields_since_0_3() if IS_0_3 else {}))


def card_fields() -> dict:
    return {
        "name": "Recipe desk",
        "description": "Plans meals and keeps the pantry – jusqu'au dernier œuf.",
        "version": "2.4.1",
        "url": f"{AGENT}/",
        "preferredTransport": "JSONRPC",
        "additionalInterfaces": [
            {"transport": "JSONRPC", "url": f"{AGENT}/"},
            {"transport": "HTTP+JSON", "url": AGENT},
            {"transport": "GRPC", "url": "agent.example:50051"},
        ],
        "provider": {"organization": "Example Kitchens", "url": "https://kitchens.example"},
        "iconUrl": "https://kitchens.example/icon.png",
        "documentationUrl": "https://kitchens.example/docs",
        "supportsAuthenticatedExtendedCard": True,
        "capabilities": {
            "streaming": True,
            "pushNotifications": True,
            "stateTransitionHistory": False,
            "extensions": [
                {
                    "uri": CITE,
                    "description": "Names the source of each claim.",
                    "params": {"styles": ["short", "full"], "limit": 3},
                },
                {"uri": TRACE, "required": False},
            ],
        },
        "securitySchemes": security_schemes(),
        "security": [{"login": ["plan", "pantry"]}, {"key": [], "basic": []}],
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
            },
            {
                "id": "pantry",
                "name": "Look into the pantry",
                "description": "Says what is left.",
                "tags": ["pantry"],
            },
        ],
    }


def security_schemes() -> dict:
    return {
        "key": {
            "type": "apiKey",
            "description": "A key per kitchen.",
            "in": "header",
            "name": "X-Kitchen-Key",
        },
        "basic": {"type": "http", "scheme": "Basic"},
        "bearer": {"type": "http", "scheme": "Bearer", "bearerFormat": "JWT"},
        "login": {
            "type": "oauth2",
            "flows": {
                "authorizationCode": {
                    "authorizationUrl": "https://login.example/authorize",
                    "tokenUrl": "https://login.example/token",
                    "refreshUrl": "https://login.example/refresh",
                    "scopes": {"plan": "Plan meals", "pantry": "See the pantry"},
                },
            },
        },
        "several": {
            "type": "oauth2",
            "flows": {
                "clientCredentials": {
                    "tokenUrl": "https://login.example/token",
                    "scopes": {"plan": "Plan meals"},
                },
                "implicit": {
                    "authorizationUrl": "https://login.example/authorize",
                    "scopes": {"plan": "Plan meals"},
                },
                "password": {"tokenUrl": "https://login.example/token", "scopes": {}},
            },
        },
        "oidc": {
            "type": "openIdConnect",
            "openIdConnectUrl": "https://login.example/.well-known/openid-configuration",
        },
    }


def fields_since_0_3() -> dict:
    schemes = security_schemes()
    schemes["mtls"] = {"type": "mutualTLS", "description": "Kitchen certificates."}
    schemes["login"]["oauth2MetadataUrl"] = "https://login.example/.well-known/oauth"
    skills = card_fields()["skills"]
    skills[0]["security"] = [{"login": ["plan"]}]
    signature = {"protected": "eyJhbGciOiJFUzI1NiJ9", "signature": "aW52ZW50ZWQ"}
    return {
        "securitySchemes": schemes,
        "skills": skills,
        "signatures": [signature | {"header": {"kid": "k1"}}],
    }


def extended_card() -> AgentCard:
    card = full_card()
    card.description = "The same desk for cooks who signed in."
    return card


def plain_card() -> AgentCard:
    card = full_card()
    card.capabilities = type(card.capabilities)(streaming=False, push_notifications=False)
    card.supports_authenticated_extended_card = False
    return card


class Desk(AgentExecutor):
    """An agent whose behaviour is chosen by the first words of the message."""

    def __init__(self):
        self.bell = asyncio.Event()

    async def execute(self, context, event_queue) -> None:
        text = context.get_user_input().split("\n")[0]
        if text == "just talk":
            await event_queue.enqueue_event(
                Message(
                    message_id="reply-1",
                    role=Role.agent,
                    context_id=context.context_id,
                    parts=[text_part("Only a word.", mood="brief")],
                    metadata={CITE: {"source": "none"}},
                    extensions=[CITE],
                )
            )
            return
        if text.startswith("raise "):
            raise ServerError(error=getattr(types, text.removeprefix("raise "))())
        task = context.current_task
        answering = task is not None
        if task is None:
            task = new_task(context.message)
            task.metadata = {"desk": "north", "guests": 4}
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        if answering:
            await self.finish(updater, f"Noted: {text}")
            return
        await getattr(self, text.replace(" ", "_"), self.answer)(updater, context)

    async def cancel(self, context, event_queue) -> None:
        # The server of 0.2 leaves this check to the agent.
        if context.current_task.status.state == TaskState.completed:
            raise ServerError(error=types.TaskNotCancelableError())
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.update_status(TaskState.canceled, self.say(updater, "Stopped."), final=True)

    def say(self, updater, text):
        return updater.new_agent_message([text_part(text)])

    async def finish(self, updater, text) -> None:
        await updater.add_artifact([text_part(text)], name="answer", last_chunk=True)
        await updater.complete()

    async def answer(self, updater, context) -> None:
        await updater.start_work(self.say(updater, "On it."))
        await self.finish(updater, "Lentil soup.")

    async def repeat_parts(self, updater, context) -> None:
        await updater.start_work()
        parts = list(context.message.parts)
        extra = {"extensions": [CITE]} if IS_0_3 else {}
        await updater.add_artifact(
            parts,
            artifact_id="parts",
            name="what you sent",
            metadata={"count": len(parts)},
            **extra,
        )
        await updater.complete(self.say(updater, "That was all."))

    async def ask_me(self, updater, context) -> None:
        await updater.requires_input(self.say(updater, "For how many?"), final=True)

    async def need_login(self, updater, context) -> None:
        await updater.requires_auth(self.say(updater, "Please sign in."), final=True)

    async def go_wrong(self, updater, context) -> None:
        await updater.failed(self.say(updater, "The oven is broken."))

    async def refuse(self, updater, context) -> None:
        await updater.reject(self.say(updater, "Not on Sundays."))

    async def stream_chunks(self, updater, context) -> None:
        await updater.start_work(self.say(updater, "Writing the menu."))
        for part, append, last in (("Mon", False, False), ("Tue", True, False), ("Wed", True, True)):
            await updater.add_artifact(
                [text_part(part)],
                artifact_id="menu",
                name="menu",
                append=append,
                last_chunk=last,
                metadata={"day": part},
            )
        extra = {"metadata": {"percent": 90}} if IS_0_3 else {}
        await updater.update_status(TaskState.working, self.say(updater, "Nearly there."), **extra)
        await updater.complete(self.say(updater, "Enjoy."))

    async def wait_for_bell(self, updater, context) -> None:
        await updater.start_work(self.say(updater, "Waiting."))
        await asyncio.wait_for(self.bell.wait(), 10)
        self.bell.clear()
        await updater.add_artifact([text_part("Ding.")], name="answer", last_chunk=True)
        # At the final event the server's own reader empties the queues of all subscribers;
        # one that is still busy with the event before loses the final one.
        await asyncio.sleep(0.1)
        await updater.complete()

    def ring_soon(self) -> None:
        asyncio.get_running_loop().call_later(0.3, self.bell.set)


def text_part(text: str, **metadata) -> Part:
    return Part(root=TextPart(text=text, metadata=metadata or None))


def message(text: str, *, task_id: str | None = None, context_id: str | None = None) -> Message:
    return Message(
        message_id=f"m-{text.replace(' ', '-')}",
        role=Role.user,
        parts=[text_part(text)],
        task_id=task_id,
        context_id=context_id,
    )


def rich_message() -> Message:
    """Returns a message that carries every kind of part and every optional field."""
    rich = message("repeat parts")
    picture = base64.b64encode(b"\x89PNG\x00\xff").decode("ascii")
    rich.parts = [
        text_part("repeat parts", lang="en"),
        Part(root=FilePart(file=FileWithBytes(bytes=picture, mime_type="image/png", name="soup.png"))),
        Part(root=FilePart(file=FileWithUri(uri="https://files.example/menu.pdf", name="menu.pdf"))),
        Part(root=DataPart(data={"guests": 2, "vegan": True, "ratio": 0.5, "tags": ["a", 1]})),
    ]
    rich.metadata = {CITE: {"style": "short"}, "n": 3}
    rich.extensions = [CITE]
    rich.reference_task_ids = ["earlier-1", "earlier-2"]
    return rich


def settings(*, blocking: bool = True, **fields) -> MessageSendConfiguration:
    return MessageSendConfiguration(
        accepted_output_modes=["text/plain", "application/json"], blocking=blocking, **fields
    )


def params(text: str, *, blocking: bool = True, **ids) -> MessageSendParams:
    return MessageSendParams(message=message(text, **ids), configuration=settings(blocking=blocking))


def webhook(config_id: str | None = None) -> PushNotificationConfig:
    return PushNotificationConfig(
        id=config_id,
        url=WEBHOOK,
        token="token-of-the-test",
        authentication=PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials="invented-credential"),
    )


def task_webhook(task_id: str, config_id: str | None = None) -> TaskPushNotificationConfig:
    return TaskPushNotificationConfig(task_id=task_id, push_notification_config=webhook(config_id))


class HexTaskIds(SimpleRequestContextBuilder):
    """Gives new tasks ids without hyphens.

    The gRPC server of 0.2 reads a task id out of `tasks/…` only up to its first hyphen.
    """

    async def build(self, params=None, task_id=None, context_id=None, task=None, context=None):
        task_id = task_id or uuid.uuid4().hex
        return await super().build(params, task_id, context_id, task, context)


def make_handler(desk: Desk, receiver, *, push: bool) -> DefaultRequestHandler:
    configs = InMemoryPushNotificationConfigStore() if push else None
    sender = BasePushNotificationSender(httpx.AsyncClient(transport=receiver), configs)
    return DefaultRequestHandler(
        desk,
        InMemoryTaskStore(),
        push_config_store=configs,
        push_sender=sender if push else None,
        request_context_builder=None if IS_0_3 else HexTaskIds(),
    )


async def collect(stream) -> list:
    return [event async for event in stream]


async def fails(work) -> None:
    """Awaits a call that the peer answers with an error, and says which."""
    try:
        result = await work
    except Exception as error:  # every SDK error class is an answer here
        print(f"    {type(error).__name__}: {error}"[:200])
    else:
        print(f"    NO ERROR: {str(result)[:80]!r}")
