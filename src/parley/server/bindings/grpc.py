"""The gRPC server: the services of 0.3 and 1.0 on one port, with health and reflection.

Requests are parsed here and not by gRPC, so that bytes that spell no message get a precise error. Several agents share
the port: callers of 1.0 say in `tenant` which one they mean (`agent`, or `agent/tenant`), as its card tells them; 0.3
has no tenant, so it is served for one agent only. Spec: 1.0 section 10, 0.3 section 3.2.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from ipaddress import ip_address
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2
from msgspec import structs

from parley.dialects.protobuf_dialect import ProtobufDialect
from parley.dialects.protobuf_pool import loaded_pool, parse_request
from parley.dialects.protobuf_status import encode_status, encode_status_text
from parley.dialects.protobuf_v0_3 import DIALECT as V0_3
from parley.dialects.protobuf_v1_0 import DIALECT as V1_0
from parley.engine.large import encoded
from parley.protocol.cards import Binding
from parley.protocol.errors import (
    A2AError,
    InvalidParamsError,
    InvalidRequestError,
    UnavailableError,
    UnsupportedOperationError,
    VersionNotSupportedError,
)
from parley.protocol.negotiation import read_version
from parley.protocol.operations import OPERATIONS, Operation
from parley.protocol.versions import Version
from parley.server.app import App
from parley.server.bindings.failures import as_wire_error, headers_of_error, resumable
from parley.server.bindings.streams import Marked, with_endings
from parley.server.security.credentials import Credentials, Identity, PeerCertificate
from parley.server.service import Service, cursor_in, extension_headers
from parley.server.telemetry.observer import Call

# The stubs of grpcio-health-checking leave these two out.
_HealthServicer: Any = vars(health)["aio"].HealthServicer
_add_health: Callable[[Any, grpc.aio.Server], None] = vars(health_pb2_grpc)["add_HealthServicer_to_server"]

C = TypeVar("C")
Context = Any  # grpc.aio.ServicerContext is generic over messages; here every message is bytes

MAX_METADATA_BYTES = 32 * 1024
"""Tokens may have several kilobytes; HTTP servers allow about as much for all headers."""

LARGE_BYTES = 256 * 1024
"""Longer requests are read in a thread. Five bytes spell a part, so that a few megabytes take seconds."""


class GrpcServer:
    """The gRPC side of an app. `http_url` is where its HTTP side is, for the cards it hands out."""

    def __init__(self, app: App, *, http_url: str = "http://localhost") -> None:
        self._app = app
        self._http_url = http_url
        self._server: grpc.aio.Server | None = None
        self._health = _Health(app)

    async def start(self, host: str, port: int, credentials: grpc.ServerCredentials | None = None) -> int:
        """Listen, and give the port: 0 picks a free one.

        Raises:
            OSError: the port is taken or not ours to use.
        """
        server = grpc.aio.server(options=self._options())
        services = [dialect.service for dialect in (V1_0, V0_3)]
        server.add_generic_rpc_handlers(tuple(self._handlers(dialect) for dialect in (V1_0, V0_3)))
        _add_health(self._health, server)
        enable_reflection(server, services)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        try:
            if credentials is None:
                bound = server.add_insecure_port(address)
            else:
                bound = server.add_secure_port(address, credentials)
        except RuntimeError as exc:
            raise OSError(f"gRPC cannot listen at {address}: is the port in use?") from exc
        await server.start()
        self._health.services = ("", *services)
        await self._health.refresh()
        self._server = server
        self._app.announce_grpc(bound)
        return bound

    async def stop(self, grace: float = 0.0) -> None:
        """Take no more calls, and let those under way finish for a while."""
        await self._health.enter_graceful_shutdown()
        if self._server is not None:
            await self._server.stop(grace)

    def _options(self) -> list[tuple[str, int]]:
        limits = self._app.limits
        return [
            ("grpc.so_reuseport", 0),  # or two servers could share a port without knowing
            ("grpc.max_receive_message_length", limits.body_bytes),
            ("grpc.max_send_message_length", -1),
            ("grpc.max_metadata_size", MAX_METADATA_BYTES),
            ("grpc.max_concurrent_streams", limits.rates.streams or 2_000),
            ("grpc.keepalive_time_ms", int(limits.heartbeat_seconds * 1000)),
            ("grpc.keepalive_timeout_ms", int(limits.stalled_seconds * 1000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        ]

    def _handlers(self, dialect: ProtobufDialect) -> grpc.GenericRpcHandler:
        methods: dict[str, Any] = {}
        for operation in OPERATIONS:
            if not dialect.speaks(operation):
                continue
            rpc = _Rpc(self._app, dialect, operation, self._http_url)
            # For a unary request gRPC would take the whole message in before anybody is asked who sends it. Whether
            # a request is one message or a stream of them cannot be told from its bytes.
            make = grpc.stream_stream_rpc_method_handler if operation.streams else grpc.stream_unary_rpc_method_handler
            methods[dialect.rpc(operation).name] = make(rpc.follow if operation.streams else rpc.answer)
        return grpc.method_handlers_generic_handler(dialect.service, methods)


class _Health(_HealthServicer):
    """gRPC's health service, which says of every service what `/readyz` says."""

    def __init__(self, app: App) -> None:
        _HealthServicer.__init__(self)
        self._app = app
        self.services: tuple[str, ...] = ()

    async def Check(self, request: Any, context: Context) -> Any:
        """Answer whether a service should be called. Those who watch hear of it, too."""
        await self.refresh()
        return await _HealthServicer.Check(self, request, context)

    async def refresh(self) -> None:
        """Find out how the app is."""
        states = health_pb2.HealthCheckResponse
        state = states.NOT_SERVING if await self._app.health.reasons() else states.SERVING
        for service in self.services:
            await self.set(service, state)


