"""The scenario, played by a2a-sdk 0.3.26: dialect 0.3 on all three bindings.

Its client cannot list or delete webhooks. Those requests are sent past it: with its HTTP client, its gRPC stub and its
types.
"""

import asyncio
import logging

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor, CredentialService
from a2a.client.client import ClientCallContext
from a2a.client.errors import A2AClientHTTPError, A2AClientJSONRPCError
from a2a.grpc import a2a_pb2
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    ListTaskPushNotificationConfigResponse,
    PushNotificationConfig,
    TaskIdParams,
    TaskQueryParams,
)
from a2a.utils import proto_utils
from google.protobuf.json_format import ParseDict
from scenario_ids import Watched
from scenario_pydantic import message, seen_card, seen_event, seen_push, seen_task, task_push
from scenario_steps import play, settings

BINDINGS = {"jsonrpc": "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}


class Token(CredentialService):
    """Gives the same token for every scheme that a card names."""

    def __init__(self, token):
        self.token = token

    async def get_credentials(self, security_scheme_name, context):
        return self.token


class WithToken(grpc.aio.UnaryUnaryClientInterceptor):
    """Sends a token with every call."""

    def __init__(self, token):
        self.token = token

    async def intercept_unary_unary(self, continuation, details, request):
        metadata = grpc.aio.Metadata(*(details.metadata or ()), ("authorization", f"Bearer {self.token}"))
        return await continuation(details._replace(metadata=metadata), request)


class SdkClient:
    lists_push = True

    def __init__(self, http, binding, url, *, guarded=None, token=None):
        self.lacks = {"list_tasks"} | ({"resume"} if binding == "grpc" else set())  # messages of gRPC have no ids
        self.http, self.binding, self.url, self.guarded, self.token = http, binding, url, guarded, token
        self.made, self.channels = {}, {}

    def known(self):
        url, token = self.guarded
        # The SDK's own interceptors only reach JSON-RPC; elsewhere the token goes into the HTTP client or the channel.
        headers = {"Authorization": f"Bearer {token}"} if self.binding == "rest" else {}
        return SdkClient(httpx.AsyncClient(timeout=15, headers=headers), self.binding, url, token=token)

    def stranger(self):
        return SdkClient(self.http, self.binding, self.guarded[0])

    def channel(self, url):
        if url not in self.channels:
            interceptors = [WithToken(self.token)] if self.token else []
            self.channels[url] = grpc.aio.insecure_channel(url, interceptors=interceptors)
        return self.channels[url]

    async def sdk(self, *, streaming=False, polling=False, push=None):
        """The SDK's client, made from the card that the server gives."""
        kind = (streaming, polling, push is not None)
        if kind not in self.made:
            config = ClientConfig(
                streaming=streaming,
                polling=polling,
                push_notification_configs=[PushNotificationConfig(**push)] if push else [],
                httpx_client=self.http,
                grpc_channel_factory=self.channel,
                supported_transports=[BINDINGS[self.binding]],
            )
            interceptors = [AuthInterceptor(Token(self.token))] if self.token else []
            self.public_card = await A2ACardResolver(self.http, self.url).get_agent_card()
            self.made[kind] = ClientFactory(config).create(self.public_card, interceptors=interceptors)
        return self.made[kind]

    async def card(self):
        return seen_card(await A2ACardResolver(self.http, self.url).get_agent_card())

    async def extended_card(self):
        return seen_card(await (await self.sdk()).get_card())

    async def send(self, parts, *, task=None, context=None, now=False, push=None):
        events = (await self.sdk(polling=now, push=push)).send_message(message(parts, task, context))
        [(answer, _)] = [event async for event in events]
        return seen_task(answer)

    async def start(self, parts):
        return await self.send(parts, now=True)

    async def stream(self, parts):
        events = (await self.sdk(streaming=True)).send_message(message(parts, None))
        try:
            async for task, update in events:
                yield seen_event(update or task)
        finally:
            await events.aclose()

    async def subscribe(self, task_id, after=None):
        # The SDK's client wants a task before the first update, so events are taken one layer below it.
        transport = (await self.sdk(streaming=True))._transport
        context = ClientCallContext(state={"http_kwargs": {"headers": {"Last-Event-ID": after}}}) if after else None
        async for event in transport.resubscribe(TaskIdParams(id=task_id), context=context):
            yield seen_event(event)

    def last_id(self):
        return self.http._transport.last_id

    async def get(self, task_id, history=None):
        return seen_task(await (await self.sdk()).get_task(TaskQueryParams(id=task_id, history_length=history)))

    async def cancel(self, task_id):
        return seen_task(await (await self.sdk()).cancel_task(TaskIdParams(id=task_id)))

    async def create_push(self, task_id, config):
        return seen_push(await (await self.sdk()).set_task_callback(task_push(task_id, config)))

    async def get_push(self, task_id, config_id):
        # Over REST and gRPC the config's id is part of a resource name and cannot be left out.
        known = config_id if self.binding == "jsonrpc" else config_id or task_id
        request = GetTaskPushNotificationConfigParams(id=task_id, push_notification_config_id=known)
        return seen_push(await (await self.sdk()).get_task_callback(request))

    async def list_push(self, task_id):
        client = await self.sdk()
        if self.binding == "grpc":
            request = a2a_pb2.ListTaskPushNotificationConfigRequest(parent=f"tasks/{task_id}")
            page = await client._transport.stub.ListTaskPushNotificationConfig(request)
        elif self.binding == "rest":
            answer = await self.http.get(f"{self.rest_url()}/v1/tasks/{task_id}/pushNotificationConfigs")
            page = ParseDict(answer.raise_for_status().json(), a2a_pb2.ListTaskPushNotificationConfigResponse())
        else:
            result = await self.call("tasks/pushNotificationConfig/list", {"id": task_id})
            page = ListTaskPushNotificationConfigResponse.model_validate(result).root.result
            return [seen_push(config) for config in page]
        return [seen_push(proto_utils.FromProto.task_push_notification_config(config)) for config in page.configs]

    async def delete_push(self, task_id, config_id):
        client = await self.sdk()
        name = f"tasks/{task_id}/pushNotificationConfigs/{config_id}"
        if self.binding == "grpc":
            await client._transport.stub.DeleteTaskPushNotificationConfig(
                a2a_pb2.DeleteTaskPushNotificationConfigRequest(name=name)
            )
        elif self.binding == "rest":
            (await self.http.delete(f"{self.rest_url()}/v1/{name}")).raise_for_status()
        else:
            params = {"id": task_id, "pushNotificationConfigId": config_id}
            assert "error" not in await self.call("tasks/pushNotificationConfig/delete", params)

    def rest_url(self):
        [url] = [way.url for way in self.public_card.additional_interfaces if way.transport == "HTTP+JSON"]
        return url

    async def call(self, method, params):
        body = {"jsonrpc": "2.0", "id": "past-the-client", "method": method, "params": params}
        return (await self.http.post(self.public_card.url, json=body)).raise_for_status().json()

    def sight(self, error):
        match error:
            case A2AClientJSONRPCError():
                return error.error.code
            case A2AClientHTTPError():
                return error.status_code
            case grpc.aio.AioRpcError():
                return error.code().name
            case _:
                return repr(error)


async def main():
    given = settings()
    async with httpx.AsyncClient(timeout=15, transport=Watched()) as http:
        guarded = (given["guarded_url"], given["token"])
        await play(SdkClient(http, given["binding"], given["url"], guarded=guarded))


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(main())
