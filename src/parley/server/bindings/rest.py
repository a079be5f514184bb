"""The HTTP+JSON endpoint: 1.0 below the agent's URL, with or without a tenant, and 0.3 below `/v1`.

Errors have their HTTP status, streams are server-sent events. A reply in 0.3 has the JSON form that the request used.
Spec: 1.0 section 11, 0.3 section 3.5.3.
"""

from __future__ import annotations

from parley.dialects.cards import encode_superset_card
from parley.dialects.detect import detect_rest
from parley.dialects.dialect import JsonDialect
from parley.dialects.json_errors import encode_rest_error
from parley.dialects.rest import decode_rest_request
from parley.engine.reading.large import encoded
from parley.protocol.cards import AgentCard, Binding
from parley.protocol.errors import A2AError
from parley.protocol.events import StreamEvent
from parley.protocol.operations import GET_EXTENDED_CARD, Operation
from parley.protocol.requests import Request, Result
from parley.protocol.versions import Version
from parley.server.bindings.cursor import read_last_event_id
from parley.server.bindings.failures import ClientDisconnected, Header, as_wire_error, with_last_event_id
from parley.server.bindings.http import JSON, AsgiRequest, reply_error
from parley.server.bindings.streams import SseStream
from parley.server.call_stream import CallStream
from parley.server.service import Service, extension_headers
from parley.server.telemetry.call import Call
from parley.wire.rest import RouteMatch, match_any, read_query
from parley.wire.sse import encode_frame

A2A_JSON = b"application/a2a+json"
"""The media type of 1.0. Errors keep plain JSON, which every client reads."""
NO_STORE: Header = (b"cache-control", b"no-store")
"""Tasks are private, and GET requests may pass through a shared cache."""


class RestEndpoint:
    """Answers the REST routes below an agent's URL."""

    __slots__ = ("_service", "_shared")

    def __init__(self, service: Service) -> None:
        self._service = service
        self._shared = service.shared

    async def __call__(self, request: AsgiRequest, path: str) -> None:
        """Answer one request; `path` is relative to the agent's URL."""
        version, call = Version.V0_3 if path.startswith("/v1/") else Version.V1_0, None
        try:
            match = match_any(request.verb, path)
            detect_rest(match.operation, version, request.version_header)
            identity = await self._shared.authenticate(request.credentials, request.address)
            decoded, dialect = await self._decode(request, match)
            after = read_last_event_id(request.headers) if match.operation.streams else None
            call = request.call(self._service.agent_id, match.operation, version, Binding.HTTP_JSON, identity)
            if match.operation.streams:
                call.after = after
                events = self._service.follow(call, decoded)
                del decoded  # a message may be large, and its stream may be long
                await self._stream(request, call, dialect, events)
                return
            result = await self._answer(request, call, dialect, decoded)
            reserved = request.reserve_reply(self._shared.bodies, result)
        except ClientDisconnected:
            return
        except Exception as error:  # a request ends here; no frame of the traceback may refer to the error
            await self._refuse(request, version, as_wire_error(error), is_decoded=call is not None)
        else:
            content_type = A2A_JSON if version is Version.V1_0 else JSON
            await request.reply_long(
                self._shared.bodies, reserved, result, content_type, [NO_STORE, *extension_headers(call)]
            )

    async def _answer(self, request: AsgiRequest, call: Call, dialect: JsonDialect, decoded: Request) -> bytes:
        with self._shared.monitor.waiting_callers.waiting(request):
            result = await self._service.answer(call, decoded)
        return await encoded(result, lambda value: _encode(dialect, call.operation, value))

    async def _refuse(self, request: AsgiRequest, version: Version, error: A2AError, *, is_decoded: bool) -> None:
        if not is_decoded:
            self._service.refused(Binding.HTTP_JSON, error)
        await reply_error(request, version, error)

    async def _decode(self, request: AsgiRequest, match: RouteMatch) -> tuple[Request, JsonDialect]:
        return decode_rest_request(
            match.version,
            match.operation,
            parameters=match.parameters,
            query=read_query(match.route, request.query),
            body=await request.read_json_body(self._shared.limits, self._shared.bodies),
            tenant=match.tenant,
        )

    async def _stream(self, request: AsgiRequest, call: Call, dialect: JsonDialect, events: CallStream) -> None:
        def encode(seq: int, event: StreamEvent, ends: bool) -> bytes:
            (frame,) = dialect.encode_event(event, ends=ends)
            return encode_frame(frame, id=str(seq) if seq else None)

        def fail(error: BaseException, last_seq: int) -> bytes:
            _, body = encode_rest_error(call.version, with_last_event_id(as_wire_error(error), last_seq))
            return encode_frame(body, event="error")

        stream = SseStream(request, events, encode, fail, lambda: extension_headers(call), self._shared.bodies)
        await stream.run(self._shared.monitor)


def _encode(dialect: JsonDialect, operation: Operation, result: Result) -> bytes:
    """Encode a result. Clients of 0.3 disagree on the form of security schemes in a card, so they get both."""
    if operation is GET_EXTENDED_CARD and dialect.version is Version.V0_3 and isinstance(result, AgentCard):
        return encode_superset_card(result)
    return dialect.encode_result(operation, result)