class _Rpc:
    """One rpc of one dialect."""

    def __init__(self, app: App, dialect: ProtobufDialect, operation: Operation, http_url: str) -> None:
        self._app = app
        self._dialect = dialect
        self._operation = operation
        self._http_url = http_url
        self._request_class = dialect.rpc(operation).request
        self._stalled_seconds = app.limits.stalled_seconds

    # gRPC keeps the exception with which a call is aborted beside its context, and the traceback has our frames: what
    # they hold then waits for the collector, and so they hold neither the context nor the error before.

    async def answer(self, _: object, context: Context) -> bytes:
        """Answer one request."""
        answer = await self._answer(context)
        if isinstance(answer, bytes):
            return answer
        aborting = self._abort(context, answer)
        del _, context, answer
        return await aborting

    async def follow(self, _: object, context: Context) -> None:
        """Answer one request with a stream."""
        error = await self._follow(context)
        if error is not None:
            aborting = self._abort(context, error)
            del _, context, error
            await aborting

    async def _answer(self, context: Context) -> bytes | A2AError:
        operation = self._operation
        try:
            service, call, request = await self._understand(context)
            result = await service.answer(call, request)
            await _send_extensions(context, call)
            return await encoded(
                result, lambda value: self._dialect.encode_result(operation, value).SerializeToString()
            )
        except Exception as error:  # here a request ends
            return as_wire_error(error)

    async def _follow(self, context: Context) -> A2AError | None:
        """Send a stream, and give what has cut it off."""
        last = 0
        try:
            service, call, request = await self._understand(context)
            batches = with_endings(service.follow(call, request))
            del request  # a message may be large, and its stream long
            async with aclosing(batches):
                is_first = True
                while (marked := await self._next(batches)) is not None:
                    if is_first:
                        await _send_extensions(context, call)
                        is_first = False
                    while marked:
                        last = await self._send(context, call.address, marked)
            return None
        except Exception as error:  # here a request ends
            return resumable(as_wire_error(error), last)

    async def _send(self, context: Context, address: str, marked: Marked) -> int:
        """Send the next event, and give its number. It is let go when it is encoded."""
        seq, event, ends = marked.popleft()
        message = await encoded(event, lambda value: self._dialect.encode_event(value, ends=ends).SerializeToString())
        del event
        with self._app.bodies.holding(address, len(message)):
            await self._write(context, message)
        return seq

    async def _next(self, batches: AsyncGenerator[C]) -> C | None:
        """The next batch, or nothing at the end."""
        try:
            async with asyncio.timeout(self._app.limits.idle_stream_seconds):
                return await anext(batches, None)
        except TimeoutError:
            raise UnavailableError("The stream was idle; subscribe again from the last event") from None

    async def _write(self, context: Context, message: bytes) -> None:
        try:
            async with asyncio.timeout(self._stalled_seconds):
                await context.write(message)
        except TimeoutError:
            raise UnavailableError(
                "The reader took nothing for too long; subscribe again from the last event"
            ) from None

    async def _understand(self, context: Context) -> tuple[Service, Call, Any]:
        """Who asks what of whom."""
        headers = _headers(context)
        address = _address(context.peer())
        any_service = next(iter(self._app.services.values()))
        try:
            if not self._app.is_running:
                raise UnavailableError("The server is not running")
            self._check_version(headers.get("a2a-version"))
            identity = await any_service.authenticate(lambda: _credentials(context, headers, address), address)
            request: Any = await self._decode(await self._receive(context))
            service, request = self._choose(request, any_service)
            call = self._call(service, headers, identity, address)
            if self._operation.streams:
                call.after = cursor_in(headers)
        except A2AError as error:
            any_service.refused(Binding.GRPC, error)
            raise
        return service, call, request

    async def _receive(self, context: Context) -> bytes:
        """The one message of a request; one that does not come in time is as good as none."""
        try:
            async with asyncio.timeout(self._stalled_seconds):
                data = await context.read()
        except TimeoutError:
            raise InvalidRequestError("The message takes too long") from None
        if data is grpc.aio.EOF:
            raise InvalidRequestError("There is no message")
        return data

    async def _decode(self, data: bytes) -> Any:
        if len(data) <= LARGE_BYTES:
            return self._read(data)
        return await asyncio.to_thread(self._read, data)

    def _read(self, data: bytes) -> Any:
        return self._dialect.decode_request(self._operation, parse_request(self._request_class, data))

    def _check_version(self, header: str | None) -> None:
        stated = read_version(header)
        if stated is not None and stated is not self._dialect.version:
            raise VersionNotSupportedError(
                f"This service belongs to A2A {self._dialect.version}, but a2a-version says {stated}"
            )

    def _choose(self, request: Any, only: Service) -> tuple[Service, Any]:
        """The agent that a request is for, and the request without that word."""
        services = self._app.services
        if len(services) == 1:
            return only, request
        if self._dialect.version is not Version.V1_0:
            raise UnsupportedOperationError("Several agents are served here; only A2A 1.0 can say which is meant")
        name, _, tenant = (request.tenant or "").partition("/")
        service = services.get(name)
        if service is None:
            known = ", ".join(services)
            raise InvalidParamsError(f"Say in the tenant which agent is meant: {known}", path="$.tenant")
        return service, structs.replace(request, tenant=tenant or None)

    def _call(self, service: Service, headers: Mapping[str, str], identity: Identity, address: str) -> Call:
        return Call(
            service.agent_id,
            self._operation,
            self._dialect.version,
            Binding.GRPC,
            headers,
            identity,
            address,
            self._app.url_of(service.agent_id, self._http_url),
        )

    async def _abort(self, context: Context, error: A2AError) -> bytes:
        """End the call with an error, in the way of the dialect. Does not return."""
        trailers: list[tuple[str, str | bytes]] = [
            (name.decode(), value.decode()) for name, value in headers_of_error(error) if name != b"allow"
        ]
        if self._dialect.version is Version.V1_0:
            code, text = error.row.grpc, error.message  # a2a-sdk demands the same text as in the details
            trailers.append(("grpc-status-details-bin", encode_status(error).SerializeToString()))
        else:
            code, text = encode_status_text(error)
        aborting = context.abort(grpc.StatusCode[code], text, tuple(trailers))
        del context, error
        await aborting
        raise AssertionError("abort raises")


