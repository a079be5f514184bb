"""The JSON-RPC endpoint: all four dialects at one URL, streams as server-sent events.

Errors have HTTP status 200, except those that proxies and HTTP clients must see. A stream that fails before its first
event is answered with plain JSON in 1.0, and in older releases with one frame, which is what their clients expect.
Spec: 1.0 section 9, 0.3 section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from parley.dialects.detect import Detection, detect_jsonrpc, is_ambiguous
from parley.dialects.json_errors import encode_error
from parley.dialects.registry import DIALECTS
from parley.engine.reading.large import encoded
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError, InvalidRequestError
from parley.protocol.events import StreamEvent
from parley.protocol.negotiation import read_version
from parley.protocol.versions import Version
from parley.server.bindings.cursor import read_last_event_id
from parley.server.bindings.failures import ClientDisconnected, as_wire_error, headers_of_error, with_last_event_id
from parley.server.bindings.http import JSON, AsgiRequest
from parley.server.bindings.streams import EVENT_STREAM, SseStream
from parley.server.call_stream import CallStream
from parley.server.security.credentials import Identity
from parley.server.service import Service, extension_headers
from parley.server.telemetry.call import Call
from parley.wire import jsonrpc
from parley.wire.jsonrpc import NULL, RejectedRequest
from parley.wire.sse import encode_frame

HTTP_LEVEL_STATUSES = frozenset({401, 403, 413, 415, 429})
"""Statuses that proxies and clients must see even though the body is JSON-RPC."""


class _TaskParams(Struct):
    id: str = ""


_task_params = msgspec.json.Decoder(_TaskParams)


@dataclass(slots=True)
class _ReplyContext:
    """What a reply needs of its request, as far as the request has been read."""

    id: bytes = NULL
    version: Version | None = None
    streams: bool = False
    is_decoded: bool = False


class JsonRpcEndpoint:
    """Answers `POST` at an agent's URL."""

    __slots__ = ("_service", "_shared")

    def __init__(self, service: Service) -> None:
        self._service = service
        self._shared = service.shared

    async def __call__(self, request: AsgiRequest) -> None:
        """Answer one request."""
        context = _ReplyContext()
        try:
            call, decoded = await self._read_call(request, context)
            if call.operation.streams:
                events = self._service.follow(call, decoded)
                del decoded  # a message may be large, and its stream may be long
                await self._stream(request, context.id, call, events)
                return
            body = await self._answer(request, context.id, call, decoded)
            reserved = request.reserve_reply(self._shared.bodies, body)
        except ClientDisconnected:
            return
        except Exception as error:  # a request ends here; no frame of the traceback may refer to the error
            await self._refuse(request, context, as_wire_error(error))
        else:
            await request.reply_long(self._shared.bodies, reserved, body, JSON, extension_headers(call))

    async def _answer(self, request: AsgiRequest, request_id: bytes, call: Call, decoded: Any) -> bytes:
        with self._shared.monitor.waiting_callers.waiting(request):
            result = await self._service.answer(call, decoded)
        encode = DIALECTS[call.version].encode_result
        return await encoded(result, lambda value: jsonrpc.encode_result(request_id, encode(call.operation, value)))

    async def _refuse(self, request: AsgiRequest, context: _ReplyContext, error: A2AError) -> None:
        if not context.is_decoded:
            self._service.refused(Binding.JSONRPC, error)
        await _refuse(request, context, error)

    async def _read_call(self, request: AsgiRequest, context: _ReplyContext) -> tuple[Call, Any]:
        """Authenticate and decode a request. `context` is filled on the way, for the reply to an error."""
        identity = await self._shared.authenticate(request.credentials, request.address)
        body = await request.read_json_body(self._shared.limits, self._shared.bodies)
        rpc = _read(body, context)
        context.id = self._checked_id(rpc.id)
        found = await self._detect(rpc, request.version_header, identity)
        context.version, context.streams = found.version, found.operation.streams
        if not rpc.states_version and found.version is not Version.V0_1:
            raise InvalidRequestError('jsonrpc must be "2.0"', path="$.jsonrpc")
        decoded = DIALECTS[found.version].decode_request(found.operation, rpc.params)
        call = request.call(self._service.agent_id, found.operation, found.version, Binding.JSONRPC, identity)
        if found.operation.streams:
            call.after = read_last_event_id(request.headers)
        context.is_decoded = True
        return call, decoded

    def _checked_id(self, request_id: bytes) -> bytes:
        if len(request_id) > self._shared.limits.id_characters:
            raise InvalidRequestError(
                f"The id may have up to {self._shared.limits.id_characters} characters", path="$.id"
            )
        return request_id

    async def _detect(self, rpc: jsonrpc.Request, header: str | None, identity: Identity) -> Detection:
        """Detect the dialect. Three releases share some methods: then it is the dialect that created the task.

        If the task is unknown and the request has no `jsonrpc`, the dialect is 0.1, because only 0.1 allows that.
        """
        created_in = None
        if not header and is_ambiguous(rpc.method):
            try:
                task_id = _task_params.decode(rpc.params).id
            except msgspec.MsgspecError:
                task_id = ""  # decoding will report what is wrong
            created_in = await self._service.created_in(task_id, identity) if task_id else None
            if created_in is None and not rpc.states_version:
                created_in = Version.V0_1
        return detect_jsonrpc(rpc.method, header, created_in=created_in)

    async def _stream(self, request: AsgiRequest, request_id: bytes, call: Call, events: CallStream) -> None:
        dialect = DIALECTS[call.version]

        def encode(seq: int, event: StreamEvent, ends: bool) -> bytes:
            *before, final = dialect.encode_event(event, ends=ends)
            frames = [encode_frame(jsonrpc.encode_result(request_id, payload)) for payload in before]
            frames.append(encode_frame(jsonrpc.encode_result(request_id, final), id=str(seq) if seq else None))
            return b"".join(frames)

        def fail(error: BaseException, last_seq: int) -> bytes:
            return _error_frame(request_id, call.version, with_last_event_id(as_wire_error(error), last_seq))

        stream = SseStream(request, events, encode, fail, lambda: extension_headers(call), self._shared.bodies)
        await stream.run(self._shared.monitor)


def _read(body: bytes, context: _ReplyContext) -> jsonrpc.Request:
    try:
        return jsonrpc.decode_request(body)
    except RejectedRequest as rejected:
        context.id, error = rejected.request_id, rejected.error
    try:
        raise error
    finally:
        del error  # its traceback refers to this frame


def _stated_version(request: AsgiRequest) -> Version:
    """The version for errors before the dialect is known; 0.3 if the request states none."""
    try:
        return read_version(request.version_header) or Version.V0_3
    except A2AError:
        return Version.V1_0


async def _refuse(request: AsgiRequest, context: _ReplyContext, error: A2AError) -> None:
    version, headers = context.version or _stated_version(request), headers_of_error(error, request.resource_metadata)
    is_http_level = error.row.http in HTTP_LEVEL_STATUSES
    if context.streams and version is not Version.V1_0 and not is_http_level:
        await request.reply(200, _error_frame(context.id, version, error), EVENT_STREAM, headers)
    else:
        body = jsonrpc.encode_error(context.id, encode_error(version, error))
        await request.reply(error.row.http if is_http_level else 200, body, JSON, headers)


def _error_frame(request_id: bytes, version: Version, error: A2AError) -> bytes:
    """One frame with an error; in 1.0 with the event name that a2a-sdk expects."""
    name = "error" if version is Version.V1_0 else None
    return encode_frame(jsonrpc.encode_error(request_id, encode_error(version, error)), event=name)
