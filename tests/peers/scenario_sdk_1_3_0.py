"""The scenario, played by a2a-sdk 1.3.0: dialect 1.0 on all three bindings."""

import asyncio
import base64
import logging
import uuid

import grpc
import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.card_resolver import A2ACardResolver
from a2a.client.client import ClientCallContext
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict
from scenario_ids import Watched
from scenario_steps import play, settings

BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}


class Token(CredentialService):
    """Gives the same token for every scheme that a card names."""

    def __init__(self, token):
        self.token = token

    async def get_credentials(self, security_scheme_name, context):
        return self.token


class SdkClient:
    lists_push = True

    def __init__(self, http, binding, url, *, guarded=None, token=None):
        self.http, self.binding, self.url, self.guarded, self.token = http, binding, url, guarded, token
        self.lacks = {"resume"} if binding == "grpc" else set()  # messages of gRPC have no ids
        self.made = {}

    def known(self):
        return SdkClient(self.http, self.binding, self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return SdkClient(self.http, self.binding, self.guarded[0])

    async def sdk(self, *, streaming=False):
        """The SDK's client, made from the card that the server gives."""
        if streaming not in self.made:
            config = ClientConfig(
                streaming=streaming,
                httpx_client=self.http,
                grpc_channel_factory=grpc.aio.insecure_channel,
                supported_protocol_bindings=[BINDINGS[self.binding]],
            )
            card = await A2ACardResolver(self.http, self.url).get_agent_card()
            interceptors = [AuthInterceptor(Token(self.token))] if self.token else []
            self.made[streaming] = ClientFactory(config).create(card, interceptors)
        return self.made[streaming]

    async def card(self):
        return seen_card(await A2ACardResolver(self.http, self.url).get_agent_card())

    async def extended_card(self):
        return seen_card(await (await self.sdk()).get_extended_agent_card(pb.GetExtendedAgentCardRequest()))

    async def send(self, parts, *, task=None, context="", now=False, push=None):
        configuration = pb.SendMessageConfiguration(return_immediately=now)
        if push:
            configuration.task_push_notification_config.CopyFrom(pb.TaskPushNotificationConfig(**push))
        request = pb.SendMessageRequest(message=message(parts, task, context), configuration=configuration)
        [answer] = [event async for event in (await self.sdk()).send_message(request)]
        return seen_task(answer.task)

    async def start(self, parts):
        return await self.send(parts, now=True)

    async def reply_to(self, parts):
        """A message that answers another one, without a task, as a call and as a stream."""
        request = pb.SendMessageRequest(message=message(parts, None, ""))
        calls = [(await self.sdk(streaming=streaming)).send_message(request) for streaming in (False, True)]
        return [[seen_text(event.message) async for event in events] for events in calls]

    async def stream(self, parts):
        request = pb.SendMessageRequest(message=message(parts, None, ""))
        events = (await self.sdk(streaming=True)).send_message(request)
        try:
            async for event in events:
                yield seen_event(event)
        finally:
            await events.aclose()

    async def subscribe(self, task_id, after=None):
        context = ClientCallContext(service_parameters={"Last-Event-ID": after}) if after else None
        client = await self.sdk(streaming=True)
        async for event in client.subscribe(pb.SubscribeToTaskRequest(id=task_id), context=context):
            yield seen_event(event)

    def last_id(self):
        return self.http._transport.last_id

    async def get(self, task_id, history=None):
        return seen_task(await (await self.sdk()).get_task(pb.GetTaskRequest(id=task_id, history_length=history)))

    async def cancel(self, task_id):
        return seen_task(await (await self.sdk()).cancel_task(pb.CancelTaskRequest(id=task_id)))

    async def list_tasks(self, context, *, size, token):
        request = pb.ListTasksRequest(context_id=context, page_size=size, page_token=token)
        page = await (await self.sdk()).list_tasks(request)
        return {
            "tasks": [seen_task(task) for task in page.tasks],
            "next": page.next_page_token,
            "total": page.total_size,
        }

    async def create_push(self, task_id, config):
        request = pb.TaskPushNotificationConfig(task_id=task_id, **config)
        return seen_push(await (await self.sdk()).create_task_push_notification_config(request))

    async def get_push(self, task_id, config_id):
        request = pb.GetTaskPushNotificationConfigRequest(task_id=task_id, id=config_id or task_id)
        return seen_push(await (await self.sdk()).get_task_push_notification_config(request))

    async def list_push(self, task_id):
        request = pb.ListTaskPushNotificationConfigsRequest(task_id=task_id)
        page = await (await self.sdk()).list_task_push_notification_configs(request)
        return [seen_push(config) for config in page.configs]

    async def delete_push(self, task_id, config_id):
        request = pb.DeleteTaskPushNotificationConfigRequest(task_id=task_id, id=config_id)
        await (await self.sdk()).delete_task_push_notification_config(request)

    def sight(self, error):
        name = type(error).__name__
        return error.message.partition(":")[0] if name == "A2AClientError" else name


def message(parts, task, context):
    ids = {"task_id": task["id"], "context_id": task["context"]} if task else {"context_id": context}
    return pb.Message(
        message_id=str(uuid.uuid4()), role=pb.ROLE_USER, parts=[part_to_send(part) for part in parts], **ids
    )


def part_to_send(part):
    if "text" in part:
        return pb.Part(text=part["text"])
    if "data" in part:
        return ParseDict({"data": part["data"]}, pb.Part())
    content = {"raw": base64.b64decode(part["raw"])} if "raw" in part else {"url": part["url"]}
    return pb.Part(filename=part["name"], media_type=part["type"], **content)


def seen_part(part):
    match part.WhichOneof("content"):
        case "text":
            return {"text": part.text}
        case "data":
            return {"data": MessageToDict(part.data)}
        case "raw":
            content = {"raw": base64.b64encode(part.raw).decode()}
        case _:
            content = {"url": part.url}
    return {**content, "name": part.filename, "type": part.media_type}


def seen_state(state):
    return pb.TaskState.Name(state).removeprefix("TASK_STATE_").lower().replace("_", "-")


def seen_text(message):
    return "".join(part.text for part in message.parts)


def seen_task(task):
    return {
        "id": task.id,
        "context": task.context_id,
        "state": seen_state(task.status.state),
        "said": seen_text(task.status.message),
        "parts": [seen_part(part) for artifact in task.artifacts for part in artifact.parts],
        "history": [seen_text(message) for message in task.history],
    }


def seen_event(event):
    match event.WhichOneof("payload"):
        case "task":
            return {"task": seen_task(event.task)}
        case "status_update":
            status = event.status_update.status
            return {"state": seen_state(status.state), "said": seen_text(status.message), "final": None}
        case "artifact_update":
            update = event.artifact_update
            return {"parts": [seen_part(part) for part in update.artifact.parts], "append": update.append}
        case other:
            raise AssertionError(f"No {other} was expected")


def seen_card(card):
    return {
        "name": card.name,
        "version": card.version,
        "skills": [skill.id for skill in card.skills],
        "streaming": card.capabilities.streaming,
        "push": card.capabilities.push_notifications,
    }


def seen_push(config):
    return {"id": config.id, "url": config.url, "token": config.token}


async def main():
    given = settings()
    async with httpx.AsyncClient(timeout=15, transport=Watched()) as http:
        guarded = (given["guarded_url"], given["token"])
        await play(SdkClient(http, given["binding"], given["url"], guarded=guarded))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