async def _send_extensions(context: Context, call: Call) -> None:
    if call.extensions:
        headers = extension_headers(call)
        await context.send_initial_metadata(tuple((name.decode(), value.decode()) for name, value in headers))


def _headers(context: Context) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in context.invocation_metadata() or ():
        if isinstance(value, str):  # names that end in -bin have bytes; nothing of ours is there
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _address(peer: str) -> str:
    """The IP address in gRPC's name for a peer: `ipv4:127.0.0.1:5000`, `ipv6:%5B::1%5D:5000`."""
    _, _, place = unquote(peer).partition(":")
    host = place.rpartition(":")[0].strip("[]")
    try:
        return str(ip_address(host))
    except ValueError:
        return ""


def _credentials(context: Context, headers: Mapping[str, str], address: str) -> Credentials:
    (pem, *_) = context.auth_context().get("x509_pem_cert") or (None,)
    certificate = PeerCertificate.from_pem(pem) if pem else None
    return Credentials(headers, {}, certificate, address)


def enable_reflection(server: grpc.aio.Server, services: list[str]) -> None:
    """Let tools ask which services there are. They are in our own pool, so its neighbours must be put there too."""
    pool = loaded_pool()
    for file in (health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR):
        pool.AddSerializedFile(file.serialized_pb)
    names = [*services, health.SERVICE_NAME, reflection.SERVICE_NAME]
    reflection.enable_server_reflection(names, server, pool=pool)
