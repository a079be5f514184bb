"""`POST /v1/a2a/agents/:id`: JSON-RPC as the host documents it, and real 1.0 at the same URL.

The documented methods are those of 0.3 under the label "1.0": the method's name alone says which of the two is meant.
Errors are JSON-RPC errors with status 200, also before a stream's first event; only a missing or invalid token and a
rate limit have a status of their own. An unknown `A2A-Version` is error -32007 here, which is another error in A2A, so
its data names the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from parley.dialects.detect import METHODS
from parley.dialects.json_errors import encode_error
from parley.dialects.registry import DIALECTS
from parley.engine.reading.large import encoded
from parley.protocol import operations as ops
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    InvalidRequestError,
    MethodNotFoundError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from parley.protocol.events import ArtifactUpdate, StreamEvent
from parley.protocol.operations import Needs, Operation
from parley.protocol.versions import Version
from parley.server.app_resources import AppResources
from parley.server.bindings.cursor import read_last_event_id
from parley.server.bindings.failures import ClientDisconnected, as_wire_error, headers_of_error, with_last_event_id
from parley.server.bindings.http import JSON, AsgiRequest
from parley.server.bindings.streams import SseStream
from parley.server.call_stream import CallStream
from parley.server.security.credentials import Identity
from parley.server.service import Service, extension_headers
from parley.server.telemetry.call import Call
from parley.wire import jsonrpc
from parley.wire.jsonrpc import NULL, RejectedRequest
from parley.wire.sse import encode_frame

ACCEPTED_VERSIONS = ("", "1", "1.0")

VERSION_NOT_SUPPORTED = -32007
"""As documented. A2A itself has -32009 for it."""

HTTP_LEVEL_STATUSES = frozenset({401, 429})
"""Statuses that proxies and clients must see even though the body is JSON-RPC."""

OLD_METHODS: Mapping[str, Operation] = {
    operation.methods[Version.V0_3]: operation
    for operation in (
        ops.SEND_MESSAGE,
        ops.SEND_STREAMING_MESSAGE,
        ops.GET_TASK,
        ops.CANCEL_TASK,
        ops.SUBSCRIBE_TO_TASK,
        ops.CREATE_PUSH_CONFIG,
        ops.GET_PUSH_CONFIG,
        ops.LIST_PUSH_CONFIGS,
        ops.DELETE_PUSH_CONFIG,
    )
}
"""The documented methods."""


class _IdMember(Struct):
    id: Raw = Raw()


_id_decoder = msgspec.json.Decoder(_IdMember)


class DispatchEndpoint:
    """Answers `POST` at the URL of a hosted agent. `service` is None if the tenant has no agent of that name."""

    def __init__(self, service: Service | None, shared: AppResources) -> None:
        self._service = service
        self._shared = shared

    async def __call__(self, request: AsgiRequest, identity: Identity) -> None:
        """Answer one request of an authenticated caller."""
        reply = _Reply(request)
        try:
            if (request.version_header or "").strip() not in ACCEPTED_VERSIONS:
                await reply.refuse_version()
                return
            await self._dispatch(request, identity, reply)
        except ClientDisconnected:
            return
        except Exception as error:  # a request ends here
            await reply.refuse(as_wire_error(error), self._service)

    async def _dispatch(self, request: AsgiRequest, identity: Identity, reply: _Reply) -> None:
        rpc = reply.read(await request.read_json_body(self._shared.limits, self._shared.bodies))
        operation, reply.version = _detect(rpc.method)
        service = self._service
        if service is None:
            raise TaskNotFoundError("This tenant has no such agent")
        if operation.needs is Needs.PUSH and reply.version is Version.V0_3 and not service.cards.has_push:
            raise UnsupportedOperationError("Push notifications are not enabled for this tenant")
        decoded = DIALECTS[reply.version].decode_request(operation, rpc.params)
        call = request.call(service.agent_id, operation, reply.version, Binding.JSONRPC, identity)
        reply.is_decoded = True
        if operation.streams:
            call.after = read_last_event_id(request.headers)
            events = service.follow(call, decoded)
            del decoded  # a message may be large, and its stream may be long
            await reply.stream(call, events, service)
        else:
            await reply.answer(call, decoded, service)


def _with_append(payload: bytes, append: bool) -> bytes:
    """An artifact update that says also if it does not append: 0.3 leaves that out, and the documents show it."""
    return payload if append else payload[:-1] + b',"append":false}'


def _detect(method: str) -> tuple[Operation, Version]:
    """The operation of a method and its dialect. Raises MethodNotFoundError."""
    operation = OLD_METHODS.get(method)
    if operation is not None:
        return operation, Version.V0_3
    operation = METHODS.get(method, {}).get(Version.V1_0)
    if operation is None:
        raise MethodNotFoundError(f"Method not found: {method[:100]!r}")
    return operation, Version.V1_0


class _Reply:
    """The reply to one request, as far as the request has been read."""

    def __init__(self, request: AsgiRequest) -> None:
        self._request = request
        self._id = NULL
        self.version = Version.V0_3
        self.is_decoded = False

    def read(self, body: bytes) -> jsonrpc.Request:
        """The request's envelope. Raises InvalidRequestError, InvalidParamsError or ParseError."""
        try:
            rpc = jsonrpc.decode_request(body)
        except RejectedRequest as rejected:
            self._id = rejected.request_id
            raise rejected.error from None
        self._id = rpc.id
        if rpc.id == NULL and not bytes(_id_decoder.decode(body).id):
            raise InvalidRequestError("The request has no id", path="$.id")
        if not rpc.states_version:
            raise InvalidRequestError('jsonrpc must be "2.0"', path="$.jsonrpc")
        return rpc

    async def answer(self, call: Call, decoded: Any, service: Service) -> None:
        """Run an operation and send its result."""
        request, shared, request_id = self._request, service.shared, self._id
        with shared.monitor.waiting_callers.waiting(request):
            result = await service.answer(call, decoded)
        encode = DIALECTS[call.version].encode_result
        body = await encoded(result, lambda value: jsonrpc.encode_result(request_id, encode(call.operation, value)))
        reserved = request.reserve_reply(shared.bodies, body)
        await request.reply_long(shared.bodies, reserved, body, JSON, extension_headers(call))

    async def stream(self, call: Call, events: CallStream, service: Service) -> None:
        """Send a stream. Raises what keeps it from starting."""
        dialect, request_id = DIALECTS[call.version], self._id

        def encode(seq: int, event: StreamEvent, ends: bool) -> bytes:
            *before, last = dialect.encode_event(event, ends=ends)
            if isinstance(event, ArtifactUpdate) and call.version is Version.V0_3:
                last = _with_append(last, event.append)
            frames = [encode_frame(jsonrpc.encode_result(request_id, one), event="message") for one in before]
            cursor = str(seq) if seq else None
            frames.append(encode_frame(jsonrpc.encode_result(request_id, last), id=cursor, event="message"))
            return b"".join(frames)

        def fail(error: BaseException, last_seq: int) -> bytes:
            failure = with_last_event_id(as_wire_error(error), last_seq)
            name = "error" if call.version is Version.V1_0 else "message"
            return encode_frame(jsonrpc.encode_error(request_id, encode_error(call.version, failure)), event=name)

        shared = service.shared
        sse = SseStream(self._request, events, encode, fail, lambda: extension_headers(call), shared.bodies)
        await sse.run(shared.monitor)

    async def refuse(self, error: A2AError, service: Service | None) -> None:
        """Send an error."""
        if service is not None and not self.is_decoded:
            service.refused(Binding.JSONRPC, error)
        status = error.row.http if error.row.http in HTTP_LEVEL_STATUSES else 200
        body = jsonrpc.encode_error(self._id, encode_error(self.version, error))
        await self._request.reply(status, body, JSON, headers_of_error(error))

    async def refuse_version(self) -> None:
        """Send the documented error for an `A2A-Version` that is not supported; the id is not known yet."""
        stated = (self._request.version_header or "").strip()[:100]
        error = {
            "code": VERSION_NOT_SUPPORTED,
            "message": f"A2A-Version {stated!r} is not supported; send 1.0, 1 or none",
            "data": {"reason": "VERSION_NOT_SUPPORTED", "supported": ["1.0", "1"]},
        }
        await self._request.reply(200, jsonrpc.encode_error(NULL, msgspec.json.encode(error)), JSON)
