"""A caller in one dialect over one binding, who sees canonical values: what a rule says is then the same for all.

It is made of the same codecs as a client, and of nothing of the server's. `raw` is for what they cannot produce.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import grpc
import grpc.aio
import httpx2

from parley.dialects import json_errors, protobuf_v0_3, protobuf_v1_0, v0_3_protojson, v1_0
from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import parse_reply
from parley.dialects.protobuf_status import decode_status
from parley.dialects.registry import DIALECTS
from parley.dialects.rest import encode_rest_request
from parley.protocol import operations as ops
from parley.protocol import requests as r
from parley.protocol.cards import Binding
from parley.protocol.messages import Message, Part, Role, TextPart
from parley.protocol.operations import Operation
from parley.protocol.push import PushConfig
from parley.protocol.requests import SendConfiguration
from parley.protocol.tasks import Task
from parley.protocol.versions import Version
from parley.wire import jsonrpc, sse
from parley.wire.rest import build_path, encode_query

SECONDS = 30.0
"""How long the server may take to answer a call. It is a process of its own, which other work may hold up."""

_numbers = count(1)

GRPC: dict[Version, ProtobufDialect] = {Version.V0_3: protobuf_v0_3.DIALECT, Version.V1_0: protobuf_v1_0.DIALECT}
REST = {Version.V0_3: v0_3_protojson.REST_DIALECT, Version.V1_0: v1_0.REST_DIALECT}


@dataclass
class Peer:
    """A caller; use it as `async with peer:`."""

    version: Version
    binding: Binding
    places: dict[str, dict[str, str]]
    store: str = "memory"
    app: str = "open"
    headers: dict[str, str] = field(default_factory=dict[str, str])
    tenant: str | None = None
    last_headers: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def url(self) -> str:
        """Where the HTTP bindings are."""
        return self.places[f"{self.store}/{self.app}"]["url"]

    async def __aenter__(self) -> Peer:
        self.http = httpx2.AsyncClient(base_url=self.url, timeout=SECONDS)
        self.channel = grpc.aio.insecure_channel(self.places[f"{self.store}/{self.app}"]["grpc"])
        return self

    def at(self, app: str, token: str | None = None, **headers: str) -> Peer:
        """The same caller at another app, with a token."""
        if token:
            headers["authorization"] = f"Bearer {token}"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return Peer(self.version, self.binding, self.places, self.store, app, named)

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()
        await self.channel.close()

    # --- words --------------------------------------------------------------------------------------------------------

    def message(self, *parts: str | Part, **fields: Any) -> Message:
        """A message with a fresh id."""
        wrapped = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
        fields = {"message_id": f"m-{next(_numbers)}-{uuid4()}", **fields}
        return Message(role=Role.USER, parts=wrapped, **fields)

    def request(self, message: Message, **configuration: Any) -> r.SendMessageRequest:
        """A send of this message; a caller of 0.1 names its task itself."""
        names_task = self.version is Version.V0_1
        if names_task and message.task_id is None:
            message = Message(
                message.message_id, message.role, message.parts, message.context_id, f"task-{uuid4()}", message.metadata
            )
        return r.SendMessageRequest(
            message, SendConfiguration(**configuration), tenant=self.tenant, caller_names_task=names_task
        )

    async def send(self, *parts: str | Part, task: Task | None = None, **fields: Any) -> Any:
        """Send something and wait for what becomes of it."""
        configuration = {name: fields.pop(name) for name in SendConfiguration.__struct_fields__ if name in fields}
        if task is not None:
            fields |= {"task_id": task.id}
        return await self.call(ops.SEND_MESSAGE, self.request(self.message(*parts, **fields), **configuration))

    async def start(self, text: str, **fields: Any) -> Task:
        """Send something and do not wait: by a stream in 0.1, which has no other way."""
        if self.version is not Version.V0_1:
            return await self.send(text, return_immediately=True, **fields)
        request = self.request(self.message(text, **fields))
        async with aclosing(self.stream(ops.SEND_STREAMING_MESSAGE, request)) as events:
            async for _ in events:
                break
        return await self.get(request.message.task_id or "")

    async def get(self, task_id: str, **fields: Any) -> Task:
        """Read a task."""
        task: Any = await self.call(ops.GET_TASK, r.GetTaskRequest(task_id, tenant=self.tenant, **fields))
        return task

    async def list(self, **fields: Any) -> r.TaskPage:
        """List tasks."""
        page: Any = await self.call(ops.LIST_TASKS, r.ListTasksRequest(tenant=self.tenant, **fields))
        return page

    async def cancel(self, task_id: str) -> Task:
        """Stop a task."""
        task: Any = await self.call(ops.CANCEL_TASK, r.CancelTaskRequest(task_id, tenant=self.tenant))
        return task

    async def register(self, task_id: str, url: str = "http://127.0.0.1:9/hook", **fields: Any) -> PushConfig:
        """Register a webhook."""
        request = r.CreatePushConfigRequest(task_id, PushConfig(url, **fields), tenant=self.tenant)
        config: Any = await self.call(ops.CREATE_PUSH_CONFIG, request)
        return config

    async def stream_of(self, *parts: str | Part, **fields: Any) -> list[Any]:
        """Send something and get all events that come of it."""
        request = self.request(self.message(*parts, **fields))
        return [event async for event in self.stream(ops.SEND_STREAMING_MESSAGE, request)]

    def subscribe(self, task_id: str, *, after: str | None = None) -> AsyncGenerator[Any]:
        """Follow a task."""
        request = r.SubscribeToTaskRequest(task_id, tenant=self.tenant)
        return self.stream(ops.SUBSCRIBE_TO_TASK, request, {"last-event-id": after} if after else {})

    # --- bindings -----------------------------------------------------------------------------------------------------

    async def call(self, operation: Operation, request: Any) -> Any:
        """Call an operation. Raises the A2AError that the server reports."""
        if self.binding is Binding.GRPC:
            return await self._call_grpc(operation, request)
        verb, path, body = self.http_request(operation, request)
        reply = await self.http.request(verb, path, content=body, headers=self.http_headers())
        self.last_headers = dict(reply.headers)
        if self.binding is Binding.JSONRPC:
            return self._result(operation, reply.content)
        if reply.status_code != 200:
            raise json_errors.decode_rest_error(reply.status_code, reply.content)
        return REST[self.version].decode_result(operation, reply.content)

    async def stream(
        self, operation: Operation, request: Any, headers: dict[str, str] | None = None
    ) -> AsyncGenerator[Any]:
        """Call an operation that streams. Raises the A2AError that the server reports."""
        if self.binding is Binding.GRPC:
            async for event in self._stream_grpc(operation, request, headers or {}):
                yield event
            return
        verb, path, body = self.http_request(operation, request)
        sent = self.http_headers() | (headers or {})
        async with self.http.stream(verb, path, content=body, headers=sent) as reply:
            if not reply.headers["content-type"].startswith("text/event-stream"):
                content = await reply.aread()
                if self.binding is Binding.JSONRPC:
                    self._result(operation, content)
                raise json_errors.decode_rest_error(reply.status_code, content)
            self.last_headers = dict(reply.headers)
            decoder = sse.Decoder()
            async for chunk in reply.aiter_bytes():
                for frame in decoder.feed(chunk):
                    yield self._event(frame)

    def http_headers(self) -> dict[str, str]:
        """The headers of every request."""
        # 0.1 shares names of methods with 0.3, and says which it is; real clients of 0.1 leave that to their task's id.
        version = {"A2A-Version": self.version} if self.version in (Version.V0_1, Version.V0_2, Version.V1_0) else {}
        return {"content-type": "application/json", **version, **self.headers}

    def http_request(self, operation: Operation, request: Any) -> tuple[str, str, bytes]:
        """The verb, path and body that ask for an operation, for rules about HTTP."""
        if self.binding is Binding.JSONRPC:
            params = DIALECTS[self.version].encode_request(operation, request)
            return "POST", "/", jsonrpc.encode_request(b'"r-1"', operation.methods[self.version], params)
        asked = encode_rest_request(self.version, operation, request)
        verb, path = build_path(operation, self.version, parameters=asked.parameters, tenant=asked.tenant)
        query = encode_query(asked.query)
        return verb, f"{path}?{query}" if query else path, asked.body

    def _result(self, operation: Operation, content: bytes) -> Any:
        response = jsonrpc.decode_response(content)
        if response.error is not None:
            raise json_errors.decode_error(self.version, response.error)
        return DIALECTS[self.version].decode_result(operation, response.result or b"null")

    def _event(self, frame: sse.Frame) -> Any:
        if self.binding is Binding.HTTP_JSON:
            if frame.event == "error":
                raise json_errors.decode_rest_error(200, frame.data)
            return REST[self.version].decode_event(frame.data)
        response = jsonrpc.decode_response(frame.data)
        if response.error is not None:
            raise json_errors.decode_error(self.version, response.error)
        return DIALECTS[self.version].decode_event(response.result or b"null")

    def _metadata(self, more: dict[str, str] | None = None) -> tuple[tuple[str, str], ...]:
        version = (("a2a-version", "1.0"),) if self.version is Version.V1_0 else ()
        return (*version, *self.headers.items(), *(more or {}).items())

    async def _call_grpc(self, operation: Operation, request: Any) -> Any:
        dialect = GRPC[self.version]
        rpc = dialect.rpc(operation)
        call = self.channel.unary_unary(rpc.path)(
            dialect.encode_request(operation, request).SerializeToString(), metadata=self._metadata(), timeout=SECONDS
        )
        try:
            data = await call
        except grpc.aio.AioRpcError as error:
            raise _grpc_error(error) from error
        self.last_headers = {str(name): str(value) for name, value in await call.initial_metadata()}
        return dialect.decode_result(operation, parse_reply(rpc.response, data))

    async def _stream_grpc(self, operation: Operation, request: Any, headers: dict[str, str]) -> AsyncGenerator[Any]:
        dialect = GRPC[self.version]
        rpc = dialect.rpc(operation)
        call = self.channel.unary_stream(rpc.path)(
            dialect.encode_request(operation, request).SerializeToString(),
            metadata=self._metadata(headers),
            timeout=SECONDS,
        )
        try:
            async for data in call:
                yield dialect.decode_event(parse_reply(rpc.response, data))
        except grpc.aio.AioRpcError as error:
            raise _grpc_error(error) from error
        finally:
            call.cancel()


def _grpc_error(error: grpc.aio.AioRpcError) -> Exception:
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    return decode_status(error.code().name, error.details() or "", details if isinstance(details, bytes) else None)
