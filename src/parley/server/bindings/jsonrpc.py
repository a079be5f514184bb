"""The JSON-RPC endpoint: all four dialects at one URL, streams as server-sent events.

Errors are answered with HTTP 200, except where HTTP itself must speak. A stream that fails before its first event is
answered with plain JSON in 1.0, and before that with one frame, which is what those clients can read.
Spec: 1.0 section 9, 0.3 section 3.2.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import Struct

from parley.dialects.detect import Detection, detect_jsonrpc, is_ambiguous
from parley.dialects.json_errors import encode_error
from parley.dialects.registry import DIALECTS
from parley.engine.large import encoded
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError, InvalidRequestError
from parley.protocol.events import StreamEvent
from parley.protocol.negotiation import read_version
from parley.protocol.versions import Version
from parley.server.bindings.body_budget import BodyRoom
from parley.server.bindings.failures import ClientGone, as_wire_error, headers_of_error, resumable
from parley.server.bindings.http import JSON, HttpRequest
from parley.server.bindings.streams import EVENT_STREAM, Batches, Pulse, SseStream
from parley.server.security.credentials import Identity
from parley.server.service import Service, cursor_in, extension_headers
from parley.server.telemetry.observer import Call
from parley.wire import jsonrpc
from parley.wire.jsonrpc import NULL, RejectedRequest
from parley.wire.sse import encode_frame

SPOKEN_BY_HTTP = frozenset({401, 403, 413, 415, 429})
"""Statuses that proxies and clients must see even though the body is JSON-RPC."""


class _TaskParams(Struct):
    id: str = ""


_task_params = msgspec.json.Decoder(_TaskParams)


@dataclass(slots=True)
class _Manner:
    """How a request is to be answered, as far as that is known by now."""

    id: bytes = NULL
    version: Version | None = None
    streams: bool = False
    is_understood: bool = False


class JsonRpcEndpoint:
    """Answers `POST` at an agent's URL."""

    def __init__(self, service: Service, pulse: Pulse, bodies: BodyRoom) -> None:
        self._service = service
        self._pulse = pulse
        self._bodies = bodies

    async def __call__(self, request: HttpRequest) -> None:
        """Answer one request, whatever it is."""
        manner = _Manner()
        try:
            call, asked = await self._understand(request, manner)
            if call.operation.streams:
                batches = self._service.follow(call, asked)
                del asked  # a message may be large, and its stream long
                await self._stream(request, manner.id, call, batches)
                return
            body = await self._answer(request, manner.id, call, asked)
            taken = request.take_room(self._bodies, body)
        except ClientGone:
            return
        except Exception as error:  # here a request ends; the error must not stay in a frame of its own traceback
            await self._refuse(request, manner, as_wire_error(error))
        else:
            await request.reply_long(self._bodies, taken, body, JSON, extension_headers(call))

    async def _answer(self, request: HttpRequest, request_id: bytes, call: Call, asked: Any) -> bytes:
        with self._pulse.waits.waiting(request):
            result = await self._service.answer(call, asked)
        encode = DIALECTS[call.version].encode_result
        return await encoded(result, lambda value: jsonrpc.encode_result(request_id, encode(call.operation, value)))

    async def _refuse(self, request: HttpRequest, manner: _Manner, error: A2AError) -> None:
        if not manner.is_understood:
            self._service.refused(Binding.JSONRPC, error)
        await _refuse(request, manner, error)

    async def _understand(self, request: HttpRequest, manner: _Manner) -> tuple[Call, Any]:
        """What is asked, and by whom. An error on the way is answered in the manner known by then."""
        identity = await self._service.authenticate(request.credentials, request.address)
        body = await request.read_json_body(self._service.limits, self._bodies)
        rpc = _read(body, manner)
        manner.id = self._checked_id(rpc.id)
        found = await self._detect(rpc, request.version_header, identity)
        manner.version, manner.streams = found.version, found.operation.streams
        if not rpc.states_version and found.version is not Version.V0_1:
            raise InvalidRequestError('jsonrpc must be given, as "2.0"', path="$.jsonrpc")
        asked = DIALECTS[found.version].decode_request(found.operation, rpc.params)
        call = request.call(self._service.agent_id, found.operation, found.version, Binding.JSONRPC, identity)
        if found.operation.streams:
            call.after = cursor_in(request.headers)
        manner.is_understood = True
        return call, asked

    def _checked_id(self, request_id: bytes) -> bytes:
        if len(request_id) > self._service.limits.id_bytes:
            raise InvalidRequestError(f"The id may have {self._service.limits.id_bytes} bytes", path="$.id")
        return request_id

    async def _detect(self, rpc: jsonrpc.Request, header: str | None, identity: Identity) -> Detection:
        """The dialect of the request; where three releases share the method, that in which the task was created.

        An unknown task is taken for one of 0.1 if the request leaves out `jsonrpc`, which only 0.1 allows.
        """
        created_in = None
        if not header and is_ambiguous(rpc.method):
            try:
                task_id = _task_params.decode(rpc.params).id
            except msgspec.MsgspecError:
                task_id = ""  # the dialect's own reader will say what is wrong
            created_in = await self._service.created_in(task_id, identity) if task_id else None
            if created_in is None and not rpc.states_version:
                created_in = Version.V0_1
        return detect_jsonrpc(rpc.method, header, created_in=created_in)

    async def _stream(self, request: HttpRequest, request_id: bytes, call: Call, batches: Batches) -> None:
        dialect = DIALECTS[call.version]

        def encode(seq: int, event: StreamEvent, ends: bool) -> bytes:
            *before, final = dialect.encode_event(event, ends=ends)
            frames = [encode_frame(jsonrpc.encode_result(request_id, payload)) for payload in before]
            frames.append(encode_frame(jsonrpc.encode_result(request_id, final), id=str(seq) if seq else None))
            return b"".join(frames)

        def fail(error: BaseException, last_seq: int) -> bytes:
            return _error_frame(request_id, call.version, resumable(as_wire_error(error), last_seq))

        async with aclosing(batches):
            stream = SseStream(request, batches, encode, fail, lambda: extension_headers(call), self._bodies)
            await stream.run(self._pulse)


def _read(body: bytes, manner: _Manner) -> jsonrpc.Request:
    try:
        return jsonrpc.decode_request(body)
    except RejectedRequest as rejected:
        manner.id, error = rejected.request_id, rejected.error
    try:
        raise error
    finally:
        del error  # its traceback has this frame


def _stated_version(request: HttpRequest) -> Version:
    """The version for errors that come before the dialect is known; who says none is taken for 0.3."""
    try:
        return read_version(request.version_header) or Version.V0_3
    except A2AError:
        return Version.V1_0


async def _refuse(request: HttpRequest, manner: _Manner, error: A2AError) -> None:
    version, headers = manner.version or _stated_version(request), headers_of_error(error)
    is_spoken = error.row.http in SPOKEN_BY_HTTP
    if manner.streams and version is not Version.V1_0 and not is_spoken:
        await request.reply(200, _error_frame(manner.id, version, error), EVENT_STREAM, headers)
    else:
        body = jsonrpc.encode_error(manner.id, encode_error(version, error))
        await request.reply(error.row.http if is_spoken else 200, body, JSON, headers)


def _error_frame(request_id: bytes, version: Version, error: A2AError) -> bytes:
    """One frame with an error; in 1.0 it also has the event's name that a2a-sdk looks at."""
    name = "error" if version is Version.V1_0 else None
    return encode_frame(jsonrpc.encode_error(request_id, encode_error(version, error)), event=name)
