"""The scenario, played by a2a-sdk 0.2.16: dialect 0.2 over JSON-RPC.

Its client cannot subscribe again, nor list or delete webhooks. Those requests are sent past it, with its HTTP client
and its types.
"""

import asyncio
import json
import logging
import uuid
import warnings

import httpx
from a2a.client import A2ACardResolver, A2AClient
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.errors import A2AClientHTTPError
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigResponse,
    GetTaskPushNotificationConfigParams,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigResponse,
    MessageSendConfiguration,
    MessageSendParams,
    PushNotificationConfig,
    SendMessageRequest,
    SendStreamingMessageRequest,
    SendStreamingMessageResponse,
    SetTaskPushNotificationConfigRequest,
    TaskIdParams,
    TaskQueryParams,
    TaskResubscriptionRequest,
)
from httpx_sse import aconnect_sse
from scenario_ids import Watched
from scenario_pydantic import message, seen_card, seen_event, seen_push, seen_task, task_push
from scenario_steps import play, settings


class Refused(Exception):
    """A JSON-RPC error, which this SDK returns."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Token(CredentialService):
    """Gives the same token for every scheme that a card names."""

    def __init__(self, token):
        self.token = token

    async def get_credentials(self, security_scheme_name, context):
        return self.token


def result_of(response):
    if hasattr(response.root, "error"):
        raise Refused(response.root.error.code)
    return response.root.result


class SdkClient:
    lacks = frozenset({"list_tasks"})
    lists_push = True

    def __init__(self, http, url, *, guarded=None, token=None):
        self.http, self.url, self.guarded, self.token = http, url, guarded, token
        self.made = None

    def known(self):
        return SdkClient(self.http, self.guarded[0], token=self.guarded[1])

    def stranger(self):
        return SdkClient(self.http, self.guarded[0])

    async def sdk(self):
        """The SDK's client, made from the card that the server gives."""
        if self.made is None:
            card = await A2ACardResolver(self.http, self.url).get_agent_card()
            interceptors = [AuthInterceptor(Token(self.token))] if self.token else []
            self.made = A2AClient(self.http, agent_card=card, interceptors=interceptors)
        return self.made

    async def card(self):
        return seen_card(await A2ACardResolver(self.http, self.url).get_agent_card())

    async def extended_card(self):
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        resolver = A2ACardResolver(self.http, self.url)
        return seen_card(await resolver.get_agent_card("/agent/authenticatedExtendedCard", {"headers": headers}))

    def params(self, parts, *, task=None, context=None, now=False, push=None):
        configuration = MessageSendConfiguration(
            accepted_output_modes=["text/plain", "application/json", "image/png", "application/pdf"],
            blocking=not now,
            push_notification_config=PushNotificationConfig(**push) if push else None,
        )
        return MessageSendParams(message=message(parts, task, context), configuration=configuration)

    async def send(self, parts, **options):
        request = SendMessageRequest(id=str(uuid.uuid4()), params=self.params(parts, **options))
        return seen_task(result_of(await (await self.sdk()).send_message(request)))

    async def start(self, parts):
        return await self.send(parts, now=True)

    async def stream(self, parts):
        request = SendStreamingMessageRequest(id=str(uuid.uuid4()), params=self.params(parts))
        events = (await self.sdk()).send_message_streaming(request)
        try:
            async for response in events:
                yield seen_event(result_of(response))
        finally:
            await events.aclose()

    def last_id(self):
        return self.http._transport.last_id

    async def subscribe(self, task_id, after=None):
        request = TaskResubscriptionRequest(id=str(uuid.uuid4()), params=TaskIdParams(id=task_id))
        body = request.model_dump(mode="json", exclude_none=True)
        headers = {"Last-Event-ID": after} if after else {}
        async with aconnect_sse(self.http, "POST", (await self.sdk()).url, json=body, headers=headers) as source:
            async for frame in source.aiter_sse():
                yield seen_event(result_of(SendStreamingMessageResponse.model_validate(json.loads(frame.data))))

    async def get(self, task_id, history=None):
        params = TaskQueryParams(id=task_id, history_length=history)
        return seen_task(result_of(await (await self.sdk()).get_task(GetTaskRequest(id="1", params=params))))

    async def cancel(self, task_id):
        request = CancelTaskRequest(id="1", params=TaskIdParams(id=task_id))
        return seen_task(result_of(await (await self.sdk()).cancel_task(request)))

    async def create_push(self, task_id, config):
        request = SetTaskPushNotificationConfigRequest(id="1", params=task_push(task_id, config))
        return seen_push(result_of(await (await self.sdk()).set_task_callback(request)))

    async def get_push(self, task_id, config_id):
        params = (
            GetTaskPushNotificationConfigParams(id=task_id, push_notification_config_id=config_id)
            if config_id
            else TaskIdParams(id=task_id)
        )
        request = GetTaskPushNotificationConfigRequest(id="1", params=params)
        return seen_push(result_of(await (await self.sdk()).get_task_callback(request)))

    async def list_push(self, task_id):
        answer = await self.call("tasks/pushNotificationConfig/list", {"id": task_id})
        return [
            seen_push(config) for config in result_of(ListTaskPushNotificationConfigResponse.model_validate(answer))
        ]

    async def delete_push(self, task_id, config_id):
        params = {"id": task_id, "pushNotificationConfigId": config_id}
        answer = await self.call("tasks/pushNotificationConfig/delete", params)
        assert result_of(DeleteTaskPushNotificationConfigResponse.model_validate(answer)) is None

    async def call(self, method, params):
        body = {"jsonrpc": "2.0", "id": "past-the-client", "method": method, "params": params}
        return (await self.http.post((await self.sdk()).url, json=body)).raise_for_status().json()

    def sight(self, error):
        match error:
            case Refused():
                return error.code
            case A2AClientHTTPError():
                return error.status_code
            case _:
                return repr(error)


async def main():
    given = settings()
    async with httpx.AsyncClient(timeout=15, transport=Watched()) as http:
        await play(SdkClient(http, given["url"], guarded=(given["guarded_url"], given["token"])))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    asyncio.run(main())
