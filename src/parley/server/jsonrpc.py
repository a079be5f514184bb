"""The JSON-RPC endpoint: all four dialects at one URL, streams as server-sent events.

Errors are answered with HTTP 200, except where HTTP itself must speak. A stream that fails before its first event is
answered with plain JSON in 1.0, and before that with one frame, which is what those clients can read.
Spec: 1.0 section 9, 0.3 section 3.2.
"""

from __future__ import annotations

from contextlib import aclosing

import msgspec
from msgspec import Struct

from parley.dialects.detect import Detection, detect_jsonrpc, is_ambiguous
from parley.dialects.dialect import JsonDialect
from parley.dialects.json_errors import encode_error
from parley.dialects.registry import DIALECTS
from parley.protocol.cards import Binding
from parley.protocol.errors import A2AError, InvalidRequestError, VersionNotSupportedError
from parley.protocol.events import StreamEvent
from parley.protocol.negotiation import read_version
from parley.protocol.versions import Version
from parley.server.credentials import Identity
from parley.server.http import JSON, BodyRoom, ClientGone, Header, HttpRequest, headers_of_error
from parley.server.observer import Call
from parley.server.service import EXTENSION_HEADERS, Service, as_wire_error, cursor_in
from parley.server.streams import Batches, Pulse, SseStream, preceded_by, resumable
from parley.wire import jsonrpc
from parley.wire.jsonrpc import NULL, RejectedRequest
from parley.wire.sse import encode_frame

SPOKEN_BY_HTTP = frozenset({401, 403, 405, 413, 415, 429})
"""Statuses that proxies and clients must see even though the body is JSON-RPC."""


class _TaskParams(Struct):
    id: str = ""


_task_params = msgspec.json.Decoder(_TaskParams)


class JsonRpcEndpoint:
    """Answers `POST` at an agent's URL."""

    def __init__(self, service: Service, pulse: Pulse, bodies: BodyRoom) -> None:
        self._service = service
        self._pulse = pulse
        self._bodies = bodies

    async def __call__(self, request: HttpRequest, base_url: str) -> None:
        """Answer one request, whatever it is."""
        request_id, version, call, streams = NULL, None, None, False
        try:
            identity = await self._service.authenticate(request.credentials, request.address)
            body = await request.read_json_body(self._service.limits, self._bodies)
            rpc = jsonrpc.decode_request(body)
            request_id = self._checked_id(rpc.id)
            found = await self._detect(rpc, request.version_header, identity)
            version, streams = found.version, found.operation.streams
            dialect = DIALECTS[version]
            asked = dialect.decode_request(found.operation, rpc.params)
            call = Call(
                self._service.agent_id,
                found.operation,
                version,
                Binding.JSONRPC,
                request.headers,
                identity,
                request.address,
                base_url,
            )
            if found.operation.streams:
                after = cursor_in(request.headers)
                batches = self._service.follow(call, asked, after=after)
                await self._stream(request, request_id, call, dialect, batches)
                return
            result = dialect.encode_result(found.operation, await self._service.answer(call, asked))
            taken = request.take_room(self._bodies, result)
        except RejectedRequest as rejected:
            self._service.refused(Binding.JSONRPC, rejected.error)
            await _refuse(request, rejected.request_id, _stated_version(request), rejected.error)
        except ClientGone:
            return
        except Exception as error:  # here a request ends
            failure = as_wire_error(error)
            if call is None:
                self._service.refused(Binding.JSONRPC, failure)
            version = version or _stated_version(request)
            in_frame = streams and version is not Version.V1_0 and failure.row.http not in SPOKEN_BY_HTTP
            await (_refuse_in_frame if in_frame else _refuse)(request, request_id, version, failure)
        else:
            body = jsonrpc.encode_result(request_id, result)
            await request.reply_long(self._bodies, taken, body, JSON, extension_headers(call))

    def _checked_id(self, request_id: bytes) -> bytes:
        if len(request_id) > self._service.limits.id_bytes:
            raise InvalidRequestError(f"The id may have {self._service.limits.id_bytes} bytes", path="$.id")
        return request_id

    async def _detect(self, rpc: jsonrpc.Request, header: str | None, identity: Identity) -> Detection:
        """The dialect of the request; where three releases share the method, that in which the task was created."""
        created_in = None
        if not header and is_ambiguous(rpc.method):
            try:
                task_id = _task_params.decode(rpc.params).id
            except msgspec.MsgspecError:
                task_id = ""  # the dialect's own reader will say what is wrong
            created_in = await self._service.created_in(task_id, identity) if task_id else None
        return detect_jsonrpc(rpc.method, header, created_in=created_in)

    async def _stream(
        self, request: HttpRequest, request_id: bytes, call: Call, dialect: JsonDialect, batches: Batches
    ) -> None:
        last = 0

        def encode(seq: int, event: StreamEvent, ends: bool) -> bytes:
            nonlocal last
            last = seq
            *before, final = dialect.encode_event(event, ends=ends)
            frames = [encode_frame(jsonrpc.encode_result(request_id, payload)) for payload in before]
            frames.append(encode_frame(jsonrpc.encode_result(request_id, final), id=str(seq) if seq else None))
            return b"".join(frames)

        def fail(error: BaseException) -> bytes:
            return _error_frame(request_id, call.version, resumable(as_wire_error(error), last))

        async with aclosing(batches):
            first = await anext(batches, None)
            stream = SseStream(request, preceded_by(first, batches), encode, fail)
            await stream.run(extension_headers(call), self._pulse)


def _stated_version(request: HttpRequest) -> Version:
    """The version for errors that come before the dialect is known; who says none is taken for 0.3."""
    try:
        return read_version(request.headers.get("a2a-version")) or Version.V0_3
    except VersionNotSupportedError:
        return Version.V1_0


async def _refuse(request: HttpRequest, request_id: bytes, version: Version, error: A2AError) -> None:
    status = error.row.http if error.row.http in SPOKEN_BY_HTTP else 200
    body = jsonrpc.encode_error(request_id, encode_error(version, error))
    await request.reply(status, body, JSON, headers_of_error(error))


async def _refuse_in_frame(request: HttpRequest, request_id: bytes, version: Version, error: A2AError) -> None:
    frame = _error_frame(request_id, version, error)
    await request.reply(200, frame, b"text/event-stream; charset=utf-8", headers_of_error(error))


def _error_frame(request_id: bytes, version: Version, error: A2AError) -> bytes:
    """One frame with an error; in 1.0 it also has the event's name that a2a-sdk looks at."""
    name = "error" if version is Version.V1_0 else None
    return encode_frame(jsonrpc.encode_error(request_id, encode_error(version, error)), event=name)


def extension_headers(call: Call) -> tuple[Header, ...]:
    """The header that says which extensions are active, if any."""
    if not call.extensions:
        return ()
    return ((EXTENSION_HEADERS[call.version].encode(), ", ".join(call.extensions).encode()),)
